"""`factrank ls`: what can be chosen by name, built in or from other packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from factrank.cli.support.listings import LISTINGS, Row
from factrank.cli.support.terminal import Json, display, say_json
from factrank.report import Kind, plain_table

Listed = Literal["generators", "families", "forms", "bounds", "formats", "studies", "samples"]
COLUMNS: dict[str, Kind] = {
    "name": "word",
    "of": "word",
    "family": "word",
    "paper": "word",
    "facts": "number",
    "description": "text",
    "package": "word",
}
"""The columns of a table; other details are lines below the description."""


def ls(
    what: Annotated[Listed, typer.Argument(metavar="KIND", help="What to list.")],
    json: Json = False,
) -> None:
    """List generators, families, forms and what else has a name.

    Installed packages may add to the built-in ones.

    Example: factrank ls generators
    """
    rows = LISTINGS[what]()
    if json:
        say_json(rows)
        return
    shown = {name: kind for name, kind in COLUMNS.items() if name in rows[0]}
    if "description" not in shown:  # then the name is what wraps
        shown["name"] = "text"
    table = plain_table(*shown.items())
    for row in rows:
        table.add_row(*(_cell(name, row) for name in shown))
    display(table)


def _cell(name: str, row: Row) -> str:
    if name != "description":
        return f"{row[name]:,}" if name == "facts" else str(row[name])
    details = {detail: value for detail, value in row.items() if detail not in COLUMNS and value}
    lines = [str(row[name]), *(f"{detail}: {_listed(value)}" for detail, value in details.items())]
    return "\n".join(filter(None, lines))


def _listed(value: object) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    return ", ".join(_argument(one) if isinstance(one, dict) else str(one) for one in value)


def _argument(argument: Row) -> str:
    return f"{argument['name']}={argument['default']}" if "default" in argument else str(argument["name"])
