"""`factrank edit`: facts of a constructed layer set and deleted, without touching any other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.support.repeated_options import command_with, separate
from factrank.cli.support.sources import Table, reads_table
from factrank.cli.support.terminal import display, progress, say
from factrank.databases import require_one_standard_input
from factrank.databases.files import FileLayout
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.families.attention.editing import Change, Edited

EditCommand = command_with({"--set": 3, "--delete": 2})
Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, as `factrank construct -o` writes it.")]


@partial(reads_table, without=("wide", "multi"))
def edit(
    layer: Layer,
    table: Table,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="The value that a (key, query) gets; may be given many times.", metavar="KEY QUERY VALUE"
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", help="The fact that goes; may be given many times.", metavar="KEY QUERY"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Many changes at once: a table with a key, a query and a value per row; an empty value "
            "deletes. - is standard input.",
            metavar="FILE",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Save the layer even if it is not certified.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Set and delete facts of a constructed layer; all other facts keep their answers.

    They keep their logits too, bit for bit, with two exceptions: those of a value that is new to the range of their
    query, and, in shared-heads, for the same key those of values outside the range.

    New keys and values are taken in while the layer has room; places of values without facts are not freed. All changes
    are made together or, with a message and exit code 2, none. The file is replaced in one step, with a new
    certificate; where the layer would not be certified it stays as it is, and the exit code is 1. Edits of one file by
    several processes wait for each other.
    """
    changes = _changes(setting, delete, source or (), table.layout)
    from factrank.experiments.models import family_of_file  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report import (  # noqa: PLC0415
        edited_table,
        json_text,
    )

    with progress().status("editing"):
        edited = family_of_file(layer).edit(layer, changes, force=force)
    written = edited.certificate.certified or force
    if json:
        say(json_text(_plain(layer, edited, written)))
    else:
        display(edited_table(str(layer), edited))
        say(f"saved to {layer}" if written else f"{layer} stays as it is")
    if not edited.certificate.certified:
        raise typer.Exit(1)


def _changes(
    setting: Sequence[str] | None, delete: Sequence[str] | None, sources: Sequence[str], layout: FileLayout
) -> list[Change]:
    from factrank.databases.files import read_changes  # noqa: PLC0415
    from factrank.families.attention.editing import Change  # noqa: PLC0415

    if not sources and layout != FileLayout():
        raise InputError("--long, --header and the like describe the table of --from FILE")
    changes = [Change(*words) for words in (*separate(setting), *separate(delete))]
    require_one_standard_input(sources)
    for source in sources:
        rows = read_changes(source, layout)
        changes += [Change(key, query, value, where) for where, key, query, value in rows]
    if not changes:
        raise InputError("say what to change: --set KEY QUERY VALUE, --delete KEY QUERY or --from FILE")
    return changes


def _plain(layer: Path, edited: Edited, written: bool) -> dict[str, Any]:
    database = edited.saved.database
    silent = [
        (database.keys[key], database.queries[query], None if value is None else database.values[value])
        for key, query, value in edited.answers_after_deletion()
    ]
    return {
        "layer": str(layer),
        "saved": written,
        "set": edited.n_set,
        "deleted": edited.n_deleted,
        "unchanged": edited.n_unchanged,
        "new_keys": edited.new_keys,
        "new_values": edited.new_values,
        "answers_after_deletion": [{"key": k, "query": q, "answer": v} for k, q, v in silent],
        "certificate": edited.certificate.plain(),
    }
