"""Upper bounds U1 to U5 of the rank of a 0/1 tensor, each with the decomposition that proves it.

Every bound is a sum over the connected components. All work on the `Core` (no empty, no repeated slices).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import met_here
from factrank.tensors.bounds.upper.by_component import UpperBound
from factrank.tensors.core import (
    AXES,
    AXIS_NAMES,
    Core,
    Decomposition,
    Factor,
    ZeroOneTensor,
    distinct_pairs,
    others,
    pair_index,
    stacked_slices,
)
from factrank.tensors.matrix import block_ranks, factorise

FACTS = "U1 facts, equal slices merged"

SLICE_BOUND = ("U3", "U2", "U4")
"""Names of the slice sums on the key, query and value axis (theory 1.2)."""

COUNTED_WITHOUT = {1: 0, 0: 1, 2: 2}
"""Without time for the slices of an axis, pairs are counted (`pairs_bound`): those on the axes other than this."""

PASSES_OF_SLICES = {1: 0.8, 0: 1.6, 2: 0.8}
"""How many passes over the facts (see `ledger.expected_of`) the ranks of all slices of an axis take."""


def _of_slices(axis: int) -> str:
    return f"{SLICE_BOUND[axis]} {AXIS_NAMES[axis]} slices"


def _of_flattenings(first: int, second: int) -> str:
    return f"U5 {AXIS_NAMES[first]} x {AXIS_NAMES[second]} flattening"


def _per_component(core: Core, axis: int, amount: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " components"]:
    return np.bincount(core.component[axis], weights=amount, minlength=core.n_components).astype(np.int64)


def facts_bound(core: Core) -> UpperBound:
    """U1: the number of facts that are left when equal slices are merged, one rank-one term each."""

    def decomposition() -> Decomposition:
        term = np.arange(len(core.tensor))
        first, second, third = (Factor.indicator(core.tensor.coordinates[:, axis], term) for axis in AXES)
        return Decomposition.of(first, second, third, len(term))

    return UpperBound(FACTS, np.bincount(core.fact_component, minlength=core.n_components), decomposition)


def pairs_bound(core: Core, third: int) -> UpperBound:
    """One term for each pair of indices that occurs on the two other axes: the sum of all its facts.

    The pairs of query and value are Proposition 2.1 of Wong 2025, the sum over q of |V_q|.
    """
    tensor, (first, second) = core.tensor, others(third)
    pairs = tensor.pairs_without(third)
    by_component = np.bincount(core.component[first][pairs // tensor.shape[second]], minlength=core.n_components)

    def decomposition() -> Decomposition:
        on_first, on_second = np.divmod(pairs, tensor.shape[second])
        term = np.searchsorted(pairs, pair_index(tensor, first, second))
        factors = {
            axis: Factor.indicator(on, np.arange(len(pairs))) for axis, on in ((first, on_first), (second, on_second))
        }
        factors[third] = Factor.indicator(tensor.coordinates[:, third], term)
        return Decomposition.of(factors[0], factors[1], factors[2], len(pairs))

    return UpperBound(f"U1 pairs of {AXIS_NAMES[first]} and {AXIS_NAMES[second]}", by_component, decomposition)


def slices_bound(core: Core, axis: int) -> UpperBound:
    """U2, U3, U4: the sum of the ranks of the slices of an axis.

    Functional: the different rows of a query slice are different unit vectors e_v, so the sum over queries is
    sum_q |V_q| (Wong 2025, Proposition 2.1).
    """
    stacked = stacked_slices(core.tensor, axis)
    ranks = block_ranks(stacked.matrix, stacked.slice_of_row, core.tensor.shape[axis])

    def decomposition() -> Decomposition:
        factors = factorise(stacked.matrix)
        left, right = factors.left, factors.right
        slice_of_term = np.zeros(factors.n_terms, dtype=np.int64)
        slice_of_term[left.term] = stacked.slice_of_row[left.index]
        by_axis = {axis: Factor.indicator(slice_of_term, np.arange(factors.n_terms))}
        row_axis, column_axis = others(axis)
        by_axis[row_axis] = Factor(stacked.row_label[left.index], left.term, left.weight)
        by_axis[column_axis] = Factor(stacked.column_label[right.index], right.term, right.weight)
        return Decomposition((by_axis[0], by_axis[1], by_axis[2]), factors.denominators)

    return UpperBound(_of_slices(axis), _per_component(core, axis, ranks.upper), decomposition)


def flattenings_bound(
    core: Core, flat_upper: Mapping[int, Int[np.ndarray, " components"]], first: int, second: int
) -> UpperBound:
    """U5: r_i r_j, the product of two flattening ranks.

    All slices of axis i are combinations of r_i of them, likewise for j, so T is a combination of r_i r_j fibers.
    """

    def decomposition() -> Decomposition:
        from factrank.tensors.bounds.upper.fiber_bases import fiber_decomposition  # noqa: PLC0415 - needs exact rational arithmetic

        return fiber_decomposition(core.tensor, first, second)

    return UpperBound(_of_flattenings(first, second), flat_upper[first] * flat_upper[second], decomposition)


def proposition_bound(tensor: ZeroOneTensor) -> int:
    r"""The bound of Wong 2025, Proposition 2.1: $\min(\sum_k |V_k|, \sum_q |V_q|)$, the tensor as it is given.

    A slice has at most as many independent columns as it has values, so it holds for fibers with several values too.
    """
    by_key, by_query = (len(distinct_pairs(tensor, axis, 2)) for axis in (0, 1))
    return min(by_key, by_query)


# -------------------------------------------------------------------- how they are tried


def _methods() -> Iterator[BoundMethod]:
    of_rank = partial(BoundMethod, of="rank", side="upper")
    yield of_rank(name=FACTS, stage=Stage.COUNT, run=lambda bracket: [facts_bound(bracket.core)])
    construction = partial(of_rank, stage=Stage.CONSTRUCT, refusals=(met_here,))
    for axis in (1, 0, 2):
        yield construction(
            name=_of_slices(axis),
            cost=partial(_cost_of_slices, axis),
            run=partial(_slices, axis),
            instead=partial(_pairs, COUNTED_WITHOUT[axis]),
        )
    for pair in combinations(AXES, 2):
        yield construction(
            name=_of_flattenings(*pair),
            cost=lambda _: 0.0,
            needs=(partial(_ranked, pair),),
            run=partial(_flattenings, pair),
        )


def _cost_of_slices(axis: int, bracket: Bracket) -> float:
    return expected_of(PASSES_OF_SLICES[axis], len(bracket.tensor))


def _slices(axis: int, bracket: Bracket) -> list[UpperBound]:
    return [slices_bound(bracket.core, axis)]


def _pairs(third: int, bracket: Bracket) -> list[UpperBound]:
    return [pairs_bound(bracket.core, third)]


def _ranked(pair: tuple[int, int], bracket: Bracket) -> bool:
    """Whether both flattenings were ranked."""
    return all(axis in bracket.flattenings.upper for axis in pair)


def _flattenings(pair: tuple[int, int], bracket: Bracket) -> list[UpperBound]:
    return [flattenings_bound(bracket.core, bracket.flattenings.upper, *pair)]


METHODS = tuple(_methods())
