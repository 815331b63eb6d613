"""`factrank verify`: whether a model recalls every fact of a table, checked and proved from its weights alone.

And whether what the file says in addition to the weights is true: the facts that it stores, its certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Table, reads_table, title
from factrank.cli.support.terminal import display, progress, say
from factrank.databases import Agreement, Database, agreement_of, recode
from factrank.errors import InputError
from factrank.foreign_text import shown_name

if TYPE_CHECKING:
    from factrank.certificates import Certificate

Layer = Annotated[Path, typer.Argument(metavar="FILE", help="A layer file or model file, constructed or trained.")]
SourcesIfAny = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE...|sample:NAME",
        help="A table of facts, or several; a bundled sample; what the file itself stores if not given.",
    ),
]


@dataclass(frozen=True, eq=False)
class _Verified:
    """A file, what was verified, and what is wrong with the rest of the file.

    Arguments:
        saved: the file.
        found: the certificate.
        agreement: of the stored facts and the table; None for examples, which are the stored ones.
        wrong: what is wrong with the stored certificate.
        complaints: that, and what is wrong with the stored facts.
    """

    saved: Any
    found: Certificate
    agreement: Agreement | None
    wrong: tuple[str, ...]
    complaints: tuple[str, ...]


@reads_table
def verify(
    layer: Layer,
    table: Table,
    source: SourcesIfAny = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="How far from a real label the answer of a memoriser may be; 0.0001 if not given."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Certify that a model recalls every fact of a table: each is checked, and every order of evaluation is proved.

    The proof is from the weights alone. Without a table, the facts are those that the file itself stores. The exit code
    is 0 if the model is certified and the file says nothing else: its stored facts, by which `factrank ask` judges
    answers, do not contradict the table, and its certificate, if it has one, is for these weights and stored facts.
    Otherwise it is 1.
    """
    from factrank.experiments.models import load  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report import json_text  # noqa: PLC0415

    if not source and table != Table():
        raise InputError("--long, --wide, --multi and the like describe a table: give its file after the layer")
    saved = load(layer)
    data = _in_codes_of(layer, saved.data, table, source) if source else _stored(layer, saved.data)
    with progress().status("verifying"), naming(layer):
        done = _verified(saved, data, {} if tolerance is None else {"tolerance": tolerance})
    name = title(source) if source else None
    if json:
        say(json_text(_plain(layer, name, done)))
    else:
        what = "facts" if isinstance(data, Database) else "examples"
        display(_report(f"{layer} on {name or f'the {what} that it stores'}", what, done))
    if done.complaints or not done.found.certified:
        raise typer.Exit(1)


def _stored(layer: Path, data: Any) -> Any:
    if isinstance(data, Database) and not len(data):
        raise InputError(f"{layer}: the file stores no facts; give a table to verify them against")
    return data


def _in_codes_of(layer: Path, stored: Any, table: Table, source: list[str]) -> Database:
    if not isinstance(stored, Database):
        raise InputError(f"{layer}: the model reads vectors, which the file holds; leave the table out")
    try:
        return recode(table.load(source), onto=stored)
    except InputError as error:
        raise InputError(f"{title(source)}: the layer does not know this table: {error}") from None


def _verified(saved: Any, data: Any, options: dict[str, Any]) -> _Verified:
    from factrank.certificates import certify  # noqa: PLC0415
    from factrank.experiments import family_of  # noqa: PLC0415

    family = family_of(saved.spec)
    if options and isinstance(data, Database):
        raise InputError("--tolerance is for memorisers with real labels")
    found = certify(family.prover(saved.model, data, **{**family.proof_options(saved.spec), **options}))
    agreement = agreement_of(saved.data, data) if isinstance(data, Database) else None
    wrong = _against_certificate(saved, found)
    against = () if agreement is None else _against_facts(saved.data, data, agreement)
    return _Verified(saved, found, agreement, wrong, wrong + against)


def _against_certificate(saved: Any, found: Certificate) -> tuple[str, ...]:
    """What is wrong with the certificate in the file; nothing if the file has none."""
    from factrank.certificates import CERTIFICATE_NOTE, certificate_from_json  # noqa: PLC0415

    if CERTIFICATE_NOTE not in saved.notes:
        return ()
    try:
        stored = certificate_from_json(saved.notes[CERTIFICATE_NOTE], found)
    except InputError as error:
        return (f"the certificate in the file cannot be read: {error}",)
    differences = found.differences(stored)
    if stored.database != saved.data.fingerprint:
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


def _plain(layer: Path, source: str | None, done: _Verified) -> dict[str, Any]:
    from factrank.certificates import CERTIFICATE_NOTE  # noqa: PLC0415

    saved, agreement = done.saved, done.agreement
    return {
        "layer": str(layer),
        "table": source,
        **_numbers(saved, done.found),
        "stored_certificate": None if CERTIFICATE_NOTE not in saved.notes else not done.wrong,
        "stored_facts": agreement
        and {
            "facts": len(saved.data),
            "shared": agreement.shared,
            "contradicted": len(agreement.contradicted),
        },
        "complaints": list(done.complaints),
    }


def _numbers(saved: Any, found: Certificate) -> dict[str, Any]:
    """The certificate and all scalars; those that a paper counts, such as without embeddings, by another name."""
    from factrank.nn import stored_scalars  # noqa: PLC0415

    plain = found.to_dict()
    counted = {"counted_parameters": plain.pop("parameters")} if "parameters" in plain else {}
    return {"parameters": stored_scalars(saved.model), **plain, **counted}


def _report(title: str, what: str, done: _Verified) -> RenderableType:
    from factrank.report import add_details, name_text, number, plain_table, worst_fact  # noqa: PLC0415

    found, agreement = done.found, done.agreement
    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    itself = "layer" if "silent_fibers" in found.details else "model"
    table.add_row(what, f"{found.facts:,}", "")
    table.add_row("recalled", f"{found.recalled:,}", f"by the {itself}'s own forward pass in {found.precision}")
    table.add_row("least margin", number(found.margin), worst_fact(found))
    table.add_row("proved margin", number(found.proved_margin), f"in every order of evaluation: {found.arithmetic}")
    if agreement is not None and not agreement.shared == found.facts == len(done.saved.data):
        n_stored = len(done.saved.data)
        table.add_row("stored facts", f"{n_stored:,}", f"in the file, {agreement.shared:,} of these among them")
    add_details(table, found, artifacts=True)
    if found.certified:
        verdict = Text(f"certified: every {what.removesuffix('s')} is recalled", style="green")
    else:
        verdict = Text(f"not certified: {found.reason}", style="red")
    return Group(name_text(title, longest=None, style="bold"), table, verdict, *map(Text, done.complaints))
