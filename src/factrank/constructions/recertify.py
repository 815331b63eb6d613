"""Recertification: the certificate of an edited layer from that of the layer before, where this is a proof.

The proof by exact integers goes fact by fact, from the row of the key, the rows of the queries, the heads and the
unembedding. An edit that changes rows of keys alone leaves every fact of the other keys with the same numbers, and
hence with the same proof. So it is enough to verify the layer of the changed keys alone, before and after: counts are
those of the whole minus the old ones plus the new ones, and the least margin is the new one, or the old one where it
was not among the changed keys. Whatever is not settled so is verified as a whole: other arithmetic, new columns of the
unembedding, certificates that do not fit the weights and the facts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from factrank.constructions.certificate import CERTIFICATE_NOTE, Certificate, certificate_from_json
from factrank.constructions.plain_weights import fingerprint_of
from factrank.constructions.verify import verify
from factrank.databases import Database
from factrank.errors import InputError
from factrank.models import AttentionLayer, SavedLayer, to_arrays

LARGEST_SHARE = 0.25
"""Of the keys that changed: beyond it the whole is verified as fast."""


class Touched(NamedTuple):
    """What an edit touched: the keys whose rows changed or are new, and whether the unembedding changed."""

    keys: Int[np.ndarray, " some"]
    unembedding: bool


def recertified(before: SavedLayer, layer: AttentionLayer, database: Database, touched: Touched) -> Certificate:
    """The certificate of the edited layer on the edited database."""
    old = _trusted(before, touched)
    found = None if old is None else _updated(old, before, layer, database, touched)
    return verify(layer, database) if found is None else found


def _trusted(before: SavedLayer, touched: Touched) -> Certificate | None:
    """The certificate in the file, if it is one by exact integers for this very layer and these facts."""
    if touched.unembedding or len(touched.keys) > LARGEST_SHARE * before.database.n_keys:
        return None
    try:
        old = certificate_from_json(before.notes.get(CERTIFICATE_NOTE, ""))
    except InputError:
        return None
    fits = old.certified and old.arithmetic == "exact integers" and old.database == before.database.fingerprint
    return old if fits and old.weights == fingerprint_of(before.layer) else None


def _updated(
    old: Certificate, before: SavedLayer, layer: AttentionLayer, database: Database, touched: Touched
) -> Certificate | None:
    """The old certificate with the changed keys taken out and put in again; None where that settles nothing."""
    known = touched.keys[touched.keys < before.database.n_keys]
    gone = verify(*of_keys(before.layer, before.database, known)) if len(known) else None
    come = verify(*of_keys(layer, database, touched.keys)) if len(touched.keys) else None
    if come is None:
        return replace(old, weights=fingerprint_of(layer), database=database.fingerprint)
    if not come.certified or (come.facts and come.arithmetic != "exact integers"):
        return None
    if come.margin <= old.margin:
        margin, worst = come.margin, come.worst
    elif gone is None or gone.margin > old.margin:
        margin, worst = old.margin, old.worst
    else:
        return None  # the least margin was among the changed keys
    return replace(
        old,
        facts=database.n_facts,
        recalled=database.n_facts,
        margin=margin,
        proved_margin=margin,
        worst=worst,
        silent_fibers=database.n_keys * database.n_queries - database.n_fibers,
        answered=_moved(old.answered, None if gone is None else gone.answered, come.answered, gone is None),
        artifacts=_moved(old.artifacts, None if gone is None else gone.artifacts, come.artifacts, gone is None),
        weights=fingerprint_of(layer),
        database=database.fingerprint,
    )


def _moved(old: int | None, gone: int | None, come: int | None, nothing_gone: bool) -> int | None:
    """The old number without what is gone, with what has come; None where one is not known."""
    taken = 0 if nothing_gone else gone
    return None if old is None or taken is None or come is None else old - taken + come


def of_keys(layer: Any, database: Database, keys: Int[np.ndarray, " some"]) -> tuple[AttentionLayer, Database]:
    """The layer and the facts of these keys alone."""
    rows = np.concatenate([keys, np.arange(layer.n_keys, layer.n_keys + layer.n_queries)])
    some: Any = to_arrays(layer)["embedding"][rows]
    starts, ends = np.searchsorted(database.triples[:, 0], [keys, keys + 1])
    kept = np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)])
    triples = database.triples[kept].copy()
    triples[:, 0] = np.repeat(np.arange(len(keys)), ends - starts)
    part = Database(triples, database.keys.take(keys), database.queries, database.values)
    return replace(layer, embedding=some, n_keys=len(keys)), part
