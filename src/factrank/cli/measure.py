"""`factrank measure`: certified bounds on the size of a table of facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import Json, complain, display, progress, say_json
from factrank.databases import Database

if TYPE_CHECKING:
    from factrank.tensors import Measurement

DEFAULT_BUDGET = 10.0


@reads_table
def measure(
    source: Sources,
    table: Table,
    budget: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Time for the bounds, not counting the reading of the file; 0: counting only."
        ),
    ] = DEFAULT_BUDGET,
    json: Json = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also print the rank-one terms that prove the upper bound, and the methods that were not run.",
        ),
    ] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Also draw the sizes to this .html, .svg, .png or .json file.", metavar="FILE")
    ] = None,
) -> None:
    """Measure how big a table of facts is, with certified bounds.

    Reports the number of facts, their information in bits, and lower and upper bounds on the rank, completion rank and
    effective rank of the table's 0/1 tensor.

    Example: factrank measure facts.csv --explain
    """
    from factrank.report import measurement_table  # noqa: PLC0415 - SciPy takes a third of a second to load
    from factrank.tensors import measure as measure_database  # noqa: PLC0415

    if chart is not None:
        from factrank.report import require_chart_path, save_chart, sizes_chart  # noqa: PLC0415 - slow to load

        require_chart_path(chart)
    database = table.load(source)
    with progress().status("measuring") as status:
        measurement = measure_database(
            database, budget, on_step=lambda method: status.update(f"measuring: {method}"), interruptible=True
        )
    if measurement.interrupted:
        complain("interrupted; the more expensive bounds were not run")
    if chart is not None:
        save_chart(sizes_chart([(Path(title(source)).name, measurement)]), chart)
    if json:
        say_json(measurement.to_dict())
        return
    display(measurement_table(title(source), measurement))
    if explain:
        _explain(measurement, database)


def _explain(measurement: Measurement, database: Database) -> None:
    """Print the terms that prove the upper bound, and the methods that were not run."""
    from factrank.report import skipped_table, terms_in_words  # noqa: PLC0415
    from factrank.tensors.cp import IntervalProof, ProjectedProof  # noqa: PLC0415

    witness = measurement.rank.upper.witness
    heading = Text(f"\n{measurement.rank.upper.value} terms that add up to the table", style="bold")
    if callable(witness):
        display(heading, *(Text(f"  {line}") for line in terms_in_words(witness(), database)))
    if isinstance(witness, IntervalProof | ProjectedProof):
        newton = f" exist within {witness.radius:.1e} of a numerical solution, by interval Newton"
        display(heading + Text(newton, style="not bold"))
    display("", skipped_table(measurement))
