"""`factrank measure`: how big is this table of facts?"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import complain, display, progress, say
from factrank.databases import Database
from factrank.report import measurement_table, skipped_table, terms_in_words
from factrank.tensors import DEFAULT_BUDGET, Measurement
from factrank.tensors import measure as measure_database
from factrank.tensors.cp import IntervalProof


@reads_table
def measure(
    source: Sources,
    table: Table,
    budget: Annotated[
        float, typer.Option(help="Seconds for the bounds, without reading the file; 0: only what counting shows.")
    ] = DEFAULT_BUDGET,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also print the rank-one terms that prove the upper bound, and what was not run."
        ),
    ] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Also draw the sizes into this .html, .svg, .png or .json file.", metavar="FILE")
    ] = None,
) -> None:
    """Say how big a table of facts really is: certified bounds on its rank, completion rank and effective rank."""
    if chart is not None:
        _require_chart(chart)
    database = table.load(source)
    with progress().status("measuring") as status:
        measurement = measure_database(
            database, budget, on_step=lambda method: status.update(f"measuring: {method}"), interruptible=True
        )
    if measurement.interrupted:
        complain("interrupted; costlier bounds were not run")
    if chart is not None:
        _draw(title(source), measurement, chart)
    if json:
        say(json_format.dumps(measurement.to_dict(), indent=2))
        return
    display(measurement_table(title(source), measurement))
    if explain:
        _explain(measurement, database)


def _explain(measurement: Measurement, database: Database) -> None:
    """Print the terms that prove the upper bound, and what was not run."""
    witness = measurement.rank.upper.witness
    heading = Text(f"\n{measurement.rank.upper.value} terms that add up to the table", style="bold")
    if callable(witness):
        display(heading, *(Text(f"  {line}") for line in terms_in_words(witness(), database)))
    if isinstance(witness, IntervalProof):
        newton = f" exist within {witness.radius:.1e} of a numerical solution, by interval Newton"
        display(heading + Text(newton, style="not bold"))
    display("", skipped_table(measurement))


def _require_chart(path: Path) -> None:
    from factrank.report import require_chart_path  # noqa: PLC0415 - charts take a second to load

    require_chart_path(path)


def _draw(source: str, measurement: Measurement, path: Path) -> None:
    from factrank.report import save_chart, sizes_chart  # noqa: PLC0415 - charts take a second to load

    save_chart(sizes_chart([(Path(source).name, measurement)]), path)
