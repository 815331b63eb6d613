r"""Exact rational rank of an integer matrix from its ranks modulo many primes, in plain NumPy.

Let r be the largest of the ranks modulo $p_1, p_2, \dots$; the rational rank is at least r. If it were larger, some
minor of size r + 1 would be a non-zero integer divisible by all $p_i$. By Hadamard's inequality such a minor is at most
the product h of the r + 1 largest row norms (or column norms), so the rank is exactly r if $p_1 p_2 \cdots > h$.
"""

from __future__ import annotations

from functools import cache
from math import log2

import numpy as np
from jaxtyping import Int

from factrank.tensors.matrix.modular import PRIME, rank_mod_prime

LEAST_PRIME = PRIME - 2**15
"""About 2,000 primes are between this number and `PRIME`; their product has 47,000 bits."""


def rank_by_primes(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """Returns the rank over the rationals.

    Raises:
        ArithmeticError: if the primes do not suffice to prove the rank.

    >>> rank_by_primes(np.array([[1, 2, 3], [2, 4, 6], [0, 0, PRIME]]))
    2
    """
    rank, proved = 0, 0.0
    for prime in primes():
        if rank == min(matrix.shape) or proved > minor_bits(matrix, rank + 1):
            return rank
        rank = max(rank, rank_mod_prime(matrix, prime))
        proved += log2(prime)
    raise ArithmeticError(f"cannot prove that the rank is exactly {rank}: all {len(primes())} primes are used up")


def minor_bits(matrix: Int[np.ndarray, "rows columns"], size: int) -> float:
    """Returns an upper bound on log2 |minor| over all minors of this size, with a margin for rounding."""
    squares = matrix.astype(np.float64) ** 2
    by_line = (np.sort(np.maximum(squares.sum(axis=axis), 1.0))[-size:] for axis in (0, 1))
    return min(float(np.log2(norms).sum()) for norms in by_line) / 2 * (1 + 1e-9) + 1e-6


def prime_work(matrix: Int[np.ndarray, "rows columns"]) -> float:
    """Returns an upper bound on the number of multiplications of all eliminations."""
    eliminations = 1 + minor_bits(matrix, min(matrix.shape)) / log2(LEAST_PRIME)
    return float(eliminations * matrix.size * min(matrix.shape))


@cache
def primes() -> tuple[int, ...]:
    """Returns the primes from `PRIME` down to `LEAST_PRIME`."""
    numbers = np.arange(LEAST_PRIME, PRIME + 1)
    composite = np.zeros(len(numbers), dtype=bool)
    for divisor in range(2, int(PRIME**0.5) + 1):
        composite[-LEAST_PRIME % divisor :: divisor] = True
    return tuple(numbers[~composite][::-1].tolist())
