r"""Search for short decompositions: numerical fits of decreasing rank, proved where possible.

The search starts at $\lceil abc / (a + b + c - 2) \rceil$, the expected rank of a generic tensor of this shape. In a
full table the slices add up to the all-ones matrix, so one slice w is dropped: with one term $1 \otimes 1 \otimes
\lambda$ for any $\lambda$, the other terms only have to produce $D_v - \lambda_v 1 1^\top$, $v \ne w$. A free or random
$\lambda$ makes most solutions regular, whereas few are at $\lambda = 0$. A fit is proved by interval Newton
(`interval_proof`) or by rounding (`rational_rounding`). A fit without a proof is an estimate, unless it diverges.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from math import inf

import numpy as np
from jaxtyping import Bool

from factrank.tensors.core import Decomposition, ZeroOneTensor
from factrank.tensors.cp.cp_equations import Factors, Fibers, Tensor, Terms
from factrank.tensors.cp.cp_fit import RIDGES, CPFit, FitStatus, Problem, improve, random_start
from factrank.tensors.cp.interval_proof import IntervalProof, equations_target, has_one_value, prove
from factrank.tensors.cp.projected_proof import ProjectedProof
from factrank.tensors.cp.rational_rounding import rationalise

MOST_UNKNOWNS = 6_000
"""Maximum number of unknowns of a search with many starts; larger tensors are fitted from a known decomposition."""

MOST_EQUATIONS = 2_000
"""Maximum number of equations of an interval proof."""

SHIFTS = (0.2, 1.0)
"""Range of the standard deviation of the initial shifts."""

ROUNDING_FRACTION, ROUNDING_SECONDS = 0.3, 4.0
"""Fraction of the time spent on rounding, and time limit for rounding one fit."""

MOST_STARTS, HOPELESS = 400, 30
"""Maximum number of starts at one rank, and maximum without a converged one."""


@dataclass(frozen=True)
class Attempt:
    """Outcome of all starts at one rank.

    Arguments:
        rank: the number of terms.
        statuses: the number of starts that ended with each status.
        proved: whether one was proved.
        residual: the least relative residual of the starts whose terms did not diverge; infinity if all did.
    """

    rank: int
    statuses: dict[str, int]
    proved: bool
    residual: float = inf


@dataclass(frozen=True, eq=False)
class CPBound:
    """Result of a search.

    Arguments:
        certified: the least number of terms with a proof, or None.
        witness: the proof.
        estimate: a converged fit with fewer terms but no proof, or None.
        attempts: every rank that was tried, in order.
    """

    certified: int | None
    witness: Decomposition | IntervalProof | ProjectedProof | None
    estimate: CPFit | None
    attempts: tuple[Attempt, ...] = ()


def settled_residual(residual: float, status: FitStatus) -> float:
    """Returns the residual, or infinity if the terms diverged: then it shows nothing about the rank.

    >>> settled_residual(0.125, "out of time"), settled_residual(1e-9, "diverging")
    (0.125, inf)
    """
    return inf if status == "diverging" else residual


def generic_rank(shape: tuple[int, ...], n_equations: int | None = None) -> int:
    """Returns the expected rank of a generic tensor of this shape, by counting degrees of freedom.

    >>> generic_rank((8, 4, 5))
    11
    """
    a, b, c = shape
    return -(-(a * b * c if n_equations is None else n_equations) // max(a + b + c - 2, 1))


def cp_bound(
    tensor: ZeroOneTensor,
    lower: int,
    upper: int,
    seconds: float,
    rng: np.random.Generator,
    mask: Fibers | None = None,
) -> CPBound | None:
    """Searches for a decomposition with at least `lower` and fewer than `upper` terms.

    With the mask `valid_fibers(tensor)` only these fibers are fitted, which bounds the completion rank: the witness is
    an `IntervalProof` with the mask, or a `Decomposition` that `completes` the tensor. Returns None if there is no
    such number of terms, or if the tensor is too large for dense solvers.
    """
    search, least = CpSearch.of(tensor, seconds, rng, mask), max(lower, 1)
    rank = max(min(search.expected_rank, upper - 1), least)
    if rank >= upper or sum(search.target.shape) * rank > MOST_UNKNOWNS:
        return None
    while rank < upper and search.left() > 0 and not search.attempt(rank, search.left() / 3):
        rank += 1
    while search.proved and min(search.proved) > least and search.left() > 0:
        rank = min(search.proved) - 1
        if search.gave_up(rank) or not search.attempt(rank, search.left() / 2):
            break
    while search.converged and min(search.converged) > least and search.left() > 0:
        rank = min(search.converged) - 1
        if search.gave_up(rank):
            break
        search.attempt(rank, search.left() / 2, certify=False)
    while search.left() > 0 and min(search.proved, default=0) - 1 in search.converged:
        if not search.attempt(min(search.proved) - 1, search.left()):
            break
    return search.result()


@dataclass(eq=False)
class CpSearch:
    """State of a search: the deadline, and the best result at every rank."""

    tensor: ZeroOneTensor
    dropped: int | None
    target: Tensor
    end: float
    rng: np.random.Generator
    mask: Fibers | None = None
    proved: dict[int, Decomposition | IntervalProof] = field(default_factory=dict)
    converged: dict[int, CPFit] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    @classmethod
    def of(
        cls, tensor: ZeroOneTensor, seconds: float, rng: np.random.Generator, mask: Fibers | None = None
    ) -> CpSearch:
        """Starts a search. Drops the last slice if every (valid) fiber has exactly one value."""
        dropped = tensor.shape[2] - 1 if tensor.shape[2] > 1 and has_one_value(tensor, mask) else None
        target = equations_target(tensor, dropped).astype(np.float64)
        return cls(tensor, dropped, target, time.monotonic() + seconds, rng, mask)

    @property
    def n_equations(self) -> int:
        """The number of entries that are fitted."""
        return self.target.size if self.mask is None else int(self.mask.sum()) * self.target.shape[2]

    @property
    def expected_rank(self) -> int:
        """Equations per degree of freedom of a term, plus the term for the dropped slice."""
        return generic_rank(self.target.shape, self.n_equations) + (self.dropped is not None)

    def left(self) -> float:
        """Returns the seconds left."""
        return self.end - time.monotonic()

    def gave_up(self, rank: int) -> bool:
        """Returns whether this rank was tried and no start converged."""
        return rank not in self.converged and any(attempt.rank == rank for attempt in self.attempts)

    def attempt(self, rank: int, seconds: float, *, certify: bool = True) -> bool:
        """Runs starts at one rank until one is proved or time runs out, and returns whether one is proved.

        Without `certify` it stops when one converges.
        """
        start, end, statuses, rounding = time.monotonic(), time.monotonic() + seconds, Counter[str](), 0.0
        residual = inf
        while time.monotonic() < end and rank not in self.proved:
            if statuses.total() >= (MOST_STARTS if rank in self.converged else HOPELESS):
                break
            fit = self.fit(rank, statuses.total(), end - time.monotonic())
            statuses[fit.status] += 1
            residual = min(residual, settled_residual(fit.residual, fit.status))
            if fit.status != "converged":
                continue
            self.converged.setdefault(rank, fit)
            if not certify:
                break
            witness: Decomposition | IntervalProof | None = self.interval_proof(fit.factors)
            if witness is None and rounding <= ROUNDING_FRACTION * (time.monotonic() - start):
                before = time.monotonic()
                left = min(ROUNDING_SECONDS, end - before)
                witness = rationalise(self.tensor, self.whole(fit.factors), seconds=left, mask=self.mask)
                rounding += time.monotonic() - before
            if witness is not None:
                self.proved[rank] = witness
        self.attempts.append(Attempt(rank, dict(statuses), rank in self.proved, residual))
        return rank in self.proved

    def fit(self, rank: int, start: int, seconds: float) -> CPFit:
        """Runs one fit with `rank` terms.

        For a full table the last term is 1 x 1 x shift, and the shift is fixed in 3 of 4 starts. Below the expected
        rank it is always free, because the other terms have too few unknowns.
        """
        ridge = RIDGES[start % len(RIDGES)]
        if self.dropped is None:
            factors, free = random_start(self.target, rank, self.rng), None
        else:
            factors = self._start_with_shift(rank)
            tight = (rank - 1) * (sum(self.target.shape) - 2) < self.n_equations
            free = self._free(rank, shift=tight or start % 4 == 0)
        return improve(Problem(self.target, self.mask, free), factors, seconds=seconds, ridge=ridge)

    def interval_proof(self, factors: Factors) -> IntervalProof | None:
        """Applies Krawczyk's test, unless there are too many equations."""
        if self.n_equations > MOST_EQUATIONS:
            return None
        return prove(self.tensor, factors, mask=self.mask, dropped=self.dropped)

    def whole(self, factors: Factors) -> Terms:
        """Returns factors of the whole tensor: the dropped slice is the all-ones matrix minus the other slices."""
        if self.dropped is None:
            return factors
        a, b, c = factors
        row = -c.sum(axis=0)
        row[-1] += 1
        return a, b, np.insert(c, self.dropped, row, axis=0)

    def result(self) -> CPBound:
        """Returns the least certified rank, and the least numerical one if it is smaller."""
        certified = min(self.proved, default=None)
        least = min(self.converged, default=None)
        better = least is not None and (certified is None or least < certified)
        return CPBound(
            certified,
            None if certified is None else self.proved[certified],
            self.converged[least] if better and least is not None else None,
            tuple(self.attempts),
        )

    def _start_with_shift(self, rank: int) -> Factors:
        a, b, c = random_start(self.target, rank, self.rng)
        a[:, -1], b[:, -1] = 1.0, 1.0
        c[:, -1] = self.rng.uniform(*SHIFTS) * self.rng.normal(size=len(c))
        return a, b, c

    def _free(self, rank: int, *, shift: bool) -> Bool[np.ndarray, " _n"]:
        """All unknowns except the first two factors of the last term, and its third factor unless `shift`."""
        i, j, k = self.target.shape
        free = np.ones((i + j + k, rank), dtype=bool)
        free[: i + j, -1] = False
        free[i + j :, -1] = shift
        return free.ravel()
