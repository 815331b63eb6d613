"""Upper bounds U1 to U5 on the rank of a 0/1 tensor, each with a decomposition that proves it.

Every bound is a sum over the connected components of the `Core` (no empty or repeated slices).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations, starmap

import numpy as np
from jaxtyping import Int

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
    others,
    pair_index,
    stacked_slices,
)
from factrank.tensors.matrix import block_ranks, factorise

FACTS = "U1 facts, equal slices merged"

SLICE_BOUND = ("U3", "U2", "U4")
"""Codes of the sums over key, query and value slices."""

COUNTED_WITHOUT = {1: 0, 0: 1, 2: 2}
"""If there is no time to rank the slices of an axis, `pairs_bound` is used instead, with this third axis."""

PASSES_OF_SLICES = {1: 0.8, 0: 1.6, 2: 0.8}
"""Expected cost of ranking all slices of an axis, in passes over the facts."""


def _of_slices(axis: int) -> str:
    return f"{SLICE_BOUND[axis]} {AXIS_NAMES[axis]} slices"


def _of_flattenings(first: int, second: int) -> str:
    return f"U5 {AXIS_NAMES[first]} x {AXIS_NAMES[second]} flattening"


def _per_component(core: Core, axis: int, amount: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " components"]:
    return np.bincount(core.component[axis], weights=amount, minlength=core.n_components).astype(np.int64)


def facts_bound(core: Core) -> UpperBound:
    """Returns U1: one term for each fact that is left after merging equal slices."""

    def decomposition() -> Decomposition:
        term = np.arange(len(core.tensor))
        first, second, third = (Factor.indicator(core.tensor.coordinates[:, axis], term) for axis in AXES)
        return Decomposition.of(first, second, third, len(term))

    return UpperBound(FACTS, np.bincount(core.fact_component, minlength=core.n_components), decomposition)


def pairs_bound(core: Core, third: int) -> UpperBound:
    """Returns one term for each pair of indices that occurs on the two other axes: the sum of its facts.

    The number of (query, value) pairs is Proposition 2.1 of Wong 2025, the sum over q of |V_q|.
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
    """Returns U2, U3 or U4: the sum of the ranks of the slices of an axis.

    In a functional database the distinct rows of a query slice are distinct unit vectors e_v, so the sum over queries
    is sum_q |V_q| (Wong 2025, Proposition 2.1).
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
    """Returns U5: r_i r_j, the product of two flattening ranks.

    All slices of axis i are combinations of r_i of them, and likewise for j, so T is a combination of r_i r_j fibers.
    """

    def decomposition() -> Decomposition:
        from factrank.tensors.bounds.upper.fiber_bases import fiber_decomposition  # noqa: PLC0415 - needs exact rational arithmetic

        return fiber_decomposition(core.tensor, first, second)

    return UpperBound(_of_flattenings(first, second), flat_upper[first] * flat_upper[second], decomposition)


def proposition_bound(tensor: ZeroOneTensor) -> int:
    r"""Returns the bound of Wong 2025, Proposition 2.1, $\min(\sum_k |V_k|, \sum_q |V_q|)$, without merging slices.

    It also holds if fibers have several values: the rank of a slice is at most its number of values.
    """
    return min(len(tensor.pairs_without(axis)) for axis in (0, 1))


def _methods() -> Iterator[BoundMethod]:
    yield BoundMethod(
        name=FACTS, of="rank", side="upper", stage=Stage.COUNT, run=lambda bracket: [facts_bound(bracket.core)]
    )
    yield from map(_slices_method, (1, 0, 2))
    yield from starmap(_flattenings_method, combinations(AXES, 2))


_CONSTRUCTION = partial(BoundMethod, of="rank", side="upper", stage=Stage.CONSTRUCT, refusals=(met_here,))


def _slices_method(axis: int) -> BoundMethod:
    return _CONSTRUCTION(
        name=_of_slices(axis),
        cost=lambda bracket: expected_of(PASSES_OF_SLICES[axis], len(bracket.tensor)),
        run=lambda bracket: [slices_bound(bracket.core, axis)],
        instead=lambda bracket: [pairs_bound(bracket.core, COUNTED_WITHOUT[axis])],
    )


def _flattenings_method(first: int, second: int) -> BoundMethod:
    return _CONSTRUCTION(
        name=_of_flattenings(first, second),
        cost=lambda _: 0.0,
        needs=(lambda bracket: {first, second} <= bracket.flattenings.upper.keys(),),
        run=lambda bracket: [flattenings_bound(bracket.core, bracket.flattenings.upper, first, second)],
    )


METHODS = tuple(_methods())
