"""`factrank convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.sources import Sources, Table, reads_table
from factrank.cli.support.terminal import say
from factrank.databases.files import write


@reads_table
def convert(
    source: Sources,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write; the suffix says the format.")],
    table: Table,
    write_wide: Annotated[
        bool, typer.Option("--write-wide", help="Write one key per row, one query per column.")
    ] = False,
) -> None:
    """Read a table of facts and write it in another format: CSV, TSV, JSON Lines, N-Triples, Turtle or Parquet."""
    database = table.load(source)
    write(database, target, wide=write_wide)
    say(f"{database.n_facts:,} facts written to {target}")
