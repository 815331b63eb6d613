"""`factrank verify`: whether a layer recalls every fact of a table, checked and proved from its weights alone.

And whether what the file says in addition to the weights is true: the facts that it stores, its certificate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Table, reads_table, title
from factrank.cli.support.terminal import display, progress, say
from factrank.databases import Agreement, agreement_of, recode
from factrank.errors import InputError
from factrank.foreign_text import shown_name

if TYPE_CHECKING:
    from factrank.certificates import Certificate
    from factrank.databases import Database
    from factrank.families.attention import SavedLayer

Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, constructed or trained.")]
SourcesIfAny = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...|sample:NAME",
        help="A table of facts, or several; a bundled sample; the facts in the layer file if not given.",
    ),
]


@reads_table
def verify(
    layer: Layer,
    table: Table,
    source: SourcesIfAny = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Certify that a layer recalls every fact of a table: each is checked, and every order of evaluation is proved.

    The proof is from the weights alone. Without a table, the facts are those that the file itself stores. The exit code
    is 0 if the layer is certified and the file says nothing else: its stored facts, by which `factrank ask` judges
    answers, do not contradict the table, and its certificate, if it has one, is for these weights and stored facts.
    Otherwise it is 1.
    """
    from factrank.experiments import verify as certificate_of  # noqa: PLC0415 - JAX takes a second to load
    from factrank.families.attention import load_layer  # noqa: PLC0415
    from factrank.report import json_text  # noqa: PLC0415

    if not source and table != Table():
        raise InputError("--long, --wide, --multi and the like describe a table: give its file after the layer")
    saved = load_layer(layer)
    facts = _in_codes_of(saved, table.load(source), title(source)) if source else _stored_facts(layer, saved)
    with progress().status("verifying"), naming(layer):
        found = certificate_of(saved.layer, facts)
    agreement = agreement_of(saved.database, facts)
    wrong = _against_certificate(saved, found)
    complaints = wrong + _against_facts(saved.database, facts, agreement)
    name = title(source) if source else None
    if json:
        say(json_text(_plain(layer, name, saved, found, agreement, wrong, complaints)))
    else:
        heading = f"{layer} on {name or 'the facts that it stores'}"
        display(_report(heading, saved, found, agreement, complaints))
    if complaints or not found.certified:
        raise typer.Exit(1)


def _stored_facts(layer: Path, saved: SavedLayer) -> Database:
    if not len(saved.database):
        raise InputError(f"{layer}: the file stores no facts; give a table to verify them against")
    return saved.database


def _in_codes_of(saved: SavedLayer, database: Database, source: str) -> Database:
    try:
        return recode(database, onto=saved.database)
    except InputError as error:
        raise InputError(f"{source}: the layer does not know this table: {error}") from None


def _against_certificate(saved: SavedLayer, found: Certificate) -> tuple[str, ...]:
    """What is wrong with the certificate in the file; nothing if the file has none."""
    from factrank.certificates import CERTIFICATE_NOTE, certificate_from_json  # noqa: PLC0415

    if CERTIFICATE_NOTE not in saved.notes:
        return ()
    try:
        stored = certificate_from_json(saved.notes[CERTIFICATE_NOTE], found)
    except InputError as error:
        return (f"the certificate in the file cannot be read: {error}",)
    differences = found.differences(stored)
    if stored.database != saved.database.fingerprint:
        differences += ("stored facts",)
    return (f"the certificate in the file is for other content: {', '.join(differences)}",) if differences else ()


def _against_facts(stored: Database, table: Database, agreement: Agreement) -> tuple[str, ...]:
    """Where the facts in the file contradict the table."""
    n_pairs = len(agreement.contradicted)
    if not n_pairs:
        return ()
    key, query = (int(code) for code in agreement.contradicted[0])
    names = stored.keys[key], stored.queries[query]
    theirs, ours = (", ".join(map(shown_name, facts.fiber(*names)[:3])) for facts in (stored, table))
    complaint = (
        f"the facts stored in the file, by which factrank ask judges answers, contradict the table for {n_pairs:,} "
        f"(key, query) pair{'s' if n_pairs > 1 else ''}: ({', '.join(map(shown_name, names))}) is {theirs} in the "
        f"file, {ours} in the table"
    )
    return (complaint,)


def _plain(
    layer: Path,
    source: str | None,
    saved: SavedLayer,
    found: Certificate,
    agreement: Agreement,
    wrong: tuple[str, ...],
    complaints: tuple[str, ...],
) -> dict[str, Any]:
    from factrank.certificates import CERTIFICATE_NOTE  # noqa: PLC0415

    return {
        "layer": str(layer),
        "table": source,
        "parameters": saved.layer.parameters,
        **found.to_dict(),
        "stored_certificate": None if CERTIFICATE_NOTE not in saved.notes else not wrong,
        "stored_facts": {
            "facts": len(saved.database),
            "shared": agreement.shared,
            "contradicted": len(agreement.contradicted),
        },
        "complaints": list(complaints),
    }


def _report(
    title: str, saved: SavedLayer, found: Certificate, agreement: Agreement, complaints: tuple[str, ...]
) -> RenderableType:
    from factrank.report import (  # noqa: PLC0415
        name_text,
        number,
        plain_table,
        worst_fact,
    )

    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    table.add_row("facts", f"{found.facts:,}", "")
    table.add_row("recalled", f"{found.recalled:,}", f"by the layer's own forward pass in {found.precision}")
    table.add_row("least margin", number(found.margin), worst_fact(found))
    table.add_row("proved margin", number(found.proved_margin), f"in every order of evaluation: {found.arithmetic}")
    if not agreement.shared == found.facts == len(saved.database):
        table.add_row(
            "stored facts", f"{len(saved.database):,}", f"in the file, {agreement.shared:,} of these among them"
        )
    if found["silent_fibers"]:
        answered, artifacts = ("?" if n is None else f"{n:,}" for n in (found["answered"], found["artifacts"]))
        silent = f"of {found['silent_fibers']:,} (key, query) pairs without a fact have"
        table.add_row("answered", answered, f"{silent} one best value")
        table.add_row("artifacts", artifacts, f"{silent} a value with probability >= 0.95")
    if found.certified:
        verdict = Text("certified: every fact is recalled", style="green")
    else:
        verdict = Text(f"not certified: {found.reason}", style="red")
    return Group(name_text(title, longest=None, style="bold"), table, verdict, *map(Text, complaints))
