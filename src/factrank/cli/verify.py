"""`factrank verify`: prove from its weights alone that a model recalls every fact of a table.

Also checks the rest of the model file: its stored facts and its certificate.
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
from factrank.cli.support.terminal import Json, display, progress, say_json
from factrank.databases import Agreement, Database, agreement_of
from factrank.errors import InputError
from factrank.foreign_text import shown_name

if TYPE_CHECKING:
    from factrank.certificates import Certificate

Layer = Annotated[Path, typer.Argument(metavar="FILE", help="A layer or model file, constructed or trained.")]
SourcesIfAny = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE...",
        help="A file of facts, or several to read as one table, or sample:NAME; by default, the facts that the model "
        "file stores.",
    ),
]


@dataclass(frozen=True, eq=False)
class _Verified:
    """A model file, its new certificate, and the faults in the rest of the file.

    Arguments:
        saved: the file.
        found: the new certificate.
        agreement: agreement of the stored facts with the table; None for vector examples.
        wrong: faults of the stored certificate.
        complaints: `wrong`, and contradictions between the stored facts and the table.
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
        typer.Option(metavar="X", help="Largest error allowed on real labels (memorisers only); 0.0001 by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Prove that a model recalls every fact of a table.

    Every fact is checked with the model's own forward pass, and the margins are proved under any floating-point
    summation order. Only the weights are trusted. The exit code is 0 if the model is certified and the rest of the
    file agrees: its stored facts, by which `factrank ask` judges answers, do not contradict the table, and its stored
    certificate, if any, belongs to these weights and facts. What that certificate claims of probabilities and of pairs
    without a fact (construct --tau, --abstain) is proved again. Otherwise the exit code is 1.

    Example: factrank verify layer.safetensors facts.csv
    """
    from factrank.experiments.models import load  # noqa: PLC0415 - JAX takes a second to load

    if not source and table != Table():
        raise InputError("--long, --wide, --multi and similar options describe a table: give its file after the layer")
    saved = load(layer)
    data = _data(layer, saved.data, table, source)
    with progress().status("verifying"), naming(layer):
        done = _verified(saved, data, {} if tolerance is None else {"tolerance": tolerance})
    name = title(source) if source else None
    if json:
        say_json(_plain(layer, name, done))
    else:
        what = "facts" if isinstance(data, Database) else "examples"
        display(_report(f"{layer} on {name or f'its stored {what}'}", what, done))
    if done.complaints or not done.found.certified:
        raise typer.Exit(1)


def _data(layer: Path, stored: Any, table: Table, source: list[str] | None) -> Any:
    """Return the facts of the table in the codes of the model, or else the stored facts or examples."""
    if source:
        if not isinstance(stored, Database):
            raise InputError(f"{layer}: the model reads vectors, which are stored in the file; give no table")
        return table.load_onto(source, stored)
    if isinstance(stored, Database) and not len(stored):
        raise InputError(f"{layer}: the file stores no facts; give a table to verify against")
    return stored


def _verified(saved: Any, data: Any, options: dict[str, Any]) -> _Verified:
    from factrank.certificates import certify  # noqa: PLC0415
    from factrank.experiments import family_of  # noqa: PLC0415
    from factrank.experiments.models import claimed_options  # noqa: PLC0415

    family = family_of(saved.spec)
    if options and isinstance(data, Database):
        raise InputError("--tolerance applies only to memorisers with real labels")
    try:
        claimed = claimed_options(saved)
    except InputError:
        claimed = {}  # `_against_certificate` says so
    found = certify(family.prover(saved.model, data, **{**family.proof_options(saved.spec), **claimed, **options}))
    agreement = agreement_of(saved.data, data) if isinstance(data, Database) else None
    wrong = _against_certificate(saved, found)
    against = () if agreement is None else _against_facts(saved.data, data, agreement)
    return _Verified(saved, found, agreement, wrong, wrong + against)


def _against_certificate(saved: Any, found: Certificate) -> tuple[str, ...]:
    """Return the faults of the certificate in the file, if it has one."""
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
    """Return a complaint if the facts in the file contradict the table."""
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
    from factrank.nn import stored_scalars  # noqa: PLC0415

    saved, agreement, certificate = done.saved, done.agreement, done.found.to_dict()
    if "parameters" in certificate:  # as a paper counts them, such as without embeddings
        certificate["counted_parameters"] = certificate.pop("parameters")
    return {
        "layer": str(layer),
        "table": source,
        "parameters": stored_scalars(saved.model),
        **certificate,
        "stored_certificate": None if CERTIFICATE_NOTE not in saved.notes else not done.wrong,
        "stored_facts": agreement
        and {
            "facts": len(saved.data),
            "shared": agreement.shared,
            "contradicted": len(agreement.contradicted),
        },
        "complaints": list(done.complaints),
    }


def _report(title: str, what: str, done: _Verified) -> RenderableType:
    from factrank.report import add_details, claim_in_words, name_text, number, plain_table, worst_fact  # noqa: PLC0415

    found, agreement = done.found, done.agreement
    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    itself = "layer" if "silent_fibers" in found.details else "model"
    table.add_row(what, f"{found.facts:,}", "")
    table.add_row("recalled", f"{found.recalled:,}", f"by the {itself}'s own forward pass in {found.precision}")
    table.add_row("least margin", number(found.margin), worst_fact(found))
    table.add_row("proved margin", number(found.proved_margin), f"in any evaluation order: {found.arithmetic}")
    if agreement is not None and not agreement.shared == found.facts == len(done.saved.data):
        n_stored = len(done.saved.data)
        table.add_row("stored facts", f"{n_stored:,}", f"in the file, including {agreement.shared:,} of these")
    add_details(table, found, hallucinations=True)
    if found.certified:
        verdict = Text(f"certified: every {what.removesuffix('s')} is recalled{claim_in_words(found)}", style="green")
    else:
        verdict = Text(f"not certified: {found.reason}", style="red")
    return Group(name_text(title, longest=None, style="bold"), table, verdict, *map(Text, done.complaints))
