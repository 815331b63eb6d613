r"""Decompositions without a search: slice by slice, or by greedily subtracting rank-one terms.

Slices: the singular value decompositions of all slices of an axis form a decomposition of the tensor, $T = \sum_i e_i
\otimes \sum_s \sigma_{is}\, u_{is} v_{is}^\top$. Its terms are orthogonal, so dropping some of them gives a squared
error of the sum of their $\sigma^2$. Greedy: repeatedly subtract the best rank-one tensor found by the higher-order
power method (each vector in turn is the contraction with the other two), started from the largest slice of each axis.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from factrank.tensors.core import AXES, others
from factrank.tensors.cp.cp_equations import Factors, Tensor

POWER_STEPS, SETTLED = 30, 1e-10
"""Maximum number of steps of the power method, and the relative gain below which it stops."""

Vectors = tuple[Float[np.ndarray, " i"], Float[np.ndarray, " j"], Float[np.ndarray, " k"]]


def slice_terms(target: Tensor, axis: int) -> Factors:
    """Returns the terms of all slices of an axis, sorted by decreasing norm; the norm is in the factor of the axis."""
    slices = np.moveaxis(target, axis, 0)
    left, sizes, right = np.linalg.svd(slices, full_matrices=False)
    slice_, place = np.unravel_index(np.argsort(-sizes, axis=None, kind="stable"), sizes.shape)
    factors: list[Float[np.ndarray, "_ _"]] = [np.empty(0)] * 3
    row_axis, column_axis = others(axis)
    factors[row_axis] = left[slice_, :, place].T
    factors[column_axis] = right[slice_, place].T
    factors[axis] = np.zeros((len(slices), len(slice_)))
    factors[axis][slice_, np.arange(len(slice_))] = sizes[slice_, place]
    return factors[0], factors[1], factors[2]


def spectral_bound(target: Tensor, tolerance: float) -> int:
    """Returns a lower bound on the number of terms of any approximation with this relative error.

    A flattening of R terms has rank at most R, and the error of the best approximation of rank R is given by the
    remaining singular values (Eckart and Young).
    """
    spectra = []
    for axis in AXES:
        matrix = np.moveaxis(target, axis, 0).reshape(target.shape[axis], -1)
        spectra.append(np.linalg.svd(matrix, compute_uv=False))
    return max(needed(spectrum, tolerance) for spectrum in spectra)


def needed(sizes: Float[np.ndarray, " n"], tolerance: float) -> int:
    """Returns how many of the decreasing `sizes` leave at most a fraction tolerance^2 of the sum of squares."""
    squares = sizes**2
    left = squares.sum() - np.cumsum(squares)
    return int(np.argmax(left <= (tolerance**2 + 1e-14) * squares.sum())) + 1 if squares.sum() > 0 else 0


def greedy_terms(target: Tensor, tolerance: float, most: int) -> Factors | None:
    """Subtracts rank-one terms until the relative error is at most `tolerance`; None if `most` terms do not suffice."""
    rest, goal = target.astype(np.float64), tolerance * float(np.linalg.norm(target))
    terms = list[Vectors]()
    while float(np.linalg.norm(rest)) > goal:
        if len(terms) == most:
            return None
        a, b, c = best_term(rest)
        rest -= a[:, None, None] * (b[:, None] * c)
        terms.append((a, b, c))
    a, b, c = (
        np.column_stack([np.empty((size, 0)), *(term[axis] for term in terms)])
        for axis, size in enumerate(target.shape)
    )
    return a, b, c


def best_term(target: Tensor) -> Vectors:
    """Returns a rank-one tensor close to the target: the best power method from the largest slice of each axis."""
    squares, found = target**2, list[tuple[float, Vectors]]()
    for axis in AXES:
        row_axis, column_axis = others(axis)
        largest = int(np.argmax(squares.sum(axis=(row_axis, column_axis))))
        matrix = np.take(target, largest, axis=axis)
        vectors = [np.zeros(size) for size in target.shape]
        vectors[axis][largest] = 1.0
        vectors[row_axis], vectors[column_axis] = leading_vectors(matrix)
        found.append(_power_method(target, vectors))
    size, (a, b, c) = max(found, key=lambda one: one[0])
    return size * a, b, c


def leading_vectors(
    matrix: Float[np.ndarray, "rows columns"],
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " columns"]]:
    """Returns the first left and right singular vectors, from the Gram matrix of the shorter side."""
    if len(matrix) > matrix.shape[1]:
        right, left = leading_vectors(matrix.T)
        return left, right
    left = np.linalg.eigh(matrix @ matrix.T)[1][:, -1]
    return left, _unit(matrix.T @ left)[0]


def _power_method(target: Tensor, vectors: list[Float[np.ndarray, " _"]]) -> tuple[float, Vectors]:
    """Returns the norm and unit vectors of a rank-one tensor that no change of a single vector improves."""
    a, b, c = vectors
    size = 0.0
    for _ in range(POWER_STEPS):
        before, by_values = size, target @ c
        a, _ = _unit(by_values @ b)
        b, _ = _unit(a @ by_values)
        c, size = _unit(np.tensordot(np.outer(a, b), target, 2))
        if size - before <= SETTLED * size:
            break
    return size, (a, b, c)


def _unit(vector: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], float]:
    size = float(np.linalg.norm(vector))
    return vector / (size or 1.0), size
