"""`factrank samples`: the bundled databases."""

from __future__ import annotations

from factrank.cli.support.terminal import display
from factrank.report import samples_table


def samples() -> None:
    """List the bundled databases; use one as sample:NAME wherever a file is expected."""
    display(samples_table())
