"""`factrank convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.sources import Long, Multi, NoHeader, Source, Wide, load
from factrank.cli.terminal import say
from factrank.databases import write


def convert(
    source: Source,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write; the suffix says the format.")],
    long: Long = None,
    wide: Wide = False,
    no_header: NoHeader = False,
    multi: Multi = False,
    write_wide: Annotated[
        bool, typer.Option("--write-wide", help="Write one key per row, one query per column.")
    ] = False,
) -> None:
    """Read a table of facts and write it in another format: CSV, TSV, JSON Lines, N-Triples or Parquet."""
    database = load(source, long=long, wide=wide, no_header=no_header, multi=multi)
    write(database, target, wide=write_wide)
    say(f"{database.n_facts:,} facts written to {target}")
