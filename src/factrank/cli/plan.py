"""`factrank plan`: how large must a layer be for these facts?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.construct import PrecisionName
from factrank.cli.support.sources import Table, reads_table, title
from factrank.cli.support.terminal import Json, complain, display, progress, say, say_json
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.databases import Database
    from factrank.planning import Plan, Validation


@reads_table
def plan(
    table: Table,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...|sample:NAME]", help="Table of facts; or give its sizes instead.", show_default=False
        ),
    ] = None,
    facts: Annotated[float | None, typer.Option(metavar="N", help="Number of facts, such as 2e6.")] = None,
    keys: Annotated[float | None, typer.Option(metavar="N", help="Number of keys.")] = None,
    queries: Annotated[float | None, typer.Option(metavar="N", help="Number of queries.")] = None,
    values: Annotated[float | None, typer.Option(metavar="N", help="Number of values.")] = None,
    recall: Annotated[float, typer.Option(metavar="X", help="Fraction of the facts to recall.")] = 1.0,
    precision: Annotated[PrecisionName, typer.Option(help="Precision of the weights.")] = "float32",
    d_model: Annotated[int | None, typer.Option(metavar="N", help="Plan for this width.")] = None,
    heads: Annotated[int | None, typer.Option(metavar="N", help="Plan for this number of heads.")] = None,
    max_parameters: Annotated[
        int | None, typer.Option(metavar="N", help="Find the best layer with at most N parameters.")
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(metavar="R", help="Also plan a rank-R update of a frozen layer."),
    ] = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Train the plan, scaled down if it is large, and compare.")
    ] = False,
    json: Json = False,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw the Pareto front to this .html, .svg, .png or .json file.", metavar="FILE"),
    ] = None,
) -> None:
    """Plan the smallest layer for a table, from its sizes alone.

    Proved sizes come from closed forms, trained ones from the law of the capacity atlas with its intervals; excluded
    sizes cannot store the table. With --validate, the exit code is 1 if training contradicts the interval.

    Example: factrank plan --facts 2e6 --keys 2e5 --queries 10 --values 5000
    """
    from factrank.planning import plan as planned  # noqa: PLC0415 - not every command needs it

    if chart is not None:
        from factrank.report import require_chart_path  # noqa: PLC0415

        require_chart_path(chart)
    sizes: dict[str, Any] = {"n_facts": facts, "n_keys": keys, "n_queries": queries, "n_values": values}
    missing = [f"--{name[2:]}" for name, size in sizes.items() if size is None]
    if not source and missing:
        raise InputError(f"give a table of facts, or all of its sizes: {', '.join(missing)} missing")
    database = table.load(source) if source else None
    limits = {"d_model": d_model, "heads": heads, "max_parameters": max_parameters, "lora": lora}
    found = planned(database, **sizes, recall=recall, precision=precision, **limits)
    shown = title(source) if source else "a table of these sizes"
    if chart is not None:
        _draw(found, chart)
    _show(shown, found, database, json=json, validated=validate)


def _draw(found: Plan, path: Path) -> None:
    from factrank.report import plan_chart, save_chart  # noqa: PLC0415 - charts take a second to load

    save_chart(plan_chart(found), path)


def _show(source: str, found: Plan, database: Database | None, *, json: bool, validated: bool) -> None:
    trained = _trained(found, database) if validated else None
    if json:
        say_json(found.to_dict() | ({} if trained is None else {"validation": _as_data(trained)}))
    else:
        from factrank.report import plan_tables, validation_text  # noqa: PLC0415

        display(plan_tables(source, found))
        if trained is not None:
            say(f"\n{validation_text(trained)}")
    if trained is not None and trained.held is False:
        complain("the interval did not hold")
        raise typer.Exit(1)


def _trained(found: Plan, database: Database | None) -> Validation:
    from factrank.planning import validate  # noqa: PLC0415

    with progress().status("training the plan"):
        return validate(found, database)


def _as_data(trained: Validation) -> dict[str, Any]:
    return {
        "table": asdict(trained.plan.table),
        "layer": asdict(trained.layer),
        "recalls": list(trained.recalls),
        "scaled": trained.scaled,
        "held": trained.held,
    }
