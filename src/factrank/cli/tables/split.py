"""`factrank split`: divide a table into training, validation and test facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.sources import Sources, Table, reads_table
from factrank.cli.support.terminal import Json, say_result
from factrank.databases import split_facts
from factrank.databases.files import write_splits
from factrank.errors import InputError

Fraction = Annotated[float, typer.Option(min=0.0, max=1.0, metavar="FRACTION", help="Fraction of the facts in it.")]


@reads_table
def split(
    source: Sources,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for a file of each split, or one N-Quads file (.nq).")
    ],
    table: Table,
    valid: Fraction = 0.1,
    test: Fraction = 0.1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random order.")] = 0,
    file_format: Annotated[
        str, typer.Option("--format", metavar="SUFFIX", help="Format of the files in the folder.")
    ] = ".tsv",
    json: Json = False,
) -> None:
    """Split a table at random into train, valid and test.

    Every key, query and value has at least one fact in train, so that a layer trained on it knows all names. A split
    with the fraction 0 is left out.

    Example: factrank split facts.csv splits --valid 0.1 --test 0.1
    """
    if valid + test >= 1:
        raise InputError(f"--valid and --test must leave facts to train on; they are {valid + test:g} together")
    asked = {"train": 1.0 - valid - test, "valid": valid, "test": test}
    splits = split_facts(table.load(source), {name: share for name, share in asked.items() if share}, seed=seed)
    written = write_splits(splits, folder, suffix=file_format)
    counts = {name: len(part) for name, part in splits.items()}
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    files = [str(path) for path in written]
    say_result(f"{text} facts written to {', '.join(files)}", {"facts": counts, "output": files}, json=json)
