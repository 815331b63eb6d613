"""Rank of a dense integer matrix modulo a prime, by blocked elimination in exact floating-point arithmetic.

A minor that is non-zero modulo p is non-zero over the integers, so the rank mod p is a certified *lower* bound on the
rational (and real) rank.

Residues are centred, |x| <= p/2 + 1 with p < 2^23. Products of two, and sums of up to 2^8 products, stay below 2^53, so
every number is an integer that float64 represents exactly, and the work can be done by BLAS.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

PRIME = 8_388_593
"""The largest prime below 2^23."""

PANEL = 64


def rank_mod_prime(matrix: Int[np.ndarray, "rows columns"], prime: int = PRIME) -> int:
    """Returns the rank modulo a prime (at most `PRIME`), a lower bound on the rational rank.

    >>> rank_mod_prime(np.array([[1, 2], [2, 4]]))
    1
    """
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    remaining = np.asfortranarray(_residue((matrix % prime).astype(np.float64), prime))
    rank = 0
    for start in range(0, remaining.shape[1], PANEL):
        if rank == len(remaining):
            break
        panel = remaining[rank:, start : start + PANEL]
        rows, lower = _eliminate(panel.copy(), prime)
        n_pivots = len(rows)
        _swap_to_front(remaining[rank:, start:], rows)
        right = remaining[rank:, start + PANEL :]
        if n_pivots and right.shape[1]:
            top = _solve_unit_lower(lower[:n_pivots], right[:n_pivots], prime)
            right[n_pivots:] = _residue(right[n_pivots:] - lower[n_pivots:] @ top, prime)
        rank += n_pivots
    return rank


def ranks_mod_prime(matrices: Int[np.ndarray, "count rows columns"]) -> Int[np.ndarray, " count"]:
    """Returns the ranks of a batch of small matrices modulo `PRIME`.

    >>> ranks_mod_prime(np.array([[[1, 2], [2, 4]], [[1, 0], [0, 1]]])).tolist()
    [1, 2]
    """
    remaining = _residue(matrices.astype(np.float64))
    everyone = np.arange(len(remaining))
    rank = np.zeros(len(remaining), dtype=np.int64)
    for column in range(remaining.shape[2]):
        candidates = remaining[:, :, column] != 0
        candidates &= np.arange(remaining.shape[1]) >= rank[:, None]
        pivot, found = candidates.argmax(axis=1), candidates.any(axis=1)
        pivot, who = pivot[found], everyone[found]
        top = rank[found]
        remaining[who, top], remaining[who, pivot] = remaining[who, pivot], remaining[who, top]
        inverse = _inverses(remaining[who, top, column])
        below = np.arange(remaining.shape[1]) > top[:, None]
        factor = np.where(below, _residue(remaining[who, :, column] * inverse[:, None]), 0.0)
        update = factor[:, :, None] * remaining[who, top][:, None, :]
        remaining[who] = _residue(remaining[who] - _residue(update))
        rank[found] += 1
    return rank


def _inverses(numbers: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Inverses modulo p: x^(p-2), by repeated squaring."""
    result, power, exponent = np.ones(len(numbers)), numbers, PRIME - 2
    while exponent:
        if exponent & 1:
            result = _residue(result * power)
        power = _residue(power * power)
        exponent >>= 1
    return result


def _residue(x: Float[np.ndarray, "..."], prime: int = PRIME) -> Float[np.ndarray, "..."]:
    """Centred residue; exact, because x and the multiple of p next to it are integers below 2^53."""
    reduced: Float[np.ndarray, "..."] = x - prime * np.rint(x * (1.0 / prime))
    return reduced


def _eliminate(
    panel: Float[np.ndarray, "rows width"], prime: int
) -> tuple[list[int], Float[np.ndarray, "rows pivots"]]:
    """Gaussian elimination of a few columns; returns the row swaps (i-th pivot with rows[i]) and the multipliers."""
    swaps: list[int] = []
    multipliers = np.zeros(panel.shape)
    for column in range(panel.shape[1]):
        done = len(swaps)
        candidates = np.flatnonzero(panel[done:, column])
        if not len(candidates):
            continue
        pivot = done + int(candidates[0])
        panel[[done, pivot]] = panel[[pivot, done]]
        multipliers[[done, pivot]] = multipliers[[pivot, done]]
        swaps.append(pivot)
        inverse = pow(int(panel[done, column]), -1, prime)
        centred = float(inverse - prime if inverse > prime // 2 else inverse)
        factor = _residue(panel[done + 1 :, column] * centred, prime)
        multipliers[done, done] = 1.0
        multipliers[done + 1 :, done] = factor
        rest = panel[done + 1 :, column + 1 :]
        rest[:] = _residue(rest - np.outer(factor, panel[done, column + 1 :]), prime)
        if len(swaps) == len(panel):
            break
    return swaps, multipliers[:, : len(swaps)]


def _swap_to_front(rows: Float[np.ndarray, "rows columns"], swaps: list[int]) -> None:
    for target, source in enumerate(swaps):
        if source != target:
            rows[[target, source]] = rows[[source, target]]


def _solve_unit_lower(
    lower: Float[np.ndarray, "n n"], right: Float[np.ndarray, "n columns"], prime: int
) -> Float[np.ndarray, "n columns"]:
    """Solves lower @ x = right modulo p by forward substitution."""
    solution = right.copy()
    for row in range(1, len(lower)):
        solution[row] = _residue(solution[row] - lower[row, :row] @ solution[:row], prime)
    return solution
