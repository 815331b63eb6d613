r"""Parabola codes: small integer tensors whose argmax is a given database, the upper bounds E1 and E2.

With centred integer labels $x_v$, $2 x_u x_v - x_v^2 = x_u^2 - (x_v - x_u)^2$ is largest at v = u, by at least 1.

- E1, slice by slice: a query with two values needs one term, a query with more needs two (the code and its bias), and
  all queries with a single value need at most two in total. The same works over keys.
- E2, one bias for all slices: $T[k, q, v] = 2 F[k, q]\, x_v - x_v^2$ with $F[k, q] = x_{f(k, q)}$ has rank at most
  rank(F) + 1. Cells of F without a fact are free, so slices that agree on their common facts are merged first. With
  two values in total, labels +1 and -1 need no bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from factrank.tensors.core import AXES, Decomposition, Factor, ZeroOneTensor, distinct
from factrank.tensors.matrix import Factorisation, factorise, matrix_rank_bounds

Term = dict[int, tuple[object, object]]
"""A rank-one term as {axis: (index, weight)}."""

FREE = np.iinfo(np.int64).min
"""Marks a cell of F without a fact."""

RANKED_CELLS = 1_000_000
"""Tables F with at most this many cells are ranked exactly; for larger ones the columns are counted."""

GLANCE = 64
"""Number of facts of a slice that are compared with every class; the rest only with classes that agree on these."""


@dataclass(frozen=True, eq=False)
class CodeBound:
    """An upper bound on the effective rank of a functional database, and a function that builds its decomposition."""

    value: int
    decomposition: Callable[[], Decomposition]


def labels(n_values: int) -> Int[np.ndarray, " values"]:
    """Returns the centred integers x_v of the parabola code, or +1 and -1 for two values."""
    return np.array([1, -1]) if n_values == 2 else np.arange(n_values) - n_values // 2


def least_margin(terms: Decomposition, tensor: ZeroOneTensor) -> Fraction:
    """Returns the minimum over all valid fibers of min over their values - max over the others of T[k, q, v], exactly.

    A positive margin certifies the bound; a tie of a value with a rival, or an error, gives a margin of at most 0.
    """
    common = lcm(*(int(m) for m in terms.denominators))
    scale = np.array([common // int(m) for m in terms.denominators], dtype=object)
    first, second, third = (np.zeros((size, terms.n_terms), dtype=object) for size in tensor.shape)
    for dense, factor in zip((first, second, third), terms.factors, strict=True):
        np.add.at(dense, (factor.index, factor.term), factor.weight.astype(object))
    sets: dict[tuple[int, int], set[int]] = {}
    for k, q, v in tensor.coordinates.tolist():
        sets.setdefault((k, q), set()).add(v)
    worst: list[int] = []
    for (k, q), values in sets.items():
        logits = (third @ (first[k] * second[q] * scale)).tolist()
        rivals = [x for value, x in enumerate(logits) if value not in values]
        if rivals:
            worst.append(min(logits[value] for value in values) - max(rivals))
    return Fraction(min(worst, default=common), common)


# -------------------------------------------------------------------- E1


def slicewise_bound(tensor: ZeroOneTensor, axis: int) -> CodeBound:
    """Returns E1 over the slices of the query axis (1) or the key axis (0)."""
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
    """Terms of E1; `slices` and `values` list the distinct values of every slice."""
    y, names, code = 1 - x, np.arange(tensor.shape[2]), labels(tensor.shape[2])
    sizes = np.bincount(slices, minlength=tensor.shape[x])
    starts = np.cumsum(sizes) - sizes
    terms = list[Term]()
    if tensor.shape[2] == 1:
        return _decomposition(terms)
    facts_of = _facts_by_slice(tensor, x)
    for slice_ in np.flatnonzero(sizes > 1).tolist():
        facts = tensor.coordinates[facts_of[slice_]]
        mine = values[starts[slice_] : starts[slice_] + sizes[slice_]]
        unit = ([slice_], [1])
        if len(mine) == 2:
            terms.append({x: unit, y: (facts[:, y], np.where(facts[:, 2] == mine[0], 1, -1)), 2: (mine, [1, -1])})
        else:
            terms.append({x: unit, y: (facts[:, y], code[facts[:, 2]]), 2: (names, 2 * code)})
            terms.append({x: unit, y: (facts[:, y], np.ones(len(facts))), 2: (names, -(code**2))})
    constant = _constant_slices(tensor, x, np.flatnonzero(sizes == 1), values[starts[sizes == 1]])
    return _decomposition([*terms, *constant])


def _constant_slices(
    tensor: ZeroOneTensor, x: int, slices: Int[np.ndarray, " n"], values: Int[np.ndarray, " n"]
) -> list[Term]:
    """Terms for all slices with a single value: one if these have at most two values, else two."""
    y, kinds = 1 - x, distinct(values)[0]
    everywhere = (np.arange(tensor.shape[y]), np.ones(tensor.shape[y]))
    if not len(slices):
        return []
    if len(kinds) == 1:
        return [{x: (slices, np.ones(len(slices))), y: everywhere, 2: (kinds, [1])}]
    if len(kinds) == 2:
        return [{x: (slices, np.where(values == kinds[0], 1, -1)), y: everywhere, 2: (kinds, [1, -1])}]
    names, code = np.arange(tensor.shape[2]), labels(tensor.shape[2])
    return [
        {x: (slices, code[values]), y: everywhere, 2: (names, 2 * code)},
        {x: (slices, np.ones(len(slices))), y: everywhere, 2: (names, -(code**2))},
    ]


# -------------------------------------------------------------------- E2


def shared_bias_bound(tensor: ZeroOneTensor, axis: int) -> CodeBound:
    """Returns E2, with compatible slices of the query axis (1) or the key axis (0) merged."""
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
    """F (x) 2 x_v - 1 (x) 1 (x) x_v^2, or F (x) x_v if two values need no bias; F is given over classes of slices."""
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
    """Adds the term 1 (x) 1 (x) -x_v^2."""
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
    """Greedily assigns each slice, fullest first, to the first class that it never contradicts."""
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


def _decomposition(terms: list[Term]) -> Decomposition:
    factors, nothing = [], np.array([], dtype=np.int64)
    for axis in AXES:
        parts = [(np.asarray(term[axis][0]), np.asarray(term[axis][1])) for term in terms]
        index = np.concatenate([nothing, *(index for index, _ in parts)]).astype(np.int64)
        weight = np.concatenate([nothing, *(weight for _, weight in parts)]).astype(np.int64)
        term = np.repeat(np.arange(len(parts)), [len(index) for index, _ in parts])
        factors.append(Factor(index, term, weight))
    return Decomposition.of(factors[0], factors[1], factors[2], len(terms))
