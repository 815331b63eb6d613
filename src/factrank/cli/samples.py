"""`factrank samples`: the bundled databases."""

from __future__ import annotations

from rich.console import Console

from factrank.report.terminal import samples_table


def samples() -> None:
    """List the bundled databases; use one as sample:NAME wherever a file is expected."""
    Console(highlight=False).print(samples_table())
