"""`factrank verify`: whether a layer recalls every fact of a table, checked and proved from its weights alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from factrank.cli.sources import Long, Multi, NoHeader, Source, Wide, load
from factrank.databases.recoding import recode
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.constructions.certificate import Certificate
    from factrank.databases import Database
    from factrank.models import SavedLayer

Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, constructed or trained.")]


def verify(
    layer: Layer,
    source: Source,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    long: Long = None,
    wide: Wide = False,
    no_header: NoHeader = False,
    multi: Multi = False,
) -> None:
    """Certify that a layer recalls every fact of a table: each is checked, and every order of evaluation is proved.

    Nothing in the file is believed but the weights. The exit code is 0 where the layer is certified and agrees with the
    certificate that the file may hold, else 1.
    """
    from factrank.constructions.verify import verify as certificate_of  # noqa: PLC0415 - JAX takes a second to load
    from factrank.models import load_layer  # noqa: PLC0415
    from factrank.report.plain import json_text  # noqa: PLC0415

    saved = load_layer(layer)
    facts = _in_codes_of(saved, load(source, long=long, wide=wide, no_header=no_header, multi=multi), source)
    with Console(stderr=True).status("verifying"):
        found = certificate_of(saved.layer, facts)
    complaints = _against_stored(saved, found)
    if json:
        typer.echo(json_text(_plain(layer, saved, found, complaints)))
    else:
        Console(highlight=False).print(_report(f"{layer} on {source}", found, complaints))
    if complaints or not found.certified:
        raise typer.Exit(1)


def _in_codes_of(saved: SavedLayer, database: Database, source: str) -> Database:
    try:
        return recode(database, onto=saved.database)
    except InputError as error:
        raise InputError(f"{source}: the layer does not know this table: {error}") from None


def _against_stored(saved: SavedLayer, found: Certificate) -> tuple[str, ...]:
    """What the certificate in the file says otherwise; nothing where the file has none."""
    from factrank.constructions.certificate import CERTIFICATE_NOTE, certificate_from_json  # noqa: PLC0415

    if CERTIFICATE_NOTE not in saved.notes:
        return ()
    try:
        stored = certificate_from_json(saved.notes[CERTIFICATE_NOTE])
    except InputError as error:
        return (f"the certificate in the file cannot be read: {error}",)
    differences = found.differences(stored)
    return (f"the certificate in the file is for other content: {', '.join(differences)}",) if differences else ()


def _plain(layer: Path, saved: SavedLayer, found: Certificate, complaints: tuple[str, ...]) -> dict[str, Any]:
    from factrank.constructions.certificate import CERTIFICATE_NOTE  # noqa: PLC0415

    return {
        "layer": str(layer),
        "parameters": saved.layer.parameters,
        **found.to_dict(),
        "stored_certificate": None if CERTIFICATE_NOTE not in saved.notes else not complaints,
        "complaints": list(complaints),
    }


def _report(title: str, found: Certificate, complaints: tuple[str, ...]) -> RenderableType:
    from factrank.report.plain import name_text, number, shown_name  # noqa: PLC0415
    from factrank.report.tables import plain_table  # noqa: PLC0415

    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    worst = "" if found.worst is None else f"({', '.join(map(shown_name, found.worst))})"
    table.add_row("facts", f"{found.facts:,}", "")
    table.add_row("recalled", f"{found.recalled:,}", f"by the layer's own forward pass in {found.precision}")
    table.add_row("least margin", number(found.margin), worst)
    table.add_row("proved margin", number(found.proved_margin), f"in every order of evaluation: {found.arithmetic}")
    if found.silent_fibers:
        answered, artifacts = ("?" if n is None else f"{n:,}" for n in (found.answered, found.artifacts))
        silent = f"of {found.silent_fibers:,} (key, query) pairs without a fact have"
        table.add_row("answered", answered, f"{silent} one best value")
        table.add_row("artifacts", artifacts, f"{silent} a value with probability >= 0.95")
    if found.certified:
        verdict = Text("certified: every fact is recalled", style="green")
    else:
        verdict = Text(f"not certified: {found.reason}", style="red")
    return Group(name_text(title, longest=None, style="bold"), table, verdict, *map(Text, complaints))
