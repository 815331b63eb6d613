"""Search for short decompositions of mid-size tensors by variable projection, proved by an interval test.

The number of terms is bisected between the expected rank of a generic tensor and the bound to beat. On large tensors
the first start is a fit by conjugate gradients (`cp_fit`), which gets close to a solution, and a few steps of variable
projection give it all digits. Every fit that converges is proved (`projected_proof`);
if the proof fails, it is an estimate, unless its terms diverge.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from math import inf

import numpy as np

from factrank.tensors.core import AXES, ZeroOneTensor, others
from factrank.tensors.cp.cp_fit import MOST_DENSE, RIDGES, CPFit, FitStatus, Problem, improve, random_start
from factrank.tensors.cp.cp_search import Attempt, CPBound, generic_rank, settled_residual
from factrank.tensors.cp.interval_proof import has_one_value
from factrank.tensors.cp.projected_proof import ProjectedProof, prove_point, unfolded
from factrank.tensors.cp.variable_projection import ProjectedPoint, solve, start_point

MOST_EQUATIONS = 3_600
"""Maximum number of equations that remain after one factor is eliminated."""

MOST_UNFOLDED = 3_000
"""Maximum number of pairs of indices of the two other factors."""

TYPICAL_STEPS, LAST_STEPS, PER_OPERATION = 14, 4, 1e-10
"""Steps of variable projection from a random start and from a close fit, and seconds per operation of a product."""

TYPICAL_PRODUCTS = 2_500
"""Products with the normal matrix of a fit by conjugate gradients that gets close."""

NEAR = 1e-5
"""Relative residual of a fit that variable projection completes."""

STARTS = 2
"""Starts at a number of terms before it counts as failed."""


@dataclass(frozen=True)
class Elimination:
    """Which factor to eliminate, which value slice to drop because every fiber has one value, and what remains.

    Arguments:
        axis: the axis of the eliminated factor.
        sizes: sizes of the two other axes.
        slices: the number of slices of the eliminated axis, without the dropped one.
        dropped: the dropped value slice, or None.
    """

    axis: int
    sizes: tuple[int, int]
    slices: int
    dropped: int | None

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> Elimination:
        """Eliminates the factor of the axis that leaves the fewest equations."""
        shape = tensor.shape
        if shape[2] > 1 and has_one_value(tensor):
            return cls(2, (shape[0], shape[1]), shape[2] - 1, shape[2] - 1)
        expected = generic_rank(shape)
        choices = [cls(axis, _sizes(shape, axis), shape[axis], None) for axis in AXES]
        return min(choices, key=lambda choice: choice.equations(expected))

    @property
    def rows(self) -> int:
        """The number of pairs of indices of the two other axes."""
        return self.sizes[0] * self.sizes[1]

    def equations(self, n_terms: int) -> int:
        """Returns the number of equations that remain."""
        return max(self.rows - n_terms, 0) * self.slices

    def by_products(self, n_terms: int) -> bool:
        """Returns whether the first start is fitted by conjugate gradients: a large tensor with all its slices."""
        return self.dropped is None and n_terms * (sum(self.sizes) + self.slices) > MOST_DENSE

    def seconds(self, n_terms: int) -> float:
        """Returns the expected time of a fit and its proof."""
        equations, unknowns = float(self.equations(n_terms)), float(sum(self.sizes) * n_terms)
        basis = float(max(self.rows - n_terms, 0))
        step = equations**3 / 3 + 2 * equations**2 * n_terms + 2 * basis**2 * unknowns + 8.0 * self.rows**3
        proof = 4 * equations**2 * unknowns
        if not self.by_products(n_terms):
            return 0.05 + PER_OPERATION * (TYPICAL_STEPS * step + proof)
        products = 6.0 * n_terms**2 * (sum(self.sizes) + self.slices)
        return 0.05 + PER_OPERATION * (TYPICAL_PRODUCTS * products + LAST_STEPS * step + proof)

    def least(self, n_terms: int, seconds: float) -> int:
        """Returns the least number of terms, at least `n_terms`, that is small enough and fits in the time."""
        while self.equations(n_terms) > MOST_EQUATIONS or self.seconds(n_terms) > seconds:
            n_terms += 1
            if n_terms >= self.rows:
                break
        return n_terms


def _sizes(shape: tuple[int, int, int], axis: int) -> tuple[int, int]:
    first, second = others(axis)
    return shape[first], shape[second]


def least_terms(tensor: ZeroOneTensor, lower: int) -> int:
    """Returns the least number of terms worth trying: the expected rank of a generic tensor, or the lower bound."""
    elimination = Elimination.of(tensor)
    if elimination.dropped is None:
        return max(generic_rank(tensor.shape), lower, 1)
    return max(generic_rank((*tensor.shape[:2], elimination.slices)) + 1, lower, 2)


def projected_bound(
    tensor: ZeroOneTensor, lower: int, upper: int, seconds: float, rng: np.random.Generator
) -> CPBound | None:
    """Searches for a decomposition with at least `lower` and fewer than `upper` terms.

    Returns None if the tensor is too large or there is no time for a single fit.
    """
    deadline, elimination = time.monotonic() + seconds, Elimination.of(tensor)
    if elimination.rows > MOST_UNFOLDED:
        return None
    target = unfolded(tensor, elimination.axis, elimination.dropped)
    failed, best = least_terms(tensor, lower) - 1, min(upper, elimination.rows)
    proof: ProjectedProof | None = None
    estimate: CPFit | None = None
    attempts: list[Attempt] = []
    while failed + 1 < best:
        left = deadline - time.monotonic()
        terms = max((failed + best) // 2, elimination.least(failed + 1, left))
        if left <= 0 or terms >= best:
            break
        statuses, found, residual = Counter[str](), None, inf
        for number, start in enumerate(rng.spawn(STARTS)):
            point = _start(target, elimination, terms, start)
            if number == 0 and elimination.by_products(terms):
                point, status, reached = _fitted(tensor, point, elimination.axis, start, deadline)
            else:
                point, status = solve(point, deadline)
                reached = point.residual
            statuses[status] += 1
            residual = min(residual, settled_residual(reached, status))
            if status == "converged":
                found = prove_point(tensor, elimination.axis, point, elimination.dropped)
                if found is None and (estimate is None or terms < estimate.rank):
                    estimate = _fit(point, elimination)
                break
        attempts.append(Attempt(terms, dict(statuses), found is not None, residual))
        if found is None:
            failed = terms
        else:
            best, proof = terms, found
    if estimate and proof and estimate.rank >= proof.rank:
        estimate = None
    return CPBound(proof.rank if proof else None, proof, estimate, tuple(attempts))


def _fitted(
    tensor: ZeroOneTensor, start: ProjectedPoint, axis: int, rng: np.random.Generator, deadline: float
) -> tuple[ProjectedPoint, FitStatus, float]:
    """Returns a fit by conjugate gradients, completed by variable projection if it gets close, and its residual."""
    dense = tensor.dense().astype(np.float64)
    left = deadline - time.monotonic()
    drawn = random_start(dense, start.n_terms, rng)
    fit = improve(Problem(dense), drawn, seconds=left, ridge=RIDGES[0], enough=NEAR)
    first, second = others(axis)
    point = ProjectedPoint(start.target, fit.factors[first], fit.factors[second])
    if fit.residual > NEAR:
        return start, fit.status, fit.residual
    point, status = solve(point, deadline)
    return point, status, point.residual


def _start(target: np.ndarray, elimination: Elimination, n_terms: int, rng: np.random.Generator) -> ProjectedPoint:
    return start_point(target, elimination.sizes, n_terms, rng, ones=elimination.dropped is not None)


def _fit(point: ProjectedPoint, elimination: Elimination) -> CPFit:
    factors = [np.empty(0)] * 3
    first, second = others(elimination.axis)
    factors[first], factors[second], factors[elimination.axis] = point.left, point.right, point.third.T
    return CPFit((factors[0], factors[1], factors[2]), point.residual, point.largest_term(), "converged", 0)
