r"""Edit layers whose facts have no places of their own: solve the rows of the keys concerned again.

The logits of a key depend on its own row $x_k$ and on weights that all keys share. With
$M_h = W_V^h W_O^h U$ and the queries' part of scores and outputs computed once,

$$L[q, v] = b_{q v} + \sum_h \sigma(p_{q h} \cdot x_k - s_{q h})\, \bigl(x_k M_h - o_{q h}\bigr)_v,$$

a function of d_model numbers. An edit minimises the separation loss (see `tensors.codes.separation_loss`) of all facts
of the key over its row, from the row it has and from the rows of other keys, until its least margin is that of the
whole layer. All other keys keep their logits bit for bit. The other facts of an edited key keep their answers, not
their logits; `Edited.n_moved` counts them. A row has few numbers: if they cannot hold the facts, the edit is refused.

Facts may be sets: the values given for a (key, query) replace all values that it had. Where all facts of a (key, query)
are deleted, some other value has to rise above the deleted ones, so that they are not answered after this edit; if
the (key, query) had all values, none is left to rise. A later edit of the key may change the answer again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from factrank.certificates import certify
from factrank.databases import Database
from factrank.errors import InputError, SearchError
from factrank.experiments.models import notes_of
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.editing.changes import (
    ALL_DELETED,
    REBUILD,
    Change,
    Edited,
    claim_of,
    extended,
    where_of,
)
from factrank.families.attention.forms.building import completed, without_reserved
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.proof import AttentionProver
from factrank.nn import to_arrays

SOLVED_FORMS = ("logits", "trained")
"""Constructions that are edited in this way."""

STARTS, ITERATIONS = 4, 300
"""Rows of other keys to start from, and steps from each."""

SHARPNESS = 4.0
"""The loss is for logits that are this multiple of the margin to reach."""

Row = Float[np.ndarray, " d_model"]
Wanted = dict[tuple[str, str], set[str]]


@dataclass(frozen=True, eq=False)
class KeyLogits:
    """Logits of one key for all queries, as a function of its row."""

    base: Float[np.ndarray, "queries values"]
    directions: Float[np.ndarray, "queries heads d_model"]
    scores: Float[np.ndarray, "queries heads"]
    outputs: Float[np.ndarray, "queries heads values"]
    circuits: Float[np.ndarray, "heads d_model values"]

    @classmethod
    def of(cls, layer: AttentionLayer) -> KeyLogits:
        """Compute everything that all keys share, in float64."""
        parts = {name: part.astype(np.float64) for name, part in to_arrays(layer).items()}
        queries, scale = parts["embedding"][layer.n_keys :], parts["w_q"].shape[2] ** -0.5
        circuits = parts["w_v"] @ parts["w_o"] @ parts["unembedding"]
        read = np.einsum("qd,hde->qhe", queries, parts["w_q"]) * scale
        directions = np.einsum("qhe,hde->qhd", read, parts["w_k"])
        outputs = np.einsum("qd,hdv->qhv", queries, circuits)
        scores = np.einsum("qhd,qd->qh", directions, queries)
        return cls(queries @ parts["unembedding"] + outputs.sum(axis=1), directions, scores, outputs, circuits)

    def logits(self, row: Row) -> Float[np.ndarray, "queries values"]:
        """Return the logits of a key with this row."""
        weights = expit(self.directions @ row - self.scores)
        return np.asarray(self.base + np.einsum("qh,qhv->qv", weights, row @ self.circuits - self.outputs))

    def pulled_back(self, row: Row, slope: Float[np.ndarray, "queries values"]) -> Row:
        """Return the gradient in the row of a function whose gradient in the logits is `slope`."""
        weights = expit(self.directions @ row - self.scores)
        to_weights = np.einsum("qv,qhv->qh", slope, row @ self.circuits - self.outputs)
        by_scores = np.einsum("qh,qhd->d", to_weights * weights * (1 - weights), self.directions)
        return np.asarray(by_scores + np.einsum("hdv,hv->d", self.circuits, weights.T @ slope))


def edit_rows(saved: SavedLayer, layer: AttentionLayer, construction: str, changes: Sequence[Change]) -> Edited:
    """Apply changes by solving the rows of their keys again, and certify the whole layer.

    Arguments:
        saved: the facts and notes of the layer.
        layer: the layer.
        construction: the name of its form.
        changes: as for `edit`.

    Raises:
        InputError: a name is unknown, or two changes conflict.
        SearchError: no row was found that holds the facts of a key. The layer is unchanged.
    """
    claim = claim_of(saved)
    before = completed(saved.database, claim)
    wanted = _wanted(changes, saved.database, None if claim is None else claim.unknown)
    after = _changed(before, wanted, None if claim is None else claim.unknown)
    facts = without_reserved(after, claim)
    if not len(facts):
        raise InputError(ALL_DELETED)
    keys = sorted({after.keys.index(key) for key, _ in wanted if _fiber(before, wanted, key)})
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    with threadpool_limits(1, user_api="blas"):  # a row is a small problem
        edited = _solved(layer, before, after, keys)
    certificate = certify(AttentionProver(edited, facts, claim))
    moved = [pair for pair in wanted if _values(saved.database, pair) != wanted[pair]]
    deleted = [pair for pair in moved if not wanted[pair]]
    codes = [(facts.keys.index(key), facts.queries.index(query)) for key, query in deleted]
    rows = to_arrays(edited)["embedding"]
    solved = [key for key in keys if key >= layer.n_keys or not np.array_equal(rows[key], layer.embedding[key])]
    given = sum(len(values) for (key, _), values in wanted.items() if facts.keys.index(key) in solved)
    return Edited(
        saved=SavedLayer(edited, facts, saved.notes | notes_of(construction, {}, certificate)),
        certificate=certificate,
        n_set=len(moved) - len(deleted),
        n_deleted=len(deleted),
        n_unchanged=len(wanted) - len(moved),
        new_keys=facts.keys[saved.database.n_keys :],
        new_values=(),
        deleted=np.array(codes, dtype=np.int64).reshape(-1, 2),
        n_moved=int(np.isin(facts.triples[:, 0], solved).sum()) - given,
    )


def _fiber(before: Database, wanted: Wanted, key: str) -> bool:
    """Return whether a change of this key has an effect."""
    return any(_values(before, pair) != values for pair, values in wanted.items() if pair[0] == key)


def _values(database: Database, pair: tuple[str, str]) -> set[str]:
    key, query = pair
    return set(database.fiber(key, query)) if key in database.keys else set()


def _wanted(changes: Sequence[Change], database: Database, reserved: str | None) -> Wanted:
    """Return the values that each changed (key, query) has afterwards; none for a deletion."""
    wanted: Wanted = {}
    deleted: dict[tuple[str, str], Change] = {}
    for change in changes:
        pair = (change.key, change.query)
        if change.query not in database.queries:
            raise InputError(f"{where_of(change)}the layer has no query {change.query!r}: {REBUILD}")
        if change.value is None:
            if not _values(database, pair):
                raise InputError(f"{where_of(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
            deleted[pair] = change
        elif change.value == reserved or change.value not in database.values:
            known = "is reserved for pairs without a fact" if change.value == reserved else "is new to the layer"
            raise InputError(f"{where_of(change)}the value {change.value!r} {known}: {REBUILD}")
        wanted.setdefault(pair, set()).update(() if change.value is None else (change.value,))
        several = database.functional and len(wanted[pair]) > 1
        if several or (pair in deleted and wanted[pair]):
            raise InputError(f"{where_of(change)}({change.key!r}, {change.query!r}) has two conflicting changes")
    if not wanted:
        raise InputError("no changes given")
    return wanted


def _changed(database: Database, wanted: Mapping[tuple[str, str], set[str]], reserved: str | None) -> Database:
    """Return the table after the changes; the reserved value stands where no fact is left."""
    keys = extended(database.keys, [key for key, _ in wanted])
    full = dict(wanted)
    if reserved is not None:
        new = dict.fromkeys(key for key, _ in wanted if key not in database.keys)
        full = {(key, query): set() for key in new for query in database.queries} | full
        full = {pair: values or {reserved} for pair, values in full.items()}
    pairs = {(keys.index(key), database.queries.index(query)): values for (key, query), values in full.items()}
    kept = [fact for fact in database.triples.tolist() if (fact[0], fact[1]) not in pairs]
    added = [(*pair, database.values.index(value)) for pair, values in pairs.items() for value in sorted(values)]
    if not kept and not added:
        raise InputError(ALL_DELETED)
    return Database(np.array(kept + added, dtype=np.int32), keys, database.queries, database.values)


class _Asked(NamedTuple):
    """Values that have to exceed others, for every query of a key."""

    own: Bool[np.ndarray, "queries values"]
    rivals: Bool[np.ndarray, "queries values"]

    @classmethod
    def of(cls, database: Database, key: int) -> _Asked:
        """Return the values of each fiber of a key, against all others."""
        facts: Int[np.ndarray, "n 3"] = database.triples[database.triples[:, 0] == key]
        own = np.zeros(database.shape[1:], dtype=bool)
        own[facts[:, 1], facts[:, 2]] = True
        return cls(own, own.any(axis=1, keepdims=True) & ~own)

    def forgetting(self, before: _Asked, logits: Float[np.ndarray, "queries values"]) -> _Asked:
        """Return the same, and for queries without facts now the best other value against those they had before."""
        own, rivals = self.own.copy(), self.rivals.copy()
        for query in np.flatnonzero(before.rivals.any(axis=1) & ~self.own.any(axis=1)):
            own[query, np.where(before.own[query], -np.inf, logits[query]).argmax()] = True
            rivals[query] = before.own[query]
        return _Asked(own, rivals)

    @property
    def counted(self) -> Bool[np.ndarray, " queries"]:
        """Return the queries for which something is asked."""
        return np.asarray(self.own.any(axis=1) & self.rivals.any(axis=1))

    def margin(self, logits: Float[np.ndarray, "queries values"]) -> float:
        """Return the least excess over all queries; infinite if nothing is asked."""
        lowest = np.where(self.own, logits, np.inf).min(axis=1)
        highest = np.where(self.rivals, logits, -np.inf).max(axis=1)
        return float((lowest - highest)[self.counted].min(initial=np.inf))


def _solved(layer: AttentionLayer, before: Database, after: Database, keys: Sequence[int]) -> AttentionLayer:
    """Return the layer with new rows for these keys."""
    embedding, logits = to_arrays(layer)["embedding"], KeyLogits.of(layer)
    rows = embedding[: layer.n_keys].astype(np.float64)
    used = np.unique(before.triples[:, 0]).tolist()
    least = min((_Asked.of(before, key).margin(logits.logits(rows[key])) for key in used), default=1.0)
    aim = least if 0 < least < np.inf else 1.0
    fresh = np.zeros((after.n_keys - layer.n_keys, rows.shape[1]), embedding.dtype)
    changed = np.concatenate([embedding[: layer.n_keys], fresh])
    for key in keys:
        asked = _Asked.of(after, key)
        first = rows[key] if key < layer.n_keys else rows.mean(axis=0)
        if key < layer.n_keys:
            asked = asked.forgetting(_Asked.of(before, key), logits.logits(first))
        others = np.random.default_rng(key).choice(len(rows), min(STARTS, len(rows)), replace=False)
        changed[key], margin = _best_row(logits, asked, [first, *rows[others]], aim, embedding.dtype)
        if not margin > 0:
            found = f"no row of {rows.shape[1]} numbers was found that holds all facts of {after.keys[key]!r}"
            raise SearchError(f"{found}; the layer is unchanged: {REBUILD}")
    moved: dict[str, Any] = {"embedding": np.concatenate([changed, embedding[layer.n_keys :]]), "n_keys": after.n_keys}
    return replace(layer, **moved)


def _best_row(
    logits: KeyLogits, asked: _Asked, starts: Sequence[Row], aim: float, dtype: Any
) -> tuple[Float[np.ndarray, " d_model"], float]:
    """Return the rounded row with the largest margin, or the first whose margin is the aim, and its margin."""
    found = []
    for start in starts:
        row = _separated(logits, asked, start, aim).astype(dtype)
        found.append((row, asked.margin(logits.logits(row.astype(np.float64)))))
        if found[-1][1] >= aim:
            break
    return max(found, key=lambda one: one[1])


def _separated(logits: KeyLogits, asked: _Asked, start: Row, aim: float) -> Row:
    """Minimise the separation loss of the fibers of a key over its row."""
    counted = asked.counted
    own, rivals = asked.own[counted], asked.rivals[counted]
    sharp = SHARPNESS / aim

    def evaluate(row: Row) -> tuple[float, Row]:
        z = sharp * logits.logits(row)[counted]
        below, above = (logsumexp(np.where(part, s * z, -np.inf), axis=1) for part, s in ((own, -1.0), (rivals, 1.0)))
        losses = np.logaddexp(0.0, below + above)
        pull = np.exp(below + above - losses)[:, None]
        slope = np.zeros(asked.own.shape)
        at_own = np.exp(np.where(own, -z, -np.inf) - below[:, None])
        at_rivals = np.exp(np.where(rivals, z, -np.inf) - above[:, None])
        slope[counted] = sharp * pull * (at_rivals - at_own)
        return float(losses.sum()), logits.pulled_back(row, slope)

    def stop_at_aim(xk: Row) -> None:
        if asked.margin(logits.logits(xk)) >= (1 + 1e-3) * aim:
            raise StopIteration

    if asked.margin(logits.logits(start)) >= aim:
        return start
    result = minimize(
        evaluate,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=stop_at_aim,
        options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS},
    )
    return np.asarray(result.x)
