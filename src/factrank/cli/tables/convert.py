"""`factrank convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.sources import Sources, Table, reads_table
from factrank.cli.support.terminal import Json, say_result
from factrank.databases.files import write


@reads_table
def convert(
    source: Sources,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; its suffix determines the format.")],
    table: Table,
    write_wide: Annotated[
        bool, typer.Option("--write-wide", help="Write one key per row and one query per column.")
    ] = False,
    json: Json = False,
) -> None:
    """Convert a table of facts to another file format.

    The formats are CSV, TSV, JSON Lines, N-Triples, N-Quads, Turtle and Parquet.

    Example: factrank convert facts.csv facts.parquet
    """
    database = table.load(source)
    write(database, target, wide=write_wide)
    text = f"{database.n_facts:,} facts written to {target}"
    say_result(text, {"output": str(target), "facts": database.n_facts}, json=json)
