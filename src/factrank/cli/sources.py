"""Where a command's facts come from: a file or a bundled sample."""

from __future__ import annotations

from typing import Annotated

import typer

from factrank.databases import Database, read, sample
from factrank.errors import InputError

SAMPLE_PREFIX = "sample:"

Source = Annotated[str, typer.Argument(metavar="FILE|sample:NAME", help="A table of facts, or a bundled sample.")]
Long = Annotated[
    tuple[str, str, str] | None,
    typer.Option(
        "--long",
        metavar="KEY QUERY VALUE",
        help="The three columns of a table with one fact per row, by name or by position from 1.",
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="The table has one key per row (first column) and one query per column.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is a fact, not the names of the columns.")]
Multi = Annotated[bool, typer.Option("--multi", help="Allow several values for one (key, query).")]


def load(source: str, *, long: tuple[str, str, str] | None, wide: bool, no_header: bool, multi: bool) -> Database:
    """The database that the options of a command describe."""
    if long is not None and wide:
        raise InputError("--long and --wide exclude each other: give one of them")
    if source.startswith(SAMPLE_PREFIX):
        if long is not None or wide or no_header:
            raise InputError(f"{source} is a bundled sample: --long, --wide and --no-header are for files")
        return sample(source.removeprefix(SAMPLE_PREFIX))
    return read(source, long=long, wide=wide, multi=multi, header=not no_header)
