r"""Approximate rank of a large table by numerical CP: the least R whose best residual is within a tolerance.

The relative residual is $|T - \sum_{r \le R} a_r \otimes b_r \otimes c_r| \,/\, |T|$. Equal slices are merged first; a
slice that represents m equal ones is weighted by $\sqrt m$, which preserves the best residuals. Upper bounds are
slice-by-slice and greedy decompositions (`greedy_terms`), lower bounds the singular values of the flattenings. If they
differ, ranks in between are tried with fits from several starts: Levenberg-Marquardt for small tensors, alternating
least squares for larger ones.

No step depends on a clock: up to rounding, the same tensor gives the same number on every machine. A failed fit proves
nothing, so the result is an estimate, and more often too large than too small.
"""

from __future__ import annotations

from functools import lru_cache
from math import nan

import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.errors import InputError
from factrank.tensors.core import AXES, Core, ZeroOneTensor, others
from factrank.tensors.cp.als import improve_by_sweeps
from factrank.tensors.cp.cp_equations import Tensor, Terms, multiply, term_norms
from factrank.tensors.cp.cp_fit import LARGEST_TERM, RIDGES, Problem, improve, random_start
from factrank.tensors.cp.cp_search import generic_rank
from factrank.tensors.cp.greedy_terms import greedy_terms, needed, slice_terms, spectral_bound

MOST_CELLS = 30_000_000
"""Maximum number of cells after merging equal slices; for larger tensors the rank is NaN."""

GREEDY_WORK = 200_000_000
"""Maximum of cells times terms for the greedy decomposition."""

LEAST_SQUARES_UNKNOWNS = 1_500
"""Maximum number of unknowns for Levenberg-Marquardt,"""

STEPS, STARTS = 80, 2
"""and its numbers of steps and of random starts."""

SWEEPS, SWEEP_WORK = 200, 200_000_000
"""Alternating least squares: maximum number of sweeps of a fit, and of cells times terms over all its sweeps."""

Fit = tuple[float, Terms]
"""A relative residual and the terms that have it."""


@lru_cache(maxsize=256)
def planted_rank(database: Database, tolerance: float) -> tuple[float, float]:
    """Returns the rank of a database's tensor found by numerical CP, and its relative residual.

    Both are NaN if the tensor is too large. Results are cached, because many trials share a database.

    Arguments:
        database: the facts.
        tolerance: relative residual to reach, between 0 and 1.

    >>> from factrank import generate
    >>> rank, residual = planted_rank(generate("overlapping-boxes", n_keys=30, n_queries=8, rank=12, seed=0), 1e-3)
    >>> rank, residual < 1e-3
    (12.0, True)
    """
    return approximate_rank(ZeroOneTensor.of(database), tolerance)


def approximate_rank(tensor: ZeroOneTensor, tolerance: float) -> tuple[float, float]:
    """Returns the same as `planted_rank` for a 0/1 tensor.

    Raises:
        InputError: if the tolerance is not between 0 and 1.
    """
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance must be a relative residual between 0 and 1 (exclusive); got {tolerance!r}")
    core = Core.of(tensor)
    if not len(core.tensor):
        return 0.0, 0.0
    if float(np.prod(np.array(core.tensor.shape, dtype=np.float64))) > MOST_CELLS:
        return nan, nan
    target = weighted(core)
    lower = spectral_bound(target, tolerance)
    residual, factors = _from_above(target, tolerance, lower)
    if factors[0].shape[1] > lower:
        residual, factors = _search(target, tolerance, lower, (residual, factors))
    return float(factors[0].shape[1]), residual


def weighted(core: Core) -> Float[np.ndarray, "_i _j _k"]:
    """Returns the core with each slice multiplied by the square root of the number of slices it represents."""
    target = core.tensor.dense().astype(np.float64)
    for axis in AXES:
        classes = core.classes[axis]
        weights = np.sqrt(np.bincount(classes[classes >= 0], minlength=target.shape[axis]))
        target *= np.expand_dims(weights, others(axis))
    return target


def residual_of(target: Tensor, factors: Terms) -> float:
    """Returns |T - model| / |T|."""
    return float(np.linalg.norm(multiply(factors) - target) / np.linalg.norm(target))


def _from_above(target: Tensor, tolerance: float, lower: int) -> Fit:
    found = list[Terms]()
    for axis in AXES:
        terms = slice_terms(target, axis)
        found.append(_first(terms, needed(np.linalg.norm(terms[axis], axis=0), tolerance)))
    shortest = min(found, key=lambda factors: factors[0].shape[1])
    most = shortest[0].shape[1]
    if most > lower and target.size * most <= GREEDY_WORK:
        greedy = greedy_terms(target, tolerance, most - 1)
        shortest = shortest if greedy is None else greedy
    return residual_of(target, shortest), shortest


def _first(factors: Terms, rank: int) -> Terms:
    a, b, c = (factor[:, :rank] for factor in factors)
    return a, b, c


# -------------------------------------------------------------------- search between the bounds


def _search(target: Tensor, tolerance: float, lower: int, best: Fit) -> Fit:
    """Lowers the rank step by step from the generic rank if the tensor is small, by bisection otherwise."""
    rank = min(generic_rank(target.shape), best[1][0].shape[1] - 1)
    while (upper := best[1][0].shape[1]) > lower:
        rank = min(max(rank, lower), upper - 1) if _is_small(target, upper) else (lower + upper) // 2
        fit = _fit(target, rank, tolerance, best[1])
        lower, best = (rank + 1, best) if fit is None else (lower, fit)
    return best


def _is_small(target: Tensor, rank: int) -> bool:
    return sum(target.shape) * rank <= LEAST_SQUARES_UNKNOWNS


def _fit(target: Tensor, rank: int, tolerance: float, longer: Terms) -> Fit | None:
    rng = np.random.default_rng(rank)
    small = _is_small(target, rank)
    order = np.argsort(-term_norms(longer), kind="stable")
    a, b, c = (factor[:, order[:rank]] for factor in longer)
    starts = [(a, b, c), *(random_start(target, rank, rng) for _ in range(STARTS if small else 1))]
    for number, start in enumerate(starts):
        if small:
            ridge = (0.0, *RIDGES)[number]
            fit = improve(Problem(target), start, seconds=np.inf, ridge=ridge, iterations=STEPS, enough=tolerance)
        else:
            sweeps = int(min(SWEEPS, max(SWEEP_WORK // (target.size * rank), 10)))
            fit = improve_by_sweeps(target, start, sweeps=sweeps, enough=tolerance)
        residual = residual_of(target, fit.factors)
        if residual <= tolerance and fit.largest_term <= LARGEST_TERM:
            return residual, fit.factors
    return None
