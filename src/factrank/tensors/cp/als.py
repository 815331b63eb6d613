r"""Alternating least squares: a cheap CP approximation of large tensors, dense or sparse.

With two factors held, the best third one solves $A\,(B^\top B * C^\top C) = X_{(1)} (B \odot C)$; a sweep does this for
each factor in turn. The right-hand side (MTTKRP) is one matrix product for a dense tensor and touches only the stored
entries of a sparse one. Sweeps never raise the error, but may crawl; near an exact decomposition
Levenberg-Marquardt (`cp`) is the better choice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, Num
from scipy.linalg import lapack

from factrank.tensors.core import AXES, ZeroOneTensor, others
from factrank.tensors.cp.cp_equations import Factors, balance, term_norms
from factrank.tensors.cp.cp_fit import CONVERGED, LARGE_RESIDUAL, LARGEST_TERM, CPFit, FitStatus

RESOLUTION = 1e-7
"""Residuals below this are zero as far as the formula for them can tell."""

STALLED = 1e-8
"""A sweep that lowers the relative residual by less than this is the last."""


@dataclass(frozen=True, eq=False)
class SparseEntries:
    """A real tensor by its non-zero entries."""

    coordinates: Int[np.ndarray, "entries 3"]
    values: Float[np.ndarray, " entries"]
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> SparseEntries:
        """The same 0/1 tensor."""
        return cls(tensor.coordinates, np.ones(len(tensor)), tensor.shape)

    def norm(self) -> float:
        """The Frobenius norm."""
        return float(np.linalg.norm(self.values))

    def times(self, factors: Factors, axis: int) -> Float[np.ndarray, "rows rank"]:
        """MTTKRP: row i is the sum over its entries of value times the product of the rows of the two other factors."""
        first, second = others(axis)
        rows = factors[first][self.coordinates[:, first]] * factors[second][self.coordinates[:, second]]
        place = (self.coordinates[:, axis], np.arange(len(self.values)))
        return np.asarray(sp.csr_array((self.values, place), shape=(self.shape[axis], len(self.values))) @ rows)


@dataclass(frozen=True, eq=False)
class DenseEntries:
    """A real tensor as an array."""

    array: Num[np.ndarray, "i j k"]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The sizes of the axes."""
        i, j, k = self.array.shape
        return i, j, k

    def norm(self) -> float:
        """The Frobenius norm."""
        return float(np.linalg.norm(self.array))

    def times(self, factors: Factors, axis: int) -> Float[np.ndarray, "rows rank"]:
        """MTTKRP, as one matrix product with the Khatri-Rao product of the two other factors."""
        first, second = (factors[other] for other in others(axis))
        khatri_rao = (first[:, None, :] * second[None, :, :]).reshape(-1, first.shape[1])
        return np.asarray(self._unfoldings[axis] @ khatri_rao)

    @cached_property
    def _unfoldings(self) -> list[Float[np.ndarray, "_ _"]]:
        array = self.array.astype(np.float64)
        return [np.ascontiguousarray(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)) for axis in AXES]


def als_cp(
    target: SparseEntries | DenseEntries, rank: int, rng: np.random.Generator, *, seconds: float, sweeps: int = 1000
) -> CPFit:
    """One start of alternating least squares; the status says how it ended.

    The residual is |model - T| / |T|, from |T|^2 - 2 <T, model> + |model|^2 and so exact to about 1e-8.
    """
    first, second, third = (rng.normal(size=(size, rank)) for size in target.shape)
    return improve_by_sweeps(target, (first, second, third), seconds=seconds, sweeps=sweeps)


def improve_by_sweeps(
    target: SparseEntries | DenseEntries,
    start: Factors,
    *,
    seconds: float = np.inf,
    sweeps: int = 1000,
    enough: float = CONVERGED,
) -> CPFit:
    """Alternating least squares from given factors, until the residual is small enough or falls no more."""
    end, norm = time.monotonic() + seconds, target.norm() or 1.0
    factors: list[Float[np.ndarray, "_ _"]] = list(start)
    residual, done, status = np.inf, 0, "stalled"
    while done < sweeps:
        if time.monotonic() > end:
            status = "out of time"
            break
        before = residual
        residual = _sweep(target, factors, norm)
        done += 1
        if residual <= enough or before - residual < STALLED:
            break
    balanced = balance((factors[0], factors[1], factors[2]))
    largest = float(term_norms(balanced).max(initial=0.0)) / norm
    return CPFit(balanced, residual, largest, _status(residual, largest, status), done)


def _sweep(target: SparseEntries | DenseEntries, factors: list[Float[np.ndarray, "_ _"]], norm: float) -> float:
    """Solve for each factor in turn, in place; the relative residual afterwards."""
    for axis in AXES:
        first, second = (factors[other] for other in others(axis))
        gram = (first.T @ first) * (second.T @ second)
        right = target.times((factors[0], factors[1], factors[2]), axis)
        factors[axis] = _solve(gram, right.T).T
        if axis < 2:
            scale = np.linalg.norm(factors[axis], axis=0)
            factors[axis] = factors[axis] / np.where(scale > 0, scale, 1.0)
    inner = float(np.sum(right * factors[2]))
    model = float(np.sum(gram * (factors[2].T @ factors[2])))
    return float(np.sqrt(max(norm**2 - 2 * inner + model, 0.0))) / norm


def _solve(gram: Float[np.ndarray, "r r"], right: Float[np.ndarray, "r n"]) -> Float[np.ndarray, "r n"]:
    """Cholesky, or least squares where the Gram matrix is singular."""
    _, solution, failed = lapack.dposv(gram, right)
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0] if failed else solution)


def _status(residual: float, largest: float, ended: str) -> FitStatus:
    if largest > LARGEST_TERM and residual < LARGE_RESIDUAL:
        return "diverging"
    if residual <= RESOLUTION:
        return "converged"
    return "out of time" if ended == "out of time" else "stalled"
