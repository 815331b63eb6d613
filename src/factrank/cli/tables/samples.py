"""`factrank samples`: the bundled databases."""

from __future__ import annotations

from factrank.cli.support.terminal import Json, display, say_json
from factrank.databases import SAMPLES


def samples(json: Json = False) -> None:
    """List the bundled tables of facts.

    Use one as sample:NAME wherever a table is expected.

    Example: factrank samples
    """
    from factrank.report import samples_table  # noqa: PLC0415 - tables of results load SciPy

    if json:
        listed = [
            {"name": f"sample:{one.name}", "facts": one.n_facts, "title": one.title, "source": one.source}
            for one in SAMPLES.values()
        ]
        say_json({"samples": listed})
    else:
        display(samples_table())
