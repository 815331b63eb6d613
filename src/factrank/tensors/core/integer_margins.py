r"""Exact margins of logits with integer factors.

The logits $T[k, q, v] = \sum_r a_r[k]\, b_r[q]\, c_r[v]$ recall a database if, in every valid fiber, each value of the
fiber exceeds every other value; values of the same fiber may tie. With integer factors the least margin is an integer.
If it is positive, the effective rank is at most the number of terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from factrank.tensors.core.decomposition import SAFE, Decomposition, Factor
from factrank.tensors.core.fiber_sets import FiberSets
from factrank.tensors.core.zero_one import ZeroOneTensor

MARGIN_CELLS = 4_000_000
"""Maximum number of logits in memory at a time."""


@dataclass(frozen=True, eq=False)
class IntegerLogits:
    """Factors of integer logits, with one column per term."""

    keys: Int[np.ndarray, "keys terms"]
    queries: Int[np.ndarray, "queries terms"]
    values: Int[np.ndarray, "values terms"]

    @property
    def n_terms(self) -> int:
        """The number of terms, an upper bound on the rank of the logits."""
        return int(self.keys.shape[1])

    def decomposition(self) -> Decomposition:
        """Returns the logits as sparse terms."""
        first, second, third = (_sparse(dense) for dense in (self.keys, self.queries, self.values))
        return Decomposition.of(first, second, third, self.keys.shape[1])

    def least_margin(self, tensor: ZeroOneTensor) -> int:
        """Returns the minimum over all valid fibers of min over their values - max over the others of T[k, q, v].

        The margin is 1 if no fiber has a rival. Computed in 64 bits if the largest possible sum fits, otherwise in
        Python integers.
        """
        factors: tuple[Shaped[np.ndarray, "_ _"], ...] = (self.keys, self.queries, self.values)
        largest = sum(2 * a * b * c for a, b, c in zip(*map(_column_maxima, factors), strict=True))
        if largest >= SAFE:
            factors = tuple(factor.astype(object) for factor in factors)
        keys, queries, values = factors
        if len(values) < 2 or not len(tensor):
            return 1
        fibers, least = FiberSets.of(tensor), list[int]()
        step = max(MARGIN_CELLS // len(values), 1)
        for start in range(0, len(fibers), step):
            part = slice(start, start + step)
            logits = (keys[fibers.keys[part]] * queries[fibers.queries[part]]) @ values.T
            members = fibers.members(start, start + step)
            rivals = ~members.all(axis=1)
            if rivals.any():
                least.append(int(_margins(logits[rivals], members[rivals]).min()))
        return min(least, default=1)


def _margins(logits: Shaped[np.ndarray, "n values"], members: Bool[np.ndarray, "n values"]) -> Shaped[np.ndarray, " n"]:
    """The lowest member minus the highest rival of every row; every row has both."""
    highest, lowest = logits.max(axis=1, keepdims=True), logits.min(axis=1, keepdims=True)
    return np.asarray(np.where(members, logits, highest).min(axis=1) - np.where(members, lowest, logits).max(axis=1))


def _column_maxima(factor: Int[np.ndarray, "_ _"]) -> list[int]:
    return [int(x) for x in np.abs(factor).max(axis=0, initial=0)]


def _sparse(dense: Int[np.ndarray, "_ _"]) -> Factor:
    index, term = np.nonzero(dense)
    return Factor(index.astype(np.int64), term.astype(np.int64), dense[index, term])


def rounded(factor: Float[np.ndarray, "rows terms"], bits: int) -> Int[np.ndarray, "rows terms"]:
    """Rounds the factor to integers, after scaling the largest entry of each column to 2^bits."""
    largest = np.abs(factor).max(axis=0, initial=0.0)
    return np.asarray(np.rint(factor / np.where(largest > 0, largest, 1.0) * 2**bits), dtype=np.int64)
