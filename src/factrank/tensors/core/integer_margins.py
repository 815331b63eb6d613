r"""Winning margins of logits with integer factors, exactly.

The logits $T[k, q, v] = \sum_r a_r[k]\, b_r[q]\, c_r[v]$ recall a functional database when at every fact the entry of
its value exceeds all others. With integer factors the least of these margins is an integer, and a positive one
certifies that the effective rank is at most the number of terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from factrank.tensors.core.decomposition import SAFE, Decomposition, Factor
from factrank.tensors.core.zero_one import ZeroOneTensor

MARGIN_CELLS = 4_000_000
"""Logits that are held at a time."""


@dataclass(frozen=True, eq=False)
class IntegerLogits:
    """The factors of integer logits: one column per term on each axis."""

    keys: Int[np.ndarray, "keys terms"]
    queries: Int[np.ndarray, "queries terms"]
    values: Int[np.ndarray, "values terms"]

    def decomposition(self) -> Decomposition:
        """The same as sparse terms."""
        first, second, third = (_sparse(dense) for dense in (self.keys, self.queries, self.values))
        return Decomposition.of(first, second, third, self.keys.shape[1])

    def least_margin(self, tensor: ZeroOneTensor) -> int:
        """The least of T[k, q, f] - max over v != f of T[k, q, v] over all facts; 1 where there is nothing to beat.

        64-bit where the largest sum that can arise fits, Python integers otherwise.
        """
        factors: tuple[Shaped[np.ndarray, "_ _"], ...] = (self.keys, self.queries, self.values)
        largest = sum(2 * a * b * c for a, b, c in zip(*map(_column_maxima, factors), strict=True))
        if largest >= SAFE:
            factors = tuple(factor.astype(object) for factor in factors)
        keys, queries, values = factors
        if len(values) < 2 or not len(tensor):
            return 1
        least, step = list[int](), max(MARGIN_CELLS // len(values), 1)
        for start in range(0, len(tensor), step):
            key, query, value = tensor.coordinates[start : start + step].T
            logits = (keys[key] * queries[query]) @ values.T
            rows = np.arange(len(logits))
            margins = logits[rows, value][:, None] - logits
            margins[rows, value] = margins.max() + 1
            least.append(int(margins.min()))
        return min(least)


def _column_maxima(factor: Int[np.ndarray, "_ _"]) -> list[int]:
    return [int(x) for x in np.abs(factor).max(axis=0, initial=0)]


def _sparse(dense: Int[np.ndarray, "_ _"]) -> Factor:
    index, term = np.nonzero(dense)
    return Factor(index.astype(np.int64), term.astype(np.int64), dense[index, term])


def rounded(factor: Float[np.ndarray, "rows terms"], bits: int) -> Int[np.ndarray, "rows terms"]:
    """The factor on an integer grid: every column scaled so that its largest entry is 2^bits, then rounded."""
    largest = np.abs(factor).max(axis=0, initial=0.0)
    return np.asarray(np.rint(factor / np.where(largest > 0, largest, 1.0) * 2**bits), dtype=np.int64)
