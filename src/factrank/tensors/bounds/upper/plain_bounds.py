"""Upper bounds U1 to U5 and U7 of the rank of a 0/1 tensor, each with the decomposition that proves it.

Every bound is a sum over the connected components, so it is kept per component: the best upper bound of the tensor
takes the best method on each. All work on the `Core` (no empty, no repeated slices).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from factrank.tensors.core.decomposition import Decomposition, Factor, concatenate
from factrank.tensors.core.zero_one import (
    AXES,
    AXIS_NAMES,
    Core,
    ZeroOneTensor,
    distinct_pairs,
    others,
    pair_index,
    stacked_slices,
)
from factrank.tensors.matrix.factorisation import factorise
from factrank.tensors.matrix.matrix_ranks import block_ranks

SLICE_BOUND = ("U3", "U2", "U4")
"""Names of the slice sums on the key, query and value axis (theory 1.2)."""


@dataclass(frozen=True, eq=False)
class UpperBound:
    """A certified upper bound: its value on each component, and a way to build its decomposition of the core."""

    method: str
    by_component: Int[np.ndarray, " components"]
    decomposition: Callable[[], Decomposition]

    @property
    def value(self) -> int:
        """The bound for the whole tensor."""
        return int(self.by_component.sum())


def _per_component(core: Core, axis: int, amount: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " components"]:
    return np.bincount(core.component[axis], weights=amount, minlength=core.n_components).astype(np.int64)


def facts_bound(core: Core) -> UpperBound:
    """U1: the number of facts that are left when equal slices are merged, one rank-one term each."""

    def decomposition() -> Decomposition:
        term = np.arange(len(core.tensor))
        first, second, third = (Factor.indicator(core.tensor.coordinates[:, axis], term) for axis in AXES)
        return Decomposition.of(first, second, third, len(term))

    return UpperBound(
        "U1 facts, equal slices merged", np.bincount(core.fact_component, minlength=core.n_components), decomposition
    )


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

    name = f"{SLICE_BOUND[axis]} {AXIS_NAMES[axis]} slices"
    return UpperBound(name, _per_component(core, axis, ranks.upper), decomposition)


def flattenings_bound(
    core: Core, flat_upper: Mapping[int, Int[np.ndarray, " components"]], first: int, second: int
) -> UpperBound:
    """U5: r_i r_j, the product of two flattening ranks.

    All slices of axis i are combinations of r_i of them, likewise for j, so T is a combination of r_i r_j fibers.
    """

    def decomposition() -> Decomposition:
        from factrank.tensors.bounds.upper.fiber_bases import fiber_decomposition  # noqa: PLC0415 - needs exact rational arithmetic

        return fiber_decomposition(core.tensor, first, second)

    name = f"U5 {AXIS_NAMES[first]} x {AXIS_NAMES[second]} flattening"
    return UpperBound(name, flat_upper[first] * flat_upper[second], decomposition)


def proposition_bound(tensor: ZeroOneTensor) -> int:
    r"""The bound of Wong 2025, Proposition 2.1: $\min(\sum_k |V_k|, \sum_q |V_q|)$, the tensor as it is given.

    A slice has at most as many independent columns as it has values, so it holds for fibers with several values too.
    """
    by_key, by_query = (len(distinct_pairs(tensor, axis, 2)) for axis in (0, 1))
    return min(by_key, by_query)


def best_upper(core: Core, bounds: Sequence[UpperBound]) -> UpperBound:
    """The least bound on every component, added up."""
    table = np.array([bound.by_component for bound in bounds])
    totals = table.sum(axis=1)
    if core.n_components == 0 or totals.min() == table.min(axis=0).sum():
        return bounds[int(np.argmin(totals))]
    chosen = np.argmin(table, axis=0)
    used = [(index, bound) for index, bound in enumerate(bounds) if (chosen == index).any()]

    def decomposition() -> Decomposition:
        parts = []
        for index, bound in used:
            terms = bound.decomposition()
            parts.append(terms.take_terms((chosen == index)[_component_of_terms(core, terms)]))
        return concatenate(parts)

    name = " + ".join(bound.method for _, bound in used) + ", by component"
    return UpperBound(name, table.min(axis=0), decomposition)


def _component_of_terms(core: Core, terms: Decomposition) -> Int[np.ndarray, " terms"]:
    component = np.zeros(terms.n_terms, dtype=np.int64)
    component[terms.factors[0].term] = core.component[0][terms.factors[0].index]
    return component
