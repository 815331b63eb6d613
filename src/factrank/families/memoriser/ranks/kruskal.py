r"""Kruskal rank: the largest k such that *every* k of N given vectors are linearly independent.

The vectors are scaled to length 1. A set of vectors counts as dependent if its smallest singular value is at most the
tolerance: a perturbation of that size makes them exactly dependent. Adding vectors never increases the smallest
singular
value, so every superset of a dependent set is dependent, and both sides can be proved:

- upper bounds: a zero vector (0), two parallel vectors (1), any dependent set of k + 1 vectors (k), the rank of all;
- lower bounds: all sets of k vectors were tried.

When there are too many subsets, random ones are tried. If all of S random k-subsets are independent, then with
confidence $1 - \delta$ the *fraction* of dependent k-subsets is below $1 - \delta^{1/S} \le \ln(1/\delta) / S$. This
does not exclude dependent subsets: a single one that was never drawn would lower the Kruskal rank.

Vectors in $R^d$ are in general position (the linear version: hyperplanes contain the origin) if any min(N, d) of them
are independent, that is, if their Kruskal rank is min(N, d).

The default tolerance is 8 d eps. Stored numbers are treated as exact and all computations are in float64, so eps is the
float64 epsilon for float64, wider types and integers. Shorter types (float32, float16, bfloat16) usually contain
results of float32 arithmetic, possibly rounded further; for all of them eps is the float32 epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.linalg.lapack import dpotrf
from scipy.special import betaincinv

from factrank.errors import InputError

SUBSETS, CONFIDENCE = 1_000, 0.99
EVERY_SUBSET = 20_000
"""If there are at most this many subsets of a size, all of them are tried."""
MOST_PAIRED = 4_096
"""Parallel pairs are searched among at most this many vectors; beyond that, only equal vectors are found."""
TOLERANCE_FACTOR = 8.0
EPSILON, SHORT_EPSILON = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)
"""Precision of the arithmetic, and assumed precision of numbers of shorter types."""
EASILY_INDEPENDENT = 1e-5
"""A smallest singular value above this is proved by a Cholesky factorisation, which is much faster than an SVD."""
SMALL_ENOUGH_TO_THIN = 64

Indices = tuple[int, ...]


@dataclass(frozen=True)
class SubsetSample:
    """Random subsets of one size: how many were dependent, one of them, and the implied bound for all subsets.

    If the size was chosen based on the draws, `sizes` is the number of candidate sizes, and the confidence holds for
    all of them simultaneously (Bonferroni).
    """

    size: int
    subsets: int
    dependent: int
    witness: Indices | None
    confidence: float
    sizes: int = 1

    @property
    def independent_share(self) -> float:
        """Fraction of the drawn subsets that were independent."""
        return 1 - self.dependent / self.subsets

    @property
    def share_below(self) -> float:
        """Upper confidence bound of the fraction of dependent subsets among *all* subsets (Clopper and Pearson)."""
        if self.dependent == self.subsets:
            return 1.0
        level = 1 - (1 - self.confidence) / self.sizes
        return float(betaincinv(self.dependent + 1, self.subsets - self.dependent, level))


@dataclass(frozen=True)
class KruskalRank:
    """Bounds of the Kruskal rank of N vectors in R^d.

    `lower` and `upper` are proved at the tolerance: every subset of `lower` vectors was tried, and `witness` is a
    dependent set of `upper` + 1 vectors (None if there are only `upper` vectors). If the bounds differ, `sample`
    contains the random subsets of `upper` vectors, all of which were independent.
    """

    n_vectors: int
    dimension: int
    rank: int
    tolerance: float
    lower: int
    upper: int
    witness: Indices | None
    sample: SubsetSample | None

    @property
    def exact(self) -> bool:
        """Whether lower and upper bound agree."""
        return self.lower == self.upper

    @property
    def general_position(self) -> bool | None:
        """Whether any min(N, d) vectors are independent; None if this was sampled and not refuted."""
        most = min(self.n_vectors, self.dimension)
        return True if self.lower >= most else None if self.upper >= most else False

    def at_least(self, size: int) -> bool | None:
        """Return whether the Kruskal rank is at least `size`; None if this was sampled and not refuted."""
        return True if self.lower >= size else None if self.upper >= size else False


def kruskal_rank(
    vectors: Shaped[np.ndarray, "n d"],
    *,
    subsets: int = SUBSETS,
    seed: int = 0,
    tolerance: float | None = None,
    confidence: float = CONFIDENCE,
    known: Indices | None = None,
) -> KruskalRank:
    """Return bounds of the Kruskal rank of the rows, which agree if all subsets can be tried.

    The search goes down from the rank, or from a `known` dependent set. Each dependent subset it finds is reduced to a
    minimal one, which gives an upper bound. The last sampled size depends on the draws, so the confidence holds for all
    sizes up to the rank simultaneously.

    >>> kruskal_rank(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).lower
    2
    >>> kruskal_rank(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])).witness
    (1, 2)
    """
    search = _Search.of(vectors, tolerance)
    _require_draws(subsets, seed, confidence)
    search.require_dependent(known)
    rank = search.rank()

    def found(lower: int, upper: int, witness: Indices | None, sample: SubsetSample | None = None) -> KruskalRank:
        return KruskalRank(search.n, search.d, rank, search.tolerance, lower, upper, witness, sample)

    met = search.zero() or search.parallel()
    if met is not None:
        return found(len(met) - 1, len(met) - 1, met)
    upper, witness = rank, tuple(range(rank + 1)) if rank < search.n else None
    smallest = None if known is None else search.thinned(known)
    if smallest is not None and len(smallest) <= upper:
        upper, witness = len(smallest) - 1, smallest
    while True:
        every = comb(search.n, upper) <= EVERY_SUBSET
        met = search.dependent_among(_all(search.n, upper) if every else _draws(search.n, upper, subsets, seed))
        if met is None:
            break
        witness = search.thinned(met)
        upper = len(witness) - 1
    if every:
        return found(upper, upper, witness)
    lower, met = search.tried_up_to(upper)
    if met is not None:
        return found(lower, lower, met)
    sample = SubsetSample(upper, subsets, 0, None, confidence, sizes=rank)
    return found(lower, upper, witness, sample if lower < upper else None)


def sample_subsets(
    vectors: Shaped[np.ndarray, "n d"],
    size: int,
    *,
    subsets: int = SUBSETS,
    seed: int = 0,
    tolerance: float | None = None,
    confidence: float = CONFIDENCE,
) -> SubsetSample:
    """Draw random subsets of one size and test their independence, to bound the fraction of dependent subsets.

    >>> sample_subsets(np.eye(5), 3, subsets=100).dependent
    0
    """
    search = _Search.of(vectors, tolerance)
    _require_draws(subsets, seed, confidence)
    if not 1 <= size <= search.n:
        raise InputError(f"the subset size must be from 1 to the number of vectors, {search.n}; got {size}")
    met = [chosen for chosen in _draws(search.n, size, subsets, seed) if not search.independent(chosen)]
    return SubsetSample(size, subsets, len(met), search.thinned(met[0]) if met else None, confidence)


@dataclass(frozen=True)
class GeneralPosition:
    """Whether any min(N, d) vectors are independent: None if `sample` did not refute it; if False, with a witness."""

    holds: bool | None
    witness: Indices | None
    sample: SubsetSample | None


def general_position(
    vectors: Shaped[np.ndarray, "n d"],
    *,
    subsets: int = SUBSETS,
    seed: int = 0,
    tolerance: float | None = None,
    confidence: float = CONFIDENCE,
    known: Indices | None = None,
) -> GeneralPosition:
    """Return whether the rows are in general position (linear version), which is cheaper than their Kruskal rank.

    A `known` dependent set refutes general position if it has at most min(N, d) vectors.
    """
    search = _Search.of(vectors, tolerance)
    _require_draws(subsets, seed, confidence)
    search.require_dependent(known)
    size = min(search.n, search.d)
    every = comb(search.n, size) <= EVERY_SUBSET
    met = search.zero() or (search.parallel() if size > 1 else None)
    if met is None and known is not None and len(known) <= size:
        met = known
    if met is None:
        met = search.dependent_among(_all(search.n, size) if every else _draws(search.n, size, subsets, seed))
    if met is not None:
        return GeneralPosition(False, search.thinned(met), None)
    if every:
        return GeneralPosition(True, None, None)
    return GeneralPosition(None, None, SubsetSample(size, subsets, 0, None, confidence))


def context_ranks(contexts: Shaped[np.ndarray, "b n d"], tolerance: float | None = None) -> Int[np.ndarray, " b"]:
    """Return the rank of every context: the number of singular values of its unit-length tokens above the tolerance.

    >>> context_ranks(np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]]))
    array([2, 1])
    """
    return np.array([_Search.of(context, tolerance).rank() for context in contexts], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Search:
    """Vectors of length 1 (or 0), and the tolerance below which sets of them are dependent."""

    rows: Float[np.ndarray, "n d"]
    tolerance: float

    @classmethod
    def of(cls, vectors: Shaped[np.ndarray, "n d"], tolerance: float | None) -> _Search:
        """Scale vectors to length 1; the default tolerance depends on their type."""
        kind, bytes_each = vectors.dtype.kind, vectors.dtype.itemsize
        if vectors.ndim != 2 or 0 in vectors.shape or kind in "cOSUMm":
            raise InputError(
                f"vectors must be an array [vectors, dimension] of real numbers; got shape {vectors.shape} of type "
                f"{vectors.dtype}"
            )
        d = vectors.shape[1]
        if tolerance is None:
            precision = EPSILON if kind in "iub" or bytes_each >= 8 else SHORT_EPSILON
            tolerance = min(TOLERANCE_FACTOR * d * precision, 0.5)
        if not 0 < tolerance < 1:
            raise InputError(f"tolerance must be between 0 and 1; got {tolerance}")
        if tolerance < d * EPSILON:
            raise InputError(
                f"tolerance must be at least d eps = {d * EPSILON:.1e}, because the arithmetic is in float64; "
                f"got {tolerance}"
            )
        with np.errstate(over="ignore"):  # overflow is reported below
            rows = np.asarray(vectors, dtype=np.float64)
        if not np.isfinite(rows).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            raise InputError(f"vectors must be finite; got {rows[place]} in vector {place[0]}, coordinate {place[1]}")
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows = rows / np.where(largest > 0, largest, 1)  # avoids overflow and underflow of squares
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return cls(rows / np.where(lengths > 0, lengths, 1), tolerance)

    @property
    def n(self) -> int:
        """Number of vectors."""
        return len(self.rows)

    @property
    def d(self) -> int:
        """Dimension of the vectors."""
        return int(self.rows.shape[1])

    def rank(self) -> int:
        """Return the number of singular values above the tolerance; no larger set is independent."""
        return int((np.linalg.svd(self.rows, compute_uv=False) > self.tolerance).sum())

    def zero(self) -> Indices | None:
        """Return the index of a zero vector, if any."""
        zeros = np.flatnonzero(~self.rows.any(axis=1))
        return (int(zeros[0]),) if len(zeros) else None

    def parallel(self) -> Indices | None:
        """Return the indices of two parallel vectors, if any; among very many vectors, only of equal ones."""
        if self.n > MOST_PAIRED:
            _, first, which = np.unique(self.rows, axis=0, return_index=True, return_inverse=True)
            again = np.flatnonzero(first[which.ravel()] != np.arange(self.n))
            return (int(first[which.ravel()[again[0]]]), int(again[0])) if len(again) else None
        cosines = np.abs(np.triu(self.rows @ self.rows.T, 1))
        close = np.argwhere(cosines > 1 - max(1e-9, 2 * self.tolerance**2))
        return self.dependent_among((int(i), int(j)) for i, j in close)

    def independent(self, chosen: Indices) -> bool:
        """Return whether the smallest singular value exceeds the tolerance."""
        if len(chosen) > self.d:
            return False
        rows = self.rows[list(chosen)]
        # The shift also covers rounding in the products and the factorisation (Rump 2006, BIT 46).
        shift = (2 * max(self.tolerance, EASILY_INDEPENDENT)) ** 2 + len(chosen) ** 2 * 2.0**-50
        gram = rows @ rows.T
        np.fill_diagonal(gram, gram.diagonal() - shift)
        if dpotrf(gram, overwrite_a=True)[1] == 0:
            return True
        return bool(np.linalg.svd(rows, compute_uv=False)[-1] > self.tolerance)

    def require_dependent(self, known: Indices | None) -> None:
        """Raise an `InputError` if a set claimed to be dependent is not, up to the rounding of this check."""
        if known is None:
            return
        if not known or len(set(known)) < len(known) or not all(0 <= index < self.n for index in known):
            raise InputError(f"the known set must have distinct indices from 0 to {self.n - 1}; got {str(known)[:60]}")
        if _Search(self.rows, 2 * self.tolerance + TOLERANCE_FACTOR * self.d * EPSILON).independent(known):
            raise InputError(f"the known set must be dependent; vectors {str(known)[:60]} are independent")

    def dependent_among(self, sets: Iterable[Indices]) -> Indices | None:
        """Return the first of the sets that is dependent."""
        return next((chosen for chosen in sets if not self.independent(chosen)), None)

    def thinned(self, dependent: Indices) -> Indices:
        """Return a dependent subset, which is minimal if it has at most `SMALL_ENOUGH_TO_THIN` vectors."""
        while True:
            weights = np.abs(np.linalg.svd(self.rows[list(dependent)], full_matrices=False)[0][:, -1])
            order = [dependent[i] for i in np.argsort(-weights, kind="stable")]
            few, enough = 0, len(order)  # the first `few` are independent, the first `enough` are dependent
            while enough - few > 1:
                middle = (few + enough) // 2
                few, enough = (middle, enough) if self.independent(tuple(order[:middle])) else (few, middle)
            if enough == len(dependent):
                break
            dependent = tuple(order[:enough])
        kept = list(dependent)
        for index in dependent if len(dependent) <= SMALL_ENOUGH_TO_THIN else ():
            without = [other for other in kept if other != index]
            if without and not self.independent(tuple(without)):
                kept = without
        return tuple(sorted(kept))

    def tried_up_to(self, most: int) -> tuple[int, Indices | None]:
        """Return the largest size up to `most` with all sets tried, and a dependent set of the next size, if found."""
        size = min(1 if self.n > MOST_PAIRED else 2, most)
        while size < most and comb(self.n, size + 1) <= EVERY_SUBSET:
            met = self.dependent_among(_all(self.n, size + 1))
            if met is not None:
                return size, met
            size += 1
        return size, None


def _all(n: int, size: int) -> Iterator[Indices]:
    return combinations(range(n), size)


def _draws(n: int, size: int, subsets: int, seed: int) -> Iterator[Indices]:
    rng = np.random.default_rng([seed, size])
    return (tuple(rng.choice(n, size, replace=False, shuffle=False).tolist()) for _ in range(subsets))


def _require_draws(subsets: int, seed: int, confidence: float) -> None:
    if subsets < 1:
        raise InputError(f"subsets must be at least 1; got {subsets}")
    if seed < 0:
        raise InputError(f"seed must be at least 0; got {seed}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1; got {confidence}")
