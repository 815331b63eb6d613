"""Low-rank updates: how many facts fit into W_V and W_O of rank R of a layer whose other weights are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from factrank.errors import InputError
from factrank.planning.law import atlas_law
from factrank.planning.table_sizes import TableSizes

ENOUGH = 0.99


@dataclass(frozen=True)
class UpdatePlan:
    """Capacity of a low-rank update.

    Arguments:
        rank: rank of the update of each head.
        trained_parameters: 2 H d R.
        recall: expected recall of this table by a trained update.
        facts: about how many facts with this many values a trained update recalls, all but one in a hundred; at most
            the pairs of key and query.
        solved_facts: how many facts one linear solve fits for any real answers, proved for generic frozen weights (the
            rank of their features, at most the pairs); None below full rank.
        rank_exponent: the bits that updates store grow like this power of the rank.
        beyond: in which quantities the update is outside the atlas.
    """

    rank: int
    trained_parameters: int
    recall: float
    facts: int
    solved_facts: int | None
    rank_exponent: float
    beyond: str


def plan_update(table: TableSizes, d_model: int | None, n_heads: int, rank: int) -> UpdatePlan:
    """Plan an update of a frozen layer of this width.

    Raises:
        InputError: without d_model, with a rank above it, or if the table has a single value.
    """
    if d_model is None:
        raise InputError("an update has a layer that it changes: give its d_model")
    if rank > d_model:
        raise InputError(f"an update of a layer of width {d_model} has at most rank {d_model}; got {rank}")
    if table.n_values == 1:
        raise InputError("with one value there is nothing to tell apart: every update recalls the table")
    known, parameters = atlas_law(), 2 * n_heads * d_model * rank
    law, sizes = known.updates, (d_model, n_heads, rank, *table.shape)
    pairs, features = table.n_keys * table.n_queries, n_heads * min(d_model, table.n_keys + table.n_queries - 1)
    enough = (ENOUGH**-law.sharpness - 1) ** (1 / law.sharpness)
    quantities = {
        "n_keys": table.n_keys,
        "n_queries": table.n_queries,
        "n_values": table.n_values,
        "n_facts": table.n_facts,
        "n_heads": n_heads,
        "d_model": d_model,
        "rank": rank,
        "bits per trained parameter": table.bits / parameters,
    }
    return UpdatePlan(
        rank=rank,
        trained_parameters=parameters,
        recall=float(law.recall(sizes, table.bits)),
        facts=min(pairs, int(float(law.capacity(sizes)) * enough / log2(table.n_values))),
        solved_facts=min(pairs, features) if rank == d_model else None,
        rank_exponent=law.rank_exponent,
        beyond=known.known["updates"].beyond(quantities),
    )
