"""Completion rank: the least rank of a tensor that equals D on every valid fiber and is free elsewhere.

Lower: the valid fibers span as many dimensions as the value flattening has rank (each used value, if functional); and
on a full sub-table, where every fiber is valid, nothing is free, so every lower bound of its rank holds. Upper: the
rank, and U7 with the domains ignored (`reference_values.completion_bound`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.bounds.ledger import PER_FACT, Ledger, expected_of
from factrank.tensors.bounds.lower.flattenings import flattening_ranks
from factrank.tensors.bounds.rank import PASSES_OF_REFERENCES, rank_lower_bounds
from factrank.tensors.bounds.rank_bounds import Bound, RankBounds
from factrank.tensors.bounds.upper.cp_bounds import cp_completion_bounds
from factrank.tensors.bounds.upper.reference_values import completion_bound
from factrank.tensors.core.decomposition import lifted
from factrank.tensors.core.zero_one import AXIS_NAMES, Core, ZeroOneTensor, distinct

TABLE_CELLS = 50_000_000
"""Largest key x query table in which full sub-tables are looked for."""


def completion_bounds(core: Core, rank: RankBounds, ledger: Ledger, *, full: bool) -> RankBounds:
    """The bracket of the completion rank, given that of the rank; they are the same for a full table."""
    if full:
        return RankBounds(rank.lower, rank.upper, rank.estimate)
    tensor = core.tensor
    lower = [_span(core, ledger)]
    spanned = lower[0].value
    upper = [replace(rank.upper, method=f"rank: {rank.upper.method}")]
    if tensor.determined[2]:
        for x, y in ((1, 0), (0, 1)):
            method = f"U7 reference value by {AXIS_NAMES[x]}, domains ignored"
            expected = expected_of(PASSES_OF_REFERENCES, len(tensor))
            found = ledger.run(method, expected, partial(completion_bound, tensor, x, y))
            if found is not None:
                upper.append(Bound(found[0], method, witness=lifted(found[1], core), seconds=ledger.seconds[method]))
    if max(b.value for b in lower) < min(b.value for b in upper):
        table = ledger.run("full sub-table", PER_FACT * len(tensor), lambda: full_subtable(tensor))
        if table is not None:
            where = f" of a full {table.shape[0]} x {table.shape[1]} sub-table"
            of_table = rank_lower_bounds(Core.of(table), ledger, to_beat=spanned)
            lower += [replace(bound, method=bound.method + where, witness=None) for bound in of_table]
    largest, least, estimate = max(b.value for b in lower), min(b.value for b in upper), None
    if largest < least:
        proved, estimate = cp_completion_bounds(core, largest, least, ledger)
        upper += proved
    return RankBounds.best_of(lower, upper, ledger.take_skipped(), estimate)


def _span(core: Core, ledger: Ledger) -> Bound:
    """The dimension that the valid fibers span: the rank of the value flattening."""
    name = "B1 span of the valid fibers"
    expected = 0.0 if core.tensor.determined[2] else expected_of(1.0, len(core.tensor))
    ranks = ledger.run(name, expected, partial(flattening_ranks, core, 2))
    if ranks is None:
        return Bound(min(len(core.tensor), 1), "one fact")
    lower, upper = (int(side.sum()) for side in ranks)
    return Bound(lower, name if lower == upper else f"{name}, ranked in part")


def full_subtable(tensor: ZeroOneTensor) -> ZeroOneTensor | None:
    """The largest full sub-table among a few candidates: keys x queries where every fiber is valid; None if too thin.

    Candidates: for the 1, 2, 3, ... fullest queries, the keys that have them all.
    """
    n_keys, n_queries, _ = tensor.shape
    if n_keys * n_queries > TABLE_CELLS or not len(tensor):
        return None
    table = np.zeros((n_keys, n_queries), dtype=bool)
    table[tensor.coordinates[:, 0], tensor.coordinates[:, 1]] = True
    keys, queries = largest_full_block(table)
    if len(keys) < 2 or len(queries) < 2:
        return None
    return restrict(tensor, keys, queries)


def largest_full_block(
    table: Bool[np.ndarray, "keys queries"],
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " columns"]]:
    """Rows and columns of a large all-true block, greedily by the fullest columns."""
    order = np.argsort(-table.sum(axis=0), kind="stable")
    nested = np.logical_and.accumulate(table[:, order], axis=1)
    sizes = nested.sum(axis=0)
    cells = np.where(sizes > 1, sizes * np.arange(1, len(order) + 1), 0)
    last = int(np.argmax(cells))
    return np.flatnonzero(nested[:, last]), np.sort(order[: last + 1])


def restrict(tensor: ZeroOneTensor, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " m"]) -> ZeroOneTensor:
    """The sub-tensor on some keys and queries, its indices renumbered."""
    inside = np.isin(tensor.coordinates[:, 0], keys) & np.isin(tensor.coordinates[:, 1], queries)
    coordinates = tensor.coordinates[inside]
    values, value = distinct(coordinates[:, 2])
    columns = [np.searchsorted(keys, coordinates[:, 0]), np.searchsorted(queries, coordinates[:, 1]), value]
    return ZeroOneTensor(np.column_stack(columns).astype(np.int64), (len(keys), len(queries), len(values)))
