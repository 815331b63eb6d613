"""Lower bounds on the completion rank: the span of the valid fibers, and the rank of a full sub-table.

The dimension of the span is the rank of the value flattening (the number of used values if functional). In a full
sub-table every fiber is valid and nothing is free, so every lower bound on its rank applies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.lower import flattenings, koszul_bounds
from factrank.tensors.bounds.method import BoundMethod, Stage, run_methods
from factrank.tensors.bounds.needs import gap
from factrank.tensors.core import Core, ZeroOneTensor, distinct

SPAN, FULL = "B1 span of the valid fibers", "full sub-table"

TABLE_CELLS = 50_000_000
"""Maximum number of (key, query) cells for which full sub-tables are searched."""


def span_bounds(bracket: Bracket) -> list[Bound]:
    """Returns the dimension of the span of the valid fibers: the rank of the value flattening."""
    lower, upper = (int(side.sum()) for side in flattenings.flattening_ranks(bracket.core, 2))
    return [Bound(lower, SPAN if lower == upper else f"{SPAN}, ranked in part")]


def one_fact(bracket: Bracket) -> list[Bound]:
    """Returns 1 if there is a fact, else 0."""
    return [Bound(min(len(bracket.tensor), 1), "one fact")]


def full_subtable_bounds(bracket: Bracket) -> list[Bound]:
    """Returns flattening bounds of a full sub-table, and Koszul bounds if they might exceed the lower bound so far."""
    tensor, ledger = bracket.tensor, bracket.ledger
    table = ledger.run(FULL, PER_FACT * len(tensor), partial(full_subtable, tensor))
    if table is None:
        return []
    of_table = Bracket("rank", Core.of(table), ledger, floor=bracket.greatest)
    found = run_methods((*flattenings.METHODS, *koszul_bounds.METHODS), of_table).lower
    where = f" of a full {table.shape[0]} x {table.shape[1]} sub-table"
    return [replace(bound, method=bound.method + where, witness=None) for bound in found]


def full_subtable(tensor: ZeroOneTensor) -> ZeroOneTensor | None:
    """Returns the largest full sub-table (keys x queries without an invalid fiber) found; None below 2 x 2.

    The candidates are the 1, 2, 3, ... queries with the most facts, and the keys that have all of them.
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
    """Returns rows and columns of a large all-true block, adding columns greedily by their number of true cells."""
    order = np.argsort(-table.sum(axis=0), kind="stable")
    nested = np.logical_and.accumulate(table[:, order], axis=1)
    sizes = nested.sum(axis=0)
    cells = np.where(sizes > 1, sizes * np.arange(1, len(order) + 1), 0)
    last = int(np.argmax(cells))
    return np.flatnonzero(nested[:, last]), np.sort(order[: last + 1])


def restrict(tensor: ZeroOneTensor, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " m"]) -> ZeroOneTensor:
    """Returns the sub-tensor on some keys and queries, with indices renumbered."""
    inside = np.isin(tensor.coordinates[:, 0], keys) & np.isin(tensor.coordinates[:, 1], queries)
    coordinates = tensor.coordinates[inside]
    values, value = distinct(coordinates[:, 2])
    columns = [np.searchsorted(keys, coordinates[:, 0]), np.searchsorted(queries, coordinates[:, 1]), value]
    return ZeroOneTensor(np.column_stack(columns).astype(np.int64), (len(keys), len(queries), len(values)))


METHODS = (
    BoundMethod(
        name=SPAN,
        of="completion rank",
        side="lower",
        stage=Stage.COUNT,
        cost=partial(flattenings.expected_seconds, 2),
        run=span_bounds,
        instead=one_fact,
    ),
    BoundMethod(
        name=FULL,
        of="completion rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(gap,),
        run=full_subtable_bounds,
    ),
)
