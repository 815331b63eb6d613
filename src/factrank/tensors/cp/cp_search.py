r"""The search for a short decomposition: numerical fits of decreasing rank, each proved where that is possible.

It starts at the rank $\lceil abc / (a + b + c - 2) \rceil$ that is expected of a generic tensor of this shape. A full
table loses one slice w first: its slices add up to the all-ones matrix, so that with one term
$1 \otimes 1 \otimes \lambda$ for any $\lambda$ the others only have to reach $D_v - \lambda_v 1 1^\top$, $v \ne w$. A
free or random $\lambda$ makes most solutions regular, which at $\lambda = 0$ few of them are. A fit is proved by
interval Newton (`interval_proof`) or by rounding (`rounding`); what is only numerical is an estimate, and never a
diverging fit.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from factrank.tensors.core import Core, Decomposition, ZeroOneTensor
from factrank.tensors.cp.cp_equations import Factors, Fibers, Tensor
from factrank.tensors.cp.cp_fit import RIDGES, CPFit, Problem, improve, random_start
from factrank.tensors.cp.interval_proof import IntervalProof, equations_target, has_one_value, prove, valid_fibers
from factrank.tensors.cp.rational_rounding import rationalise

WholeFactors = tuple[Float[np.ndarray, "_i _r"], Float[np.ndarray, "_j _r"], Float[np.ndarray, "_k _r"]]

MOST_UNKNOWNS = 6_000
"""Larger normal matrices take too long."""

MOST_EQUATIONS = 2_000
"""Larger systems are not proved."""

SHIFTS = (0.2, 1.0)
"""Range of the standard deviation of the first shifts."""

ROUNDING_SHARE, ROUNDING_SECONDS = 0.3, 4.0
"""Share of the time that goes into rounding, and the longest time for one fit."""

MOST_STARTS, HOPELESS = 400, 30
"""Starts at one rank, and after how many without a converged one it is left."""


@dataclass(frozen=True)
class Attempt:
    """What the starts at one rank came to: how many ended with each status, and whether one was proved."""

    rank: int
    statuses: dict[str, int]
    proved: bool


@dataclass(frozen=True, eq=False)
class CPBound:
    """What numerical decompositions say of the rank of a tensor.

    Arguments:
        certified: the least number of terms that was proved, or None.
        witness: its proof.
        estimate: a converged fit with fewer terms that was not proved, or None.
        attempts: every rank that was tried, in order.
    """

    certified: int | None
    witness: Decomposition | IntervalProof | None
    estimate: CPFit | None
    attempts: tuple[Attempt, ...] = ()


def generic_rank(shape: tuple[int, ...], n_equations: int | None = None) -> int:
    """The rank expected of a generic tensor of this shape, by counting degrees of freedom.

    >>> generic_rank((8, 4, 5))
    11
    """
    a, b, c = shape
    return -(-(a * b * c if n_equations is None else n_equations) // max(a + b + c - 2, 1))


def cp_bound(core: Core, lower: int, upper: int, seconds: float, rng: np.random.Generator) -> CPBound | None:
    """Look for a decomposition of the core with fewer than `upper` and at least `lower` terms, within the time.

    None where there is nothing to look for, or where the tensor is too large for dense solvers.
    """
    return _search(CpSearch.of(core.tensor, seconds, rng), lower, upper)


def completion_cp_bound(
    tensor: ZeroOneTensor, lower: int, upper: int, seconds: float, rng: np.random.Generator
) -> CPBound | None:
    """The same for the completion rank: only the fibers (key, query) that have a fact count.

    Interval proofs carry the mask; a `Decomposition` agrees with the tensor on these fibers (`completes`).
    """
    return _search(CpSearch.of(tensor, seconds, rng, valid_fibers(tensor)), lower, upper)


def _search(search: CpSearch, lower: int, upper: int) -> CPBound | None:
    least = max(lower, 1)
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
    """The state of a search: the clock, and the best of what was found for every rank."""

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
        """Drop the last slice of a table that is full, at least on the valid fibers."""
        dropped = tensor.shape[2] - 1 if tensor.shape[2] > 1 and has_one_value(tensor, mask) else None
        target = equations_target(tensor, dropped).astype(np.float64)
        return cls(tensor, dropped, target, time.monotonic() + seconds, rng, mask)

    @property
    def n_equations(self) -> int:
        """The entries that count."""
        return self.target.size if self.mask is None else int(self.mask.sum()) * self.target.shape[2]

    @property
    def expected_rank(self) -> int:
        """Equations per degree of freedom of a term, and the term for the dropped slice."""
        return generic_rank(self.target.shape, self.n_equations) + (self.dropped is not None)

    def left(self) -> float:
        """Seconds left."""
        return self.end - time.monotonic()

    def gave_up(self, rank: int) -> bool:
        """Whether no start converged at this rank."""
        return rank not in self.converged and any(attempt.rank == rank for attempt in self.attempts)

    def attempt(self, rank: int, seconds: float, *, certify: bool = True) -> bool:
        """Starts at one rank until one is proved (or only converged), or until the time is spent."""
        start, end, statuses, rounding = time.monotonic(), time.monotonic() + seconds, Counter[str](), 0.0
        while time.monotonic() < end and rank not in self.proved:
            if statuses.total() >= (MOST_STARTS if rank in self.converged else HOPELESS):
                break
            fit = self.fit(rank, statuses.total(), end - time.monotonic())
            statuses[fit.status] += 1
            if fit.status != "converged":
                continue
            self.converged.setdefault(rank, fit)
            if not certify:
                break
            witness: Decomposition | IntervalProof | None = self.interval_proof(fit.factors)
            if witness is None and rounding <= ROUNDING_SHARE * (time.monotonic() - start):
                before = time.monotonic()
                left = min(ROUNDING_SECONDS, end - before)
                witness = rationalise(self.tensor, self.whole(fit.factors), seconds=left, mask=self.mask)
                rounding += time.monotonic() - before
            if witness is not None:
                self.proved[rank] = witness
        self.attempts.append(Attempt(rank, dict(statuses), rank in self.proved))
        return rank in self.proved

    def fit(self, rank: int, start: int, seconds: float) -> CPFit:
        """One fit with `rank` terms in all; for a full table the last is 1 x 1 x shift, held in 3 of 4 starts.

        Below the expected rank the shift is always free: the other terms alone have too few unknowns.
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
        """Krawczyk's test, unless there are too many equations."""
        if self.n_equations > MOST_EQUATIONS:
            return None
        return prove(self.tensor, factors, mask=self.mask, dropped=self.dropped)

    def whole(self, factors: Factors) -> WholeFactors:
        """The factors of the whole tensor: the dropped slice is the all-ones matrix minus the other slices."""
        if self.dropped is None:
            return factors
        a, b, c = factors
        row = -c.sum(axis=0)
        row[-1] += 1
        return a, b, np.insert(c, self.dropped, row, axis=0)

    def result(self) -> CPBound:
        """The least certified rank, and the least numerical one if it is smaller."""
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
        """All unknowns but the first two factors of the last term, and its third where the shift stays as it is."""
        i, j, k = self.target.shape
        free = np.ones((i + j + k, rank), dtype=bool)
        free[: i + j, -1] = False
        free[i + j :, -1] = shift
        return free.ravel()
