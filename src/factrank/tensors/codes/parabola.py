r"""Parabola codes: small integer tensors whose argmax is a given database, the upper bounds E1 and E2.

With centred integer labels $x_v$, $2 x_u x_v - x_v^2 = x_u^2 - (x_v - x_u)^2$ is largest at v = u, by at least 1.

- E1, slice by slice: a query with two values needs one term, with more two (the code and its bias), and all queries
  with one value together at most two. The same over keys.
- E2, one bias for all: $T[k, q, v] = 2 F[k, q]\, x_v - x_v^2$ with $F[k, q] = x_{f(k, q)}$ has rank at most
  rank(F) + 1; cells of F without a fact are free, so slices that agree wherever both have facts are merged first. With
  two values in all, labels +1 and -1 need no bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from factrank.tensors.core import Decomposition, Factor, ZeroOneTensor, distinct
from factrank.tensors.matrix import Factorisation, factorise, integers, matrix_rank_bounds

FREE = np.iinfo(np.int64).min
"""Marks a cell of F without a fact."""

RANKED_CELLS = 1_000_000
"""Tables F with at most this many cells get an exact rank; larger ones count their columns."""

GLANCE = 64
"""Facts of a slice that are compared with every class before the rest is compared with the classes still fitting."""


@dataclass(frozen=True, eq=False)
class CodeBound:
    """An upper bound of the effective rank of a functional database, and a way to build the tensor that attains it."""

    value: int
    decomposition: Callable[[], Decomposition]


def labels(n_values: int) -> Int[np.ndarray, " values"]:
    """The centred integers x_v of the parabola code; +1 and -1 for two values."""
    return np.array([1, -1]) if n_values == 2 else np.arange(n_values) - n_values // 2


def least_margin(terms: Decomposition, tensor: ZeroOneTensor) -> Fraction:
    """The least of T[k, q, f] - max over v != f of T[k, q, v] over all facts, exactly: positive certifies the bound.

    Every fiber is compared whole; a tie or an error shows as a margin of 0 or less.
    """
    common = lcm(*(int(m) for m in terms.denominators))
    scale = np.array([common // int(m) for m in terms.denominators], dtype=object)
    first, second, third = (np.zeros((size, terms.n_terms), dtype=object) for size in tensor.shape)
    for dense, factor in zip((first, second, third), terms.factors, strict=True):
        np.add.at(dense, (factor.index, factor.term), factor.weight.astype(object))
    worst: list[int] = []
    for k, q, v in tensor.coordinates.tolist():
        logits = third @ (first[k] * second[q] * scale)
        rivals = [x for value, x in enumerate(logits) if value != v]
        worst.append(logits[v] - max(rivals, default=logits[v] - common))
    return Fraction(min(worst, default=common), common)


# -------------------------------------------------------------------- E1


def slicewise_bound(tensor: ZeroOneTensor, axis: int) -> CodeBound:
    """E1 over the slices of the query axis (1) or the key axis (0)."""
    pairs = tensor.pairs_without(1 - axis)
    slices, values = np.divmod(pairs, max(tensor.shape[2], 1))
    sizes = np.bincount(slices, minlength=tensor.shape[axis])
    constant = values[np.isin(slices, np.flatnonzero(sizes == 1))]
    together = min(len(constant), max(min(len(distinct(constant)[0]) - 1, 2), 1))
    value = int((sizes == 2).sum() + 2 * (sizes > 2).sum() + together) if tensor.shape[2] > 1 else 0
    return CodeBound(value, lambda: _slicewise_terms(tensor, axis, slices, values))


def _slicewise_terms(
    tensor: ZeroOneTensor, x: int, slices: Int[np.ndarray, " pairs"], values: Int[np.ndarray, " pairs"]
) -> Decomposition:
    """The terms of E1; `slices` and `values` list the range of every slice."""
    y, names, code = 1 - x, np.arange(tensor.shape[2]), labels(tensor.shape[2])
    sizes = np.bincount(slices, minlength=tensor.shape[x])
    starts = np.cumsum(sizes) - sizes
    terms = _TermList()
    if tensor.shape[2] == 1:
        return terms.decomposition()
    facts_of = _facts_by_slice(tensor, x)
    for slice_ in np.flatnonzero(sizes > 1).tolist():
        facts = tensor.coordinates[facts_of[slice_]]
        mine = values[starts[slice_] : starts[slice_] + sizes[slice_]]
        unit = ([slice_], [1])
        if len(mine) == 2:
            terms.add({x: unit, y: (facts[:, y], np.where(facts[:, 2] == mine[0], 1, -1)), 2: (mine, [1, -1])})
        else:
            terms.add({x: unit, y: (facts[:, y], code[facts[:, 2]]), 2: (names, 2 * code)})
            terms.add({x: unit, y: (facts[:, y], np.ones(len(facts))), 2: (names, -(code**2))})
    _constant_slices(tensor, terms, x, np.flatnonzero(sizes == 1), values[starts[sizes == 1]])
    return terms.decomposition()


def _constant_slices(
    tensor: ZeroOneTensor, terms: _TermList, x: int, slices: Int[np.ndarray, " n"], values: Int[np.ndarray, " n"]
) -> None:
    """All slices with a single value: one term if at most two values occur among them, else two."""
    y, kinds = 1 - x, distinct(values)[0]
    everywhere = (np.arange(tensor.shape[y]), np.ones(tensor.shape[y]))
    if len(slices) and len(kinds) == 1:
        terms.add({x: (slices, np.ones(len(slices))), y: everywhere, 2: (kinds, [1])})
    elif len(kinds) == 2:
        terms.add({x: (slices, np.where(values == kinds[0], 1, -1)), y: everywhere, 2: (kinds, [1, -1])})
    elif len(kinds) > 2:
        code = labels(tensor.shape[2])
        names = np.arange(tensor.shape[2])
        terms.add({x: (slices, code[values]), y: everywhere, 2: (names, 2 * code)})
        terms.add({x: (slices, np.ones(len(slices))), y: everywhere, 2: (names, -(code**2))})


# -------------------------------------------------------------------- E2


def shared_bias_bound(tensor: ZeroOneTensor, axis: int) -> CodeBound:
    """E2, the slices of one axis (query 1, key 0) merged where they agree."""
    code = labels(tensor.shape[2])
    merged, class_of = _merge_compatible(tensor, axis, code)
    table = sp.csr_array(np.where(merged == FREE, 0, merged))
    small = merged.size <= RANKED_CELLS
    rank = matrix_rank_bounds(table)[1] if small else merged.shape[1]

    def decomposition() -> Decomposition:
        factors = factorise(table) if small else _by_columns(table)
        return _shared_bias_terms(tensor, axis, code, factors, class_of)

    return CodeBound(rank if tensor.shape[2] == 2 else rank + 1, decomposition)


def _by_columns(table: sp.csr_array) -> Factorisation:
    """A matrix as the sum of its columns."""
    entries, terms = table.tocoo(), np.arange(table.shape[1])
    left = Factor(entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data)
    return Factorisation(left, Factor.indicator(terms, terms), np.ones(len(terms), dtype=np.int64))


def _shared_bias_terms(
    tensor: ZeroOneTensor,
    x: int,
    code: Int[np.ndarray, " values"],
    table: Factorisation,
    class_of: Int[np.ndarray, " slices"],
) -> Decomposition:
    """F (x) 2 x_v - 1 (x) 1 (x) x_v^2, or F (x) x_v when two values need no bias; F is given over classes of slices."""
    two, used, n_terms = tensor.shape[2] == 2, np.flatnonzero(code), table.n_terms
    on_values = Factor(
        np.tile(used, n_terms),
        np.repeat(np.arange(n_terms), len(used)),
        np.tile((1 if two else 2) * code[used], n_terms),
    )
    factors = {x: table.right.spread(class_of), 1 - x: table.left, 2: on_values}
    if two:
        return Decomposition((factors[0], factors[1], factors[2]), table.denominators)
    factors = _with_bias(factors, tensor, code, n_terms)
    return Decomposition((factors[0], factors[1], factors[2]), np.append(table.denominators, 1))


def _with_bias(
    factors: dict[int, Factor], tensor: ZeroOneTensor, code: Int[np.ndarray, " values"], term: int
) -> dict[int, Factor]:
    """One more term: 1 (x) 1 (x) -x_v^2."""
    extra = {0: np.ones(tensor.shape[0]), 1: np.ones(tensor.shape[1]), 2: -(code**2)}
    return {
        axis: Factor(
            np.concatenate([factor.index, np.arange(len(extra[axis]))]),
            np.concatenate([factor.term, np.full(len(extra[axis]), term)]),
            np.concatenate([factor.weight, extra[axis].astype(np.int64)]),
        )
        for axis, factor in factors.items()
    }


def _merge_compatible(
    tensor: ZeroOneTensor, x: int, code: Int[np.ndarray, " values"]
) -> tuple[Int[np.ndarray, "other classes"], Int[np.ndarray, " slices"]]:
    """Greedily put each slice into the first class with which it never disagrees; the fullest slices go first."""
    y = 1 - x
    facts_of = _facts_by_slice(tensor, x)
    merged = np.full((tensor.shape[y], 1), FREE)
    n_classes, class_of = 0, np.zeros(tensor.shape[x], dtype=np.int64)
    for slice_ in sorted(range(tensor.shape[x]), key=lambda s: -len(facts_of[s])):
        facts = tensor.coordinates[facts_of[slice_]]
        mine = code[facts[:, 2]]
        fitting = np.arange(n_classes)
        for part in (slice(0, GLANCE), slice(GLANCE, None)):
            theirs = merged[facts[part, y][:, None], fitting]
            fitting = fitting[np.all((theirs == FREE) | (theirs == mine[part, None]), axis=0)]
        chosen = int(fitting[0]) if len(fitting) else n_classes
        if chosen == merged.shape[1]:
            merged = np.concatenate([merged, np.full_like(merged, FREE)], axis=1)
        n_classes = max(n_classes, chosen + 1)
        merged[facts[:, y], chosen] = mine
        class_of[slice_] = chosen
    return merged[:, :n_classes], class_of


def _facts_by_slice(tensor: ZeroOneTensor, axis: int) -> list[Int[np.ndarray, " _"]]:
    order = np.argsort(tensor.coordinates[:, axis], kind="stable")
    ends = np.cumsum(np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]))[:-1]
    return np.split(order, ends)


class _TermList:
    """Collects rank-one terms given as {axis: (index, weight)}."""

    def __init__(self) -> None:
        self.terms: list[dict[int, tuple[object, object]]] = []

    def add(self, term: dict[int, tuple[object, object]]) -> None:
        self.terms.append(term)

    def decomposition(self) -> Decomposition:
        factors = []
        for axis in range(3):
            parts = [(np.asarray(term[axis][0]), np.asarray(term[axis][1])) for term in self.terms]
            sizes = [len(index) for index, _ in parts]
            index = np.concatenate([np.array([], dtype=np.int64), *(index for index, _ in parts)]).astype(np.int64)
            weight = np.concatenate([np.array([], dtype=np.int64), *(weight for _, weight in parts)]).astype(np.int64)
            factors.append(Factor(index, np.repeat(np.arange(len(parts)), sizes), weight))
        return Decomposition((factors[0], factors[1], factors[2]), integers([1] * len(self.terms)))
