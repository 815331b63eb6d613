"""`factrank measure`: how big is this table of facts?"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from factrank.cli.sources import Long, Multi, NoHeader, Source, Wide, load
from factrank.report.terminal import measurement_table, skipped_table
from factrank.report.terms import terms_in_words
from factrank.tensors import Measurement
from factrank.tensors import measure as measure_database
from factrank.tensors.interval_proof import IntervalProof
from factrank.tensors.measure import DEFAULT_BUDGET


def measure(
    source: Source,
    long: Long = None,
    wide: Wide = False,
    no_header: NoHeader = False,
    multi: Multi = False,
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
    database = load(source, long=long, wide=wide, no_header=no_header, multi=multi)
    progress = Console(stderr=True)
    with progress.status("measuring") as status:
        measurement = measure_database(
            database, budget, on_step=lambda method: status.update(f"measuring: {method}"), interruptible=True
        )
    if measurement.interrupted:
        typer.echo("factrank: interrupted; dearer bounds were not run", err=True)
    if chart is not None:
        _draw(source, measurement, chart)
    if json:
        typer.echo(json_format.dumps(measurement.to_dict(), indent=2))
        return
    console = Console(highlight=False)
    console.print(measurement_table(source, measurement))
    witness = measurement.rank.upper.witness
    if explain and callable(witness):
        console.print(f"\n[bold]{measurement.rank.upper.value} terms that add up to the table[/bold]")
        for line in terms_in_words(witness(), database):
            console.print(f"  {line}", markup=False)
    if explain and isinstance(witness, IntervalProof):
        console.print(
            f"\n[bold]{witness.rank} terms that add up to the table[/bold] exist within {witness.radius:.1e} "
            "of a numerical solution, by interval Newton"
        )
    if explain:
        console.print()
        console.print(skipped_table(measurement))


def _require_chart(path: Path) -> None:
    from factrank.report.charts import require_chart_path  # noqa: PLC0415 - charts take a second to load

    require_chart_path(path)


def _draw(source: str, measurement: Measurement, path: Path) -> None:
    from factrank.report.charts import save_chart, sizes_chart  # noqa: PLC0415 - charts take a second to load

    save_chart(sizes_chart([(Path(source).name, measurement)]), path)
