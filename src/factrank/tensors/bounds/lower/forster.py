r"""Forster's bound: the sign rank of a matrix S with entries +1 and -1 is at least $\sqrt{KQ} / \|S\|$.

If only two values u, w occur, $T[k, q, u] - T[k, q, w]$ must have the signs of S. So the effective rank of a database
is at least the sign rank of any full sub-table with two values (Forster 2002, J. Comput. Syst. Sci. 65).

The norm is certified: $\lambda I - S^T S$ is positive definite if its floating-point Cholesky factorisation succeeds
after subtracting an explicit multiple of the identity that covers all rounding errors (Rump 2006, BIT 46).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import isqrt

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.lower.valid_fibers import largest_full_block
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, gap
from factrank.tensors.core import ZeroOneTensor, distinct

NAME = "Forster's bound on two values"
ROUNDING = 2.0**-53
FREQUENT_VALUES = 8
"""Number of most frequent values whose pairs are tried."""


def sign_rank_bound(signs: Int[np.ndarray, "rows columns"]) -> int:
    """Returns the least integer R with R^2 |S|^2 >= KQ, using a certified upper bound on the spectral norm |S|.

    >>> sign_rank_bound(np.array([[1, 1], [1, -1]]))
    2
    """
    if not signs.size:
        return 0
    squared_norm = Fraction(certified_squared_norm(signs))
    ratio = Fraction(signs.shape[0] * signs.shape[1]) / squared_norm
    root = isqrt(ratio.numerator // ratio.denominator)
    return root if root * root >= ratio else root + 1


def certified_squared_norm(signs: Int[np.ndarray, "rows columns"]) -> float:
    """Returns a tight certified upper bound on the largest eigenvalue of S^T S."""
    small = signs if signs.shape[0] >= signs.shape[1] else signs.T
    gram = (small.T @ small).astype(np.float64)
    largest = float(np.linalg.eigvalsh(gram)[-1])
    for slack in (1e-12, 1e-9, 1e-6):
        candidate = largest * (1 + slack) + slack
        if is_positive_definite(candidate * np.eye(len(gram)) - gram):
            return candidate
    return float(np.abs(gram).sum(axis=1).max())


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Rump's criterion; an extra rounding error accounts for the subtraction that formed the diagonal."""
    n = len(matrix)
    gamma = (n + 3) * ROUNDING / (1 - (n + 3) * ROUNDING)
    shift = 4 * gamma / (1 - gamma) * max(float(np.trace(matrix)), 0.0) + 4 * ROUNDING * float(np.abs(matrix).max())
    try:
        np.linalg.cholesky(matrix - shift * np.eye(n))
    except np.linalg.LinAlgError:
        return False
    return True


def two_value_bound(tensor: ZeroOneTensor, to_beat: int) -> int | None:
    """Returns the best Forster bound over pairs of frequent values, each on a large full sub-table of just these two.

    Returns None if no bound exceeds `to_beat`. As |S| >= sqrt(max(K, Q)), a bound of R needs R^2 rows and columns, so
    rows and columns with fewer facts of the two values are dropped first.
    """
    counts = np.bincount(tensor.coordinates[:, 2], minlength=tensor.shape[2])
    frequent = np.argsort(-counts, kind="stable")[:FREQUENT_VALUES]
    facts_of = {int(v): tensor.coordinates[tensor.coordinates[:, 2] == v] for v in frequent}
    best = to_beat
    for u, w in combinations(facts_of, 2):
        facts = _rows_and_columns_with(np.concatenate([facts_of[u], facts_of[w]]), (best + 1) ** 2)
        if not len(facts):
            continue
        keys, key = distinct(facts[:, 0])
        queries, query = distinct(facts[:, 1])
        signs = np.zeros((len(keys), len(queries)), dtype=np.int64)
        signs[key, query] = np.where(facts[:, 2] == u, 1, -1)
        best = max(best, sign_rank_bound(signs[np.ix_(*largest_full_block(signs != 0))]))
    return best if best > to_beat else None


def _rows_and_columns_with(facts: Int[np.ndarray, "facts 3"], count: int) -> Int[np.ndarray, "kept 3"]:
    """Drops keys and queries with fewer than `count` facts until none is left."""
    while True:
        kept = np.ones(len(facts), dtype=bool)
        for axis in (0, 1):
            kept &= np.bincount(facts[:, axis], minlength=1)[facts[:, axis]] >= count
        if kept.all():
            return facts
        facts = facts[kept]


def _expected_seconds(bracket: Bracket) -> float:
    side = min(bracket.tensor.shape[:2])
    return FREQUENT_VALUES**2 / 2 * (PER_FACT * len(bracket.tensor) / 100 + 1e-10 * side**3)


def _forster(bracket: Bracket) -> list[Bound]:
    value = two_value_bound(bracket.tensor, bracket.greatest)
    return [Bound(value, NAME)] if value else []


METHODS = (
    BoundMethod(
        name=NAME,
        of="effective rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(functional, gap),
        cost=_expected_seconds,
        run=_forster,
    ),
)
