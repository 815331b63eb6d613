r"""U7, the reference-value bound, and its form for the completion rank.

Let (x, y) determine z (if functional: x = query, y = key, z = value, or x and y exchanged). With $V_x$ the z-values of
slice x, $Y_x$ its domain, and a reference value $v_0(x) \in V_x$,

$$ D_x = 1_{Y_x} \otimes e_{v_0(x)} + \sum_{v \in V_x,\, v \ne v_0(x)} 1[f(x, \cdot) = v] \otimes (e_v - e_{v_0(x)}). $$

Slices with equal domain and equal reference value share their first terms. Choosing the references from a set of $h_g$
values that hits every $V_x$ of the group g gives rank $\le \sum_x (|V_x| - 1) + \sum_g h_g$. A completion is arbitrary
outside the valid fibers, so for the completion rank the domains are ignored and all slices form one group.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, met_here
from factrank.tensors.bounds.upper.by_component import UpperBound
from factrank.tensors.core import (
    AXIS_NAMES,
    Core,
    Decomposition,
    Factor,
    ZeroOneTensor,
    distinct,
    equal_runs,
    lifted,
    others,
    pair_index,
)

PASSES = 1.2
"""Expected cost in passes over the facts."""


@dataclass(frozen=True, eq=False)
class _References:
    """The reference value and group of every x-slice, and its term among the shared terms 1_{Y_g} (x) ... (x) e_s."""

    group: Int[np.ndarray, " slices"]
    value: Int[np.ndarray, " slices"]
    term: Int[np.ndarray, " slices"]
    n_terms: int


def reference_bound(core: Core, x: int, y: int) -> UpperBound:
    """Returns U7 over the slices of axis x, grouped by equal domain on axis y. The third axis must be determined."""
    tensor, z = core.tensor, 3 - x - y
    references = _references(tensor, x, z, _domain_groups(tensor, x, y))
    ranges = distinct(pair_index(tensor, x, z))[0] // max(tensor.shape[z], 1)
    by_component = np.bincount(core.component[x][ranges], minlength=core.n_components)
    by_component -= np.bincount(core.component[x], minlength=core.n_components)
    component_of_term = np.zeros(references.n_terms, dtype=np.int64)
    component_of_term[references.term] = core.component[x]
    by_component += np.bincount(component_of_term, minlength=core.n_components)
    return UpperBound(
        _name(x, z), by_component, lambda: _decompose(tensor, (x, y, z), references, ignore_domains=False)
    )


def completion_bound(tensor: ZeroOneTensor, x: int, y: int) -> tuple[int, Callable[[], Decomposition]]:
    """Returns U7 with all slices in one group: the number of terms, and a function that builds the completion."""
    z = 3 - x - y
    references = _references(tensor, x, z, np.zeros(tensor.shape[x], dtype=np.int64))
    value = len(distinct(pair_index(tensor, x, z))[0]) - tensor.shape[x] + references.n_terms
    return value, lambda: _decompose(tensor, (x, y, z), references, ignore_domains=True)


def _domain_groups(tensor: ZeroOneTensor, x: int, y: int) -> Int[np.ndarray, " slices"]:
    """Numbers the slices of axis x by their domain on axis y."""
    slices, domain = np.divmod(np.sort(pair_index(tensor, x, y)), max(tensor.shape[y], 1))
    return equal_runs(domain, np.bincount(slices, minlength=tensor.shape[x]))


def _references(tensor: ZeroOneTensor, x: int, z: int, group: Int[np.ndarray, " slices"]) -> _References:
    pairs = distinct(pair_index(tensor, x, z))[0]
    slices, values = np.divmod(pairs, max(tensor.shape[z], 1))
    value = np.zeros(tensor.shape[x], dtype=np.int64)
    value[slices[::-1]] = values[::-1]
    crowded = np.bincount(group)[group] > 1
    in_crowd = crowded[slices]
    slices, values = slices[in_crowd], values[in_crowd]
    order = np.argsort(group[slices], kind="stable")
    ends = np.flatnonzero(np.diff(group[slices][order])) + 1
    for part in np.split(order, ends):
        for slice_, hit in _hitting_set(slices[part], values[part]):
            value[slice_] = hit
    shared, term = distinct(group * max(tensor.shape[z], 1) + value)
    return _References(group, value, term, len(shared))


def _hitting_set(slices: Int[np.ndarray, " n"], values: Int[np.ndarray, " n"]) -> list[tuple[int, int]]:
    """Repeatedly chooses the value that occurs in most slices not hit yet; returns (slice, value) pairs."""
    holders: dict[int, list[int]] = {}
    for slice_, value in zip(slices.tolist(), values.tolist(), strict=True):
        holders.setdefault(value, []).append(slice_)
    open_slices = set(slices.tolist())
    heap = [(-len(members), value) for value, members in holders.items()]
    heapq.heapify(heap)
    hits: list[tuple[int, int]] = []
    while open_slices:
        count, value = heapq.heappop(heap)
        live = [slice_ for slice_ in holders[value] if slice_ in open_slices]
        if -count > len(live):
            holders[value] = live
            heapq.heappush(heap, (-len(live), value))
            continue
        hits.extend((slice_, value) for slice_ in live)
        open_slices.difference_update(live)
    return hits


def _decompose(
    tensor: ZeroOneTensor, axes: tuple[int, int, int], references: _References, *, ignore_domains: bool
) -> Decomposition:
    x, y, z = axes
    of_fact = tensor.coordinates
    shared = references.n_terms
    differing = of_fact[:, z] != references.value[of_fact[:, x]]
    pairs, own_term = distinct(pair_index(tensor, x, z)[differing])
    slices, values = np.divmod(pairs, max(tensor.shape[z], 1))
    own = shared + np.arange(len(pairs))
    first_slice = np.zeros(shared, dtype=np.int64)
    first_slice[references.term] = np.arange(tensor.shape[x])
    if ignore_domains:
        domain_y = np.tile(np.arange(tensor.shape[y]), shared)
        domain_term = np.repeat(np.arange(shared), tensor.shape[y])
    else:
        owns = first_slice[references.term[of_fact[:, x]]] == of_fact[:, x]
        domain_y, domain_term = of_fact[owns, y], references.term[of_fact[owns, x]]
    factors = {
        x: Factor.indicator(
            np.concatenate([np.arange(tensor.shape[x]), slices]), np.concatenate([references.term, own])
        ),
        y: Factor.indicator(
            np.concatenate([domain_y, of_fact[differing, y]]), np.concatenate([domain_term, shared + own_term])
        ),
        z: Factor(
            np.concatenate([references.value[first_slice], values, references.value[slices]]),
            np.concatenate([np.arange(shared), own, own]),
            np.array([1] * (shared + len(own)) + [-1] * len(own), dtype=np.int64),
        ),
    }
    return Decomposition.of(factors[0], factors[1], factors[2], shared + len(pairs))


def _methods() -> Iterator[BoundMethod]:
    for z in (2, 0, 1):
        for x, y in (others(z)[::-1], others(z)):
            yield _rank_method(x, y, z)
    for x, y in ((1, 0), (0, 1)):
        yield _completion_method(x, y)


_METHOD = partial(
    BoundMethod,
    side="upper",
    stage=Stage.CONSTRUCT,
    cost=lambda bracket: expected_of(PASSES, len(bracket.tensor)),
)


def _rank_method(x: int, y: int, z: int) -> BoundMethod:
    return _METHOD(
        name=_name(x, z),
        of="rank",
        needs=(lambda bracket: bracket.tensor.determined[z],),
        refusals=(met_here,),
        run=lambda bracket: [reference_bound(bracket.core, x, y)],
    )


def _completion_method(x: int, y: int) -> BoundMethod:
    name = f"{_name(x, 2)}, domains ignored"

    def run(bracket: Bracket) -> list[Bound]:
        value, decomposition = completion_bound(bracket.tensor, x, y)
        return [Bound(value, name, witness=lifted(decomposition, bracket.core))]

    return _METHOD(name=name, of="completion rank", needs=(functional,), run=run)


def _name(x: int, z: int) -> str:
    return f"U7 reference {AXIS_NAMES[z]} by {AXIS_NAMES[x]}"


METHODS = tuple(_methods())
