r"""Alternating least squares (ALS): a cheap CP approximation of large dense tensors.

With two factors fixed, the best third one solves $A\,(B^\top B * C^\top C) = X_{(1)} (B \odot C)$; a sweep solves for
each factor in turn. Sweeps never increase the error but may converge slowly: close to an exact decomposition,
Levenberg-Marquardt (`cp_fit`) is the better choice.
"""

from __future__ import annotations

import time

import numpy as np
from jaxtyping import Float, Num
from scipy.linalg import lapack

from factrank.tensors.core import AXES, others
from factrank.tensors.cp.cp_equations import Factors, balance, term_norms
from factrank.tensors.cp.cp_fit import CONVERGED, CPFit, fit_status

Matrix = Float[np.ndarray, "_ _"]

RESOLUTION = 1e-7
"""Smallest residual that can be told from zero: it is the root of a difference of squares, exact to about 1e-8."""

STALLED = 1e-8
"""Stop after a sweep that lowers the relative residual by less than this."""


def improve_by_sweeps(
    target: Num[np.ndarray, "_ _ _"],
    start: Factors,
    *,
    seconds: float = np.inf,
    sweeps: int = 1000,
    enough: float = CONVERGED,
) -> CPFit:
    """Runs ALS from the given factors until the residual |model - T| / |T| is at most `enough` or stops falling."""
    end, norm = time.monotonic() + seconds, float(np.linalg.norm(target)) or 1.0
    unfoldings = [_unfolding(target.astype(np.float64), axis) for axis in AXES]
    factors: list[Matrix] = list(start)
    residual, done, out_of_time = np.inf, 0, False
    while done < sweeps:
        if time.monotonic() > end:
            out_of_time = True
            break
        before = residual
        residual = _sweep(unfoldings, factors, norm)
        done += 1
        if residual <= enough or before - residual < STALLED:
            break
    balanced = balance((factors[0], factors[1], factors[2]))
    largest = float(term_norms(balanced).max(initial=0.0)) / norm
    return CPFit(balanced, residual, largest, fit_status(residual, largest, RESOLUTION, out_of_time=out_of_time), done)


def _unfolding(target: Float[np.ndarray, "_ _ _"], axis: int) -> Matrix:
    return np.ascontiguousarray(np.moveaxis(target, axis, 0).reshape(target.shape[axis], -1))


def _sweep(unfoldings: list[Matrix], factors: list[Matrix], norm: float) -> float:
    """Solves for each factor in turn, in place; returns the relative residual."""
    for axis in AXES:
        first, second = (factors[other] for other in others(axis))
        gram = (first.T @ first) * (second.T @ second)
        khatri_rao = (first[:, None, :] * second[None, :, :]).reshape(-1, first.shape[1])
        right = unfoldings[axis] @ khatri_rao
        factors[axis] = _solve(gram, right.T).T
        if axis < 2:
            scale = np.linalg.norm(factors[axis], axis=0)
            factors[axis] = factors[axis] / np.where(scale > 0, scale, 1.0)
    inner = float(np.sum(right * factors[2]))
    model = float(np.sum(gram * (factors[2].T @ factors[2])))
    return float(np.sqrt(max(norm**2 - 2 * inner + model, 0.0))) / norm


def _solve(gram: Float[np.ndarray, "r r"], right: Float[np.ndarray, "r n"]) -> Float[np.ndarray, "r n"]:
    """Cholesky, or least squares if the Gram matrix is singular."""
    _, solution, failed = lapack.dposv(gram, right)
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0] if failed else solution)
