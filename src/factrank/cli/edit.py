"""`factrank edit`: set and delete facts of a constructed layer without touching the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.support.repeated_options import command_with, separate
from factrank.cli.support.sources import Table, reads_table
from factrank.cli.support.terminal import Json, display, progress, say, say_json
from factrank.databases import require_one_standard_input
from factrank.databases.files import FileLayout
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.families.attention.editing import Change, Edited

EditCommand = command_with({"--set": 3, "--delete": 2})
Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, as written by construct -o.")]


@partial(reads_table, without=("wide", "multi"))
def edit(
    layer: Layer,
    table: Table,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Set the value of a (key, query). Repeatable; in a table with several values for a (key, query), all "
            "values given for it replace those it had.",
            metavar="KEY QUERY VALUE",
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", help="Delete the fact of a (key, query). Repeatable.", metavar="KEY QUERY"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Read changes from a table with a key, a query and a value per row; an empty value deletes the "
            "fact. - is standard input. Repeatable.",
            metavar="FILE",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Save the layer even if it is not certified.")] = False,
    json: Json = False,
) -> None:
    """Set and delete facts of a constructed layer, in place.

    All other facts keep their answers. Their logits stay the same bit for bit, with two exceptions: the logits of a
    value that is new to the range of its query, and, in shared-heads, the logits of the same key for values outside
    the range.

    Layers by logits or by training have no place for each fact: the rows of the keys concerned are solved again. The
    other facts of these keys keep their answers but not their logits, all other keys keep both, and if no row holds
    the facts, nothing is changed (exit code 1). New values need a new layer there.

    New keys and values are added as long as the layer has room; the place of a value that lost its last fact is not
    reused. Either all changes are made or, with a message and exit code 2, none. The file is replaced atomically and
    gets a new certificate. If the edited layer cannot be certified, the file is left unchanged and the exit code is 1.
    Concurrent edits of one file wait for each other.

    Example: factrank edit layer.safetensors --set Astrid born_in Malaysia
    """
    changes = _changes(setting, delete, source or (), table.layout)
    from factrank.experiments.models import family_of_file  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report import edited_table  # noqa: PLC0415

    with progress().status("editing"):
        edited = family_of_file(layer).edit(layer, changes, force=force)
    written = edited.certificate.certified or force
    if json:
        say_json(_plain(layer, edited, written))
    else:
        display(edited_table(str(layer), edited))
        say(f"saved to {layer}" if written else f"{layer} was left unchanged")
    if not edited.certificate.certified:
        raise typer.Exit(1)


def _changes(
    setting: Sequence[str] | None, delete: Sequence[str] | None, sources: Sequence[str], layout: FileLayout
) -> list[Change]:
    from factrank.databases.files import read_changes  # noqa: PLC0415
    from factrank.families.attention.editing import Change  # noqa: PLC0415

    if not sources and layout != FileLayout():
        raise InputError("--long, --header and similar options describe the table of --from FILE, which is missing")
    changes = [Change(*words) for words in (*separate(setting), *separate(delete))]
    require_one_standard_input(sources)
    for source in sources:
        rows = read_changes(source, layout)
        changes += [Change(key, query, value, where) for where, key, query, value in rows]
    if not changes:
        raise InputError("no changes given: use --set KEY QUERY VALUE, --delete KEY QUERY or --from FILE")
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
        "moved": edited.n_moved,
        "answers_after_deletion": [{"key": k, "query": q, "answer": v} for k, q, v in silent],
        "certificate": edited.certificate.plain(),
    }
