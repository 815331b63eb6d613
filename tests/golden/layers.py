"""Layers in closed form: every form on every small table, what `construct` chooses, proofs, edits and readouts."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import factrank
from golden import doors
from golden.cases import Case, Cases, Plain, databases, digest_of, plain, refusal_or

AIMS = ("parameters", "heads", "d_model", "margin", "bits")
IN_EVERY_PRECISION = ("astrid", "uniform", "sets")
SAMPLES = ("elements", "countries")
EDITED = ("astrid", "one fact", "uniform", "sparse", "elements", "countries")
QUICK = ("forms of astrid",)

FORWARD = 1e-6
"""Forward passes in float32 may add in another order."""


def cases() -> Cases:
    """The forms on a table, what is chosen for it, and edits and readouts of what was built."""
    found: dict[str, Case] = {}
    tables = databases() | {name: factrank.sample(name) for name in SAMPLES}
    for name, database in tables.items():
        found[f"forms of {name}"] = Case(partial(_forms, database, "float32"), tolerance=FORWARD)
        aims = AIMS if name not in SAMPLES else AIMS[:1]
        found[f"chosen for {name}"] = Case(partial(_chosen, database, aims), tolerance=FORWARD)
        if name in EDITED:
            found[f"edits of {name}"] = Case(partial(_edits, database), tolerance=FORWARD)
    for name in IN_EVERY_PRECISION:
        for precision in ("float64", "bfloat16"):
            found[f"forms of {name} in {precision}"] = Case(partial(_forms, tables[name], precision), tolerance=FORWARD)
    found["shared tokens"] = Case(partial(_shared, tables["shared names"]), tolerance=FORWARD)
    found["proofs of what is wrong"] = Case(partial(_refuted, tables["uniform"]), tolerance=FORWARD)
    found["readouts"] = Case(partial(_readouts, tables["astrid"]), tolerance=FORWARD)
    return {name: Case(case.make, name in QUICK, case.tolerance) for name, case in found.items()}


def _forms(database: factrank.Database, precision: str) -> Plain:
    return {name: refusal_or(partial(_form, form, database, precision)) for name, form in doors.FORMS.items()}


def _form(form: Any, database: factrank.Database, precision: str) -> Plain:
    reason = form.refusal(database, precision)
    if reason is not None:
        return {"refused": reason}
    built = form.build(database, precision, doors.FormSearch(seconds=0.0))
    return {
        "expected": plain(form.shape(database, precision)),
        "estimated": form.estimated,
        "shape": plain(built.layer.shape),
        "parameters": built.layer.parameters,
        "weights": digest_of(built.layer),
        "editing": plain(built.editing),
        "certificate": plain(factrank.verify(built.layer, database).to_dict()),
    }


def _chosen(database: factrank.Database, aims: tuple[str, ...]) -> Plain:
    return {
        aim: refusal_or(lambda aim=aim: plain(factrank.construct(database, minimise=aim, budget=0.0).to_dict()))
        for aim in aims
    }


def _shared(database: factrank.Database) -> Plain:
    return {
        precision: plain(factrank.construct(database, precision, share_tokens=True).to_dict())
        for precision in ("float64", "float32")
    }


def _edits(database: factrank.Database) -> Plain:
    """One edit after the other, each of the layer as it was built."""
    (key, query, value), *_ = database
    other = next((name for name in database.values if name != value), "another")
    changes = {
        "set": [(key, query, other)],
        "same": [(key, query, value)],
        "new value": [(key, query, "a new value")],
        "new key": [("a new key", query, value)],
        "delete": [(key, query)],
        "several": [(key, query, other), ("a new key", query, "a new value")],
        "unknown": [(key, "no such query", value)],
    }
    found: dict[str, Plain] = {}
    for name in ("parabola", "digits", "shared-heads", "binary", "circle", "one-hot-parabola", "compact-parabola"):
        if name not in doors.FORMS or doors.FORMS[name].refusal(database, "float32") is not None:
            continue
        saved = factrank.construct(database, only=[name], budget=0.0).to_saved()
        found[name] = {what: refusal_or(partial(_edited, saved, edits)) for what, edits in changes.items()}
    return found


def _edited(saved: Any, changes: list[tuple[str, ...]]) -> Plain:
    edited = factrank.edit(saved, changes)
    return {
        "counts": [edited.n_set, edited.n_deleted, edited.n_unchanged],
        "new": [list(edited.new_keys), list(edited.new_values)],
        "answers": plain(edited.answers_after_deletion()),
        "facts": edited.saved.database.fingerprint,
        "weights": digest_of(edited.saved.layer),
        "notes": plain(edited.saved.notes),
        "certificate": plain(edited.certificate.to_dict()),
    }


def _refuted(database: factrank.Database) -> Plain:
    """Certificates of layers that hold other facts, in each form that can hold these."""
    (key, query, value), *rest = database
    wrong = next(name for name in database.values if name != value)
    changed = factrank.Database.from_facts([(key, query, wrong), *rest])
    found = {}
    for name, form in doors.FORMS.items():
        if form.refusal(changed, "float32") is None and changed.shape == database.shape:
            found[name] = refusal_or(partial(_verified_elsewhere, name, changed, database))
    return found


def _verified_elsewhere(form: str, written: factrank.Database, database: factrank.Database) -> Plain:
    layer = factrank.construct(written, only=[form], budget=0.0).model
    return plain(factrank.verify(layer, database).to_dict())


def _readouts(database: factrank.Database) -> Plain:
    """Answers, recall, attribution and diagnosis of a constructed and a trained layer."""
    constructed = factrank.construct(database, budget=0.0).to_saved()
    trained = factrank.train(database, factrank.LayerShape(4, 1, 2, 2), factrank.Training(epochs=100)).model
    found = {}
    for name, layer in (("constructed", constructed.layer), ("trained", trained)):
        saved = type(constructed)(layer, database, {})
        found[name] = {
            "recall": plain(factrank.recall(layer, database)),
            "diagnosis": plain(factrank.diagnose(layer, database)),
            "answers": [plain(asdict(factrank.answer(saved, key, query))) for key, query, _ in database],
            "tensor": plain(doors.layer_rank_bounds(layer.shape, *database.shape).upper.to_dict()),
        }
    return found
