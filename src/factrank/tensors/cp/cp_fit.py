r"""Numerical CP decompositions of dense real tensors: Levenberg-Marquardt with a decaying ridge.

Minimises $|\sum_r a_r \otimes b_r \otimes c_r - T|^2 + \rho\,(|A|^2 + |B|^2 + |C|^2)$ with $\rho \to 0$: the ridge
keeps the terms bounded in the beginning and is zero in the end. A tensor with border rank at most R but larger rank has
no best approximation (de Silva and Lim, arXiv:math/0607647): the terms grow without bound while the residual falls.
Such a fit has status "diverging" and is no evidence about the rank. With a mask, only the entries in valid fibers are
fitted (completion).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import lapack

from factrank.tensors.cp.conjugate_steps import NormalProducts, SelectedFibers, conjugate_step
from factrank.tensors.cp.cp_equations import (
    Factors,
    Fibers,
    Tensor,
    balance,
    gradient,
    jacobian,
    join,
    multiply,
    normal_matrix,
    split,
    term_norms,
)

FitStatus = Literal["converged", "diverging", "stalled", "out of time"]

CONVERGED = 1e-12
"""Maximum relative residual |model - T| / |T| of a converged fit."""

CONVERGED_BY_PRODUCTS = 1e-8
"""The same for fits by conjugate gradients, whose last digits would cost more than all others."""

LARGEST_TERM = 50.0
"""A fit with terms larger than this times |T| is evidence of border rank only."""

MOST_DENSE = 2_000
"""Maximum number of unknowns for steps by a Cholesky factorisation; above, they are solved by conjugate gradients."""

RIDGES = (1e-3, 1e-1, 1e-5)
DECAY, NO_RIDGE, FLAT = 0.2, 1e-9, 0.02
LARGEST_DAMPING = 1e12
LARGE_RESIDUAL = 0.5
"""Above this relative residual, large terms are not evidence of border rank either."""

STAGNANT_STEPS, STAGNANT_RATIO = 25, 0.8
"""A fit by conjugate gradients without a ridge ends if that many steps do not lower its residual by this factor."""

SUSPECT_TERM, SUSPECT_RESIDUAL, PATIENCE = 10.0, 1e-2, 10
"""Fits with such terms and residuals may be diverging slowly and get this many times the iterations."""


@dataclass(frozen=True, eq=False)
class CPFit:
    """Result of one start: factors, relative residual, largest term norm over |T|, and how it ended."""

    factors: Factors
    residual: float
    largest_term: float
    status: FitStatus
    iterations: int

    @property
    def rank(self) -> int:
        """The number of terms."""
        return int(self.factors[0].shape[1])


@dataclass(frozen=True, eq=False)
class Problem:
    """A target, the fibers that are fitted (None: all), and the unknowns that may change (None: all)."""

    target: Tensor
    mask: Fibers | None = None
    free: Bool[np.ndarray, " n"] | None = None

    def error(self, factors: Factors) -> Float[np.ndarray, "_i _j _k"]:
        """Returns model minus target, zero outside the valid fibers."""
        error = multiply(factors) - self.target
        return error if self.mask is None else np.asarray(error * self.mask[:, :, None])

    def norm(self) -> float:
        """Returns |T| over the fitted entries; 1 for the zero tensor."""
        counted = self.target if self.mask is None else self.target[self.mask]
        return float(np.linalg.norm(counted)) or 1.0

    @cached_property
    def fibers(self) -> SelectedFibers | None:
        """The fibers that are fitted, as indices; None if all are."""
        return None if self.mask is None else SelectedFibers.of(self.mask)

    def normal(self, factors: Factors) -> Float[np.ndarray, "_n _n"]:
        """Returns the normal matrix of the fitted entries."""
        if self.mask is None:
            return normal_matrix(factors)
        derivatives = jacobian(factors, self.mask)
        return np.asarray(derivatives.T @ derivatives)

    def balanced(self, factors: Factors) -> Factors:
        """Balances every term of which all entries may change."""
        if self.free is None:
            return balance(factors)
        i, j, k = self.target.shape
        moves = [part.all(axis=0) for part in split(self.free, (i, j, k), factors[0].shape[1])]
        whole = moves[0] & moves[1] & moves[2]
        a, b, c = (np.where(whole, new, old) for new, old in zip(balance(factors), factors, strict=True))
        return a, b, c


def random_start(target: Tensor, rank: int, rng: np.random.Generator) -> Factors:
    """Returns normal factors whose terms are about as large as the target."""
    norm = float(np.linalg.norm(target)) or 1.0
    scale = (norm**2 / max(rank, 1) / target.size) ** (1 / 6)
    a, b, c = (scale * rng.normal(size=(size, rank)) for size in target.shape)
    return a, b, c


def improve(
    problem: Problem,
    start: Factors,
    *,
    seconds: float,
    ridge: float = 0.0,
    iterations: int = 400,
    damping: float = 0.1,
    enough: float | None = None,
) -> CPFit:
    """Runs Levenberg-Marquardt until the relative residual is at most `enough`.

    With more than `MOST_DENSE` unknowns, steps are solved by conjugate gradients.

    Arguments:
        problem: the target, and which fibers and unknowns are free.
        start: initial factors; unknowns that are not free keep their values.
        seconds: time limit.
        ridge: initial ridge.
        iterations: maximum number of steps; suspected divergence gets more.
        damping: initial damping.
        enough: residual at which to stop; by default, at which a fit of this size counts as converged.
    """
    end, norm = time.monotonic() + seconds, problem.norm()
    factors, done = problem.balanced(start), 0
    error, out_of_time = problem.error(factors), False
    conjugate = sum(factor.size for factor in factors) > MOST_DENSE
    find = partial(_conjugate_step, end=end) if conjugate else _accepted_step
    converged = CONVERGED_BY_PRODUCTS if conjugate else CONVERGED
    enough, residuals = converged if enough is None else enough, list[float]()
    patience = PATIENCE if enough <= converged else 1
    while done < patience * iterations:
        residual = float(np.linalg.norm(error)) / norm
        largest = float(term_norms(factors).max(initial=0.0)) / norm
        if residual <= enough or (largest > LARGEST_TERM and ridge == 0 and residual < LARGE_RESIDUAL):
            break
        if done >= iterations and not (largest > SUSPECT_TERM and residual < SUSPECT_RESIDUAL):
            break
        if time.monotonic() > end:
            out_of_time = True
            break
        if conjugate and ridge == 0:
            residuals.append(residual)
            if _stagnant(residuals):
                break
        step = find(problem, factors, error, ridge, damping)
        if step is None:
            if ridge == 0:
                break
            ridge, damping = 0.0, 0.1
            continue
        factors, damping, flat = step
        factors, done = problem.balanced(factors), done + 1
        error = problem.error(factors)
        if flat:
            ridge = DECAY * ridge if DECAY * ridge > NO_RIDGE else 0.0
    residual = float(np.linalg.norm(error)) / norm
    largest = float(term_norms(factors).max(initial=0.0)) / norm
    return CPFit(factors, residual, largest, fit_status(residual, largest, converged, out_of_time=out_of_time), done)


def _stagnant(residuals: list[float]) -> bool:
    return len(residuals) > STAGNANT_STEPS and residuals[-1] > STAGNANT_RATIO * residuals[-1 - STAGNANT_STEPS]


def fit_status(residual: float, largest_term: float, converged: float, *, out_of_time: bool) -> FitStatus:
    """Returns how a fit ended; `converged` is the largest residual that counts as converged."""
    if largest_term > LARGEST_TERM and residual < LARGE_RESIDUAL:
        return "diverging"
    if residual <= converged:
        return "converged"
    return "out of time" if out_of_time else "stalled"


def _accepted_step(
    problem: Problem, factors: Factors, error: Tensor, ridge: float, damping: float
) -> tuple[Factors, float, bool] | None:
    """Returns a damped step that lowers the objective, the next damping, and whether the objective is nearly flat."""
    unknowns = join(factors)
    free = np.arange(len(unknowns)) if problem.free is None else np.flatnonzero(problem.free)
    if not len(free):
        return None
    slope = (gradient(error, factors) + ridge * unknowns)[free]
    normal = problem.normal(factors)
    normal = np.asfortranarray(normal if problem.free is None else normal[np.ix_(free, free)])
    diagonal = np.diag(normal).copy()

    def change(damping: float) -> Float[np.ndarray, " _n"] | None:
        np.fill_diagonal(normal, diagonal + ridge + damping)
        factor, failed = lapack.dpotrf(normal, lower=1)
        if failed:
            return None
        whole = np.zeros_like(unknowns)
        whole[free] = lapack.dpotrs(factor, slope, lower=1)[0]
        return whole

    return _lowered(problem, factors, error, ridge, damping, change)


def _conjugate_step(
    problem: Problem, factors: Factors, error: Tensor, ridge: float, damping: float, *, end: float
) -> tuple[Factors, float, bool] | None:
    """Returns what `_accepted_step` does, without a normal matrix."""
    products = NormalProducts(factors, problem.fibers, problem.free)
    slope = gradient(error, factors) + ridge * join(factors)
    slope = slope if problem.free is None else np.where(problem.free, slope, 0.0)
    residual = float(np.linalg.norm(error)) / problem.norm()

    def change(damping: float) -> Float[np.ndarray, " _n"] | None:
        return conjugate_step(products, slope, ridge + damping, residual, end)

    return _lowered(problem, factors, error, ridge, damping, change)


def _lowered(
    problem: Problem,
    factors: Factors,
    error: Tensor,
    ridge: float,
    damping: float,
    change: Callable[[float], Float[np.ndarray, " _n"] | None],
) -> tuple[Factors, float, bool] | None:
    """Raises the damping until the change that it gives lowers the objective."""
    (i, j, k), rank, unknowns = error.shape, factors[0].shape[1], join(factors)
    value = float(np.sum(error**2) + ridge * np.sum(unknowns**2))
    while damping < LARGEST_DAMPING:
        step = change(damping)
        if step is not None:
            moved = unknowns - step
            proposal = split(moved, (i, j, k), rank)
            lowered = float(np.sum(problem.error(proposal) ** 2) + ridge * np.sum(moved**2))
            if lowered < value:
                return proposal, max(damping / 5, 1e-15), value - lowered < FLAT * value
        damping *= 3
    return None
