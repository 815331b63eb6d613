r"""Decomposition: rank-one terms that add up to a tensor, in exact rational arithmetic.

$T = \sum_{r=1}^{R} \frac{1}{m_r}\, a_r \otimes b_r \otimes c_r$ with sparse integer vectors and integers $m_r > 0$.
A decomposition is the witness of an upper bound; `equals`, `completes` and `recalls` check it by multiplying it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from jaxtyping import Bool, Int, Shaped

from factrank.display import Shown
from factrank.tensors.core.zero_one import AXES, Core, ZeroOneTensor, ranges, run_starts

SAFE = 2**62


@dataclass(frozen=True, eq=False)
class Factor:
    """A sparse matrix [dimension, terms]: column r is the vector of term r, as (index, term, weight) entries.

    Weights are int64, or Python integers in an object array if they do not fit.
    """

    index: Int[np.ndarray, " entries"]
    term: Int[np.ndarray, " entries"]
    weight: Shaped[np.ndarray, " entries"]

    @classmethod
    def indicator(cls, index: Int[np.ndarray, " entries"], term: Int[np.ndarray, " entries"]) -> Factor:
        """Returns a factor with all weights 1."""
        return cls(index.astype(np.int64), term.astype(np.int64), np.ones(len(index), dtype=np.int64))

    def take_terms(self, kept: Bool[np.ndarray, " terms"]) -> Factor:
        """Returns the selected terms, renumbered."""
        rows = kept[self.term]
        return Factor(self.index[rows], (np.cumsum(kept) - 1)[self.term[rows]], self.weight[rows])

    def spread(self, classes: Int[np.ndarray, " members"]) -> Factor:
        """Expands a factor over classes to their members: row i is row classes[i], or zero if that is -1."""
        members = np.argsort(classes, kind="stable")
        members = members[classes[members] >= 0]
        counts = np.bincount(classes[members])
        repeats, starts = counts[self.index], (np.cumsum(counts) - counts)[self.index]
        index = members[ranges(starts, repeats)]
        return Factor(index, np.repeat(self.term, repeats), np.repeat(self.weight, repeats))

    def shifted(self, by: int) -> Factor:
        """Returns the factor with all term numbers shifted."""
        return Factor(self.index, self.term + by, self.weight)


@dataclass(frozen=True, eq=False)
class Decomposition(Shown):
    """A sum of rank-one terms: three factors, and a denominator per term."""

    factors: tuple[Factor, Factor, Factor]
    denominators: Shaped[np.ndarray, " terms"]

    @classmethod
    def of(cls, first: Factor, second: Factor, third: Factor, n_terms: int) -> Decomposition:
        """Returns a decomposition with integer terms."""
        return cls((first, second, third), np.ones(n_terms, dtype=np.int64))

    @property
    def n_terms(self) -> int:
        """R, an upper bound on the rank of the sum."""
        return len(self.denominators)

    def __repr__(self) -> str:
        entries = " + ".join(f"{len(factor.index):,}" for factor in self.factors)
        return f"Decomposition({self.n_terms:,} rank-one terms, {entries} entries of keys, queries and values)"

    def take_terms(self, kept: Bool[np.ndarray, " terms"]) -> Decomposition:
        """Returns the selected terms."""
        first, second, third = (factor.take_terms(kept) for factor in self.factors)
        return Decomposition((first, second, third), self.denominators[kept])

    def permuted(self, axes: Sequence[int]) -> Decomposition:
        """Returns the decomposition of the permuted tensor: factor i moves to axis axes[i]."""
        first, second, third = (self.factors[list(axes).index(axis)] for axis in AXES)
        return Decomposition((first, second, third), self.denominators)

    def multiply_out(self, shape: tuple[int, int, int]) -> dict[tuple[int, int, int], Fraction]:
        """Returns the non-zero entries of the sum of the terms, exactly."""
        cells, totals = self._sum(shape)
        entries = np.column_stack(np.unravel_index(cells, shape)).tolist()
        return {(i, j, k): Fraction(w) for (i, j, k), w in zip(entries, totals.tolist(), strict=True) if w != 0}

    def equals(self, tensor: ZeroOneTensor) -> bool:
        """Whether the terms add up to the tensor exactly: the check of a bound on the rank."""
        cells, totals = self._sum(tensor.shape)
        cells, totals = cells[totals != 0], totals[totals != 0]
        expected = np.sort(np.ravel_multi_index(tuple(tensor.coordinates.T), tensor.shape))
        return np.array_equal(cells, expected) and bool(np.all(totals == 1))

    def completes(self, tensor: ZeroOneTensor) -> bool:
        """Whether the terms equal the tensor on every valid fiber: the check of a bound on the completion rank."""
        ones = {(i, j, k) for i, j, k in tensor.coordinates.tolist()}
        valid = {cell[:2] for cell in ones}
        found = {cell: x for cell, x in self.multiply_out(tensor.shape).items() if cell[:2] in valid}
        return found == dict.fromkeys(ones, 1)

    def recalls(self, tensor: ZeroOneTensor) -> bool:
        """Whether each value of every valid fiber exceeds all others: the check of a bound on the effective rank."""
        members: dict[tuple[int, int], set[int]] = {}
        for i, j, k in tensor.coordinates.tolist():
            members.setdefault((i, j), set()).add(k)
        sums: dict[tuple[int, int], dict[int, Fraction]] = {fiber: {} for fiber in members}
        for (i, j, k), x in self.multiply_out(tensor.shape).items():
            if (i, j) in sums:
                sums[i, j][k] = x
        for fiber, values in members.items():
            rivals = [x for k, x in sums[fiber].items() if k not in values]
            if len(values) + len(rivals) < tensor.shape[2]:
                rivals.append(Fraction(0))  # entries that no term touches
            if rivals and min(sums[fiber].get(k, Fraction(0)) for k in values) <= max(rivals):
                return False
        return True

    def _sum(self, shape: tuple[int, int, int]) -> tuple[Int[np.ndarray, " cells"], Shaped[np.ndarray, " cells"]]:
        """Returns the cells that any term touches, sorted, and the sum of the terms there."""
        if prod(shape) >= SAFE:
            raise ValueError(f"a tensor of shape {shape} has 2^62 or more cells, too many for 64-bit cell numbers")
        cell, term, weight = _outer(self.factors, shape, self.n_terms)
        if any(m != 1 for m in self.denominators.tolist()):
            inverse = np.array([Fraction(1, int(m)) for m in self.denominators.tolist()], dtype=object)
            weight = weight.astype(object) * inverse[term]
        order = np.argsort(cell, kind="stable")
        cell, weight = cell[order], weight[order]
        starts = run_starts(cell)
        totals = np.add.reduceat(weight, starts) if len(cell) else weight
        return cell[starts], totals


def _outer(
    factors: tuple[Factor, Factor, Factor], shape: tuple[int, int, int], n_terms: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
    """Cell, term and weight of every product of three entries of the same term."""
    ordered = []
    for factor in factors:
        order = np.argsort(factor.term, kind="stable")
        counts = np.bincount(factor.term, minlength=n_terms)
        ordered.append((factor.index[order], factor.weight[order], counts, np.cumsum(counts) - counts))
    sizes = np.multiply.reduce([counts for _, _, counts, _ in ordered])
    term = np.repeat(np.arange(n_terms), sizes)
    within = ranges(np.zeros_like(sizes), sizes)
    cell, weight = np.zeros(len(term), dtype=np.int64), np.ones(len(term), dtype=np.int64)
    largest = prod(int(max(map(abs, w.tolist()), default=0)) for _, w, _, _ in ordered) * max(len(term), 1)
    if largest >= SAFE:
        weight = weight.astype(object)
    for axis in reversed(AXES):
        index, own_weight, counts, starts = ordered[axis]
        place = starts[term] + within % np.maximum(counts[term], 1)
        within //= np.maximum(counts[term], 1)
        cell += index[place] * prod(shape[axis + 1 :])
        weight = weight * own_weight[place]
    return cell, term, weight


def concatenate(parts: Sequence[Decomposition]) -> Decomposition:
    """Joins the terms of several decompositions: a decomposition of the sum of their tensors."""
    nothing = Factor.indicator(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    parts = [Decomposition.of(nothing, nothing, nothing, 0), *parts]
    offsets = np.cumsum([0] + [part.n_terms for part in parts])
    joined = []
    for axis in AXES:
        moved = [part.factors[axis].shifted(int(offset)) for part, offset in zip(parts, offsets, strict=False)]
        joined.append(
            Factor(
                np.concatenate([f.index for f in moved]),
                np.concatenate([f.term for f in moved]),
                np.concatenate([f.weight for f in moved]),
            )
        )
    return Decomposition((joined[0], joined[1], joined[2]), np.concatenate([part.denominators for part in parts]))


def lift(decomposition: Decomposition, core: Core) -> Decomposition:
    """Extends a decomposition of the core to the original tensor: equal slices get equal rows, empty ones zeros."""
    first, second, third = (f.spread(c) for f, c in zip(decomposition.factors, core.classes, strict=True))
    return Decomposition((first, second, third), decomposition.denominators)


def lifted(build: Callable[[], Decomposition], core: Core) -> Callable[[], Decomposition]:
    """Returns a function that builds a decomposition of the original tensor, given one for its core."""
    return lambda: lift(build(), core)
