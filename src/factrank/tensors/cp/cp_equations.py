r"""Equations of a CP decomposition: model, gradient, Jacobian and normal matrix.

$T_{ijk} = \sum_{r=1}^{R} a_{ir} b_{jr} c_{kr}$. The unknowns are A, B, C in this order, each row by row. The normal
matrix $J^\top J$ then has the block structure of Tomasi and Bro (2006): $I \otimes (B^\top B * C^\top C)$ on the
diagonal, and $(C^\top C)_{rs}\, a_{is} b_{jr}$ off it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

Factors = tuple[Float[np.ndarray, "i r"], Float[np.ndarray, "j r"], Float[np.ndarray, "k r"]]
Terms = tuple[Float[np.ndarray, "_i _r"], Float[np.ndarray, "_j _r"], Float[np.ndarray, "_k _r"]]
"""Factors whose sizes are not compared with others in the same call."""

Tensor = Float[np.ndarray, "i j k"]
Fibers = Bool[np.ndarray, "i j"]


def multiply(factors: Factors) -> Float[np.ndarray, "_i _j _k"]:
    """Returns the tensor with these factors."""
    a, b, c = factors
    pairs = (a[:, None, :] * b[None, :, :]).reshape(len(a) * len(b), a.shape[1])
    return np.asarray((pairs @ c.T).reshape(len(a), len(b), len(c)))


def join(factors: Factors) -> Float[np.ndarray, " _n"]:
    """Returns all unknowns as one vector."""
    return np.concatenate([factor.ravel() for factor in factors])


def split(unknowns: Shaped[np.ndarray, " n"], shape: tuple[int, int, int], rank: int) -> tuple[Any, Any, Any]:
    """Returns the factors in a vector of unknowns, as views."""
    first, second = shape[0] * rank, (shape[0] + shape[1]) * rank
    return (
        unknowns[:first].reshape(shape[0], rank),
        unknowns[first:second].reshape(shape[1], rank),
        unknowns[second:].reshape(shape[2], rank),
    )


def term_norms(factors: Factors) -> Float[np.ndarray, " _r"]:
    """Returns the Frobenius norms |a_r| |b_r| |c_r| of the terms."""
    a, b, c = (np.linalg.norm(factor, axis=0) for factor in factors)
    return np.asarray(a * b * c)


def balance(factors: Factors) -> Factors:
    """Rescales the factors such that |a_r| = |b_r| = |c_r|; zero terms are unchanged."""
    norms = [np.linalg.norm(factor, axis=0) for factor in factors]
    common = np.cbrt(norms[0] * norms[1] * norms[2])
    a, b, c = (
        factor * np.divide(common, norm, out=np.ones_like(norm), where=(common > 0) & (norm > 0))
        for factor, norm in zip(factors, norms, strict=True)
    )
    return a, b, c


def gradient(error: Tensor, factors: Factors) -> Float[np.ndarray, " _n"]:
    r"""Returns $J^\top e$, half the gradient of $|e|^2$, for the error $e$ = model - target."""
    a, b, c = factors
    (i, j, k), rank = error.shape, a.shape[1]
    by_c = (error.reshape(i * j, k) @ c).reshape(i, j, rank)
    ab = (a[:, None, :] * b[None, :, :]).reshape(i * j, rank)
    parts = (
        np.einsum("ijr,jr->ir", by_c, b),
        np.einsum("ijr,ir->jr", by_c, a),
        error.reshape(i * j, k).T @ ab,
    )
    return np.concatenate([part.ravel() for part in parts])


def normal_matrix(factors: Factors) -> Float[np.ndarray, "_n _n"]:
    r"""Returns $J^\top J$ over all entries, block by block without forming J."""
    a, b, c = factors
    (i, rank), j, k = a.shape, len(b), len(c)
    aa, bb, cc = a.T @ a, b.T @ b, c.T @ c
    first, second = i * rank, (i + j) * rank
    matrix = np.zeros((second + k * rank,) * 2)
    for start, size, gram in ((0, i, bb * cc), (first, j, aa * cc), (second, k, aa * bb)):
        for row in range(start, start + size * rank, rank):
            matrix[row : row + rank, row : row + rank] = gram
    for rows, columns, gram, left, right in (
        (slice(0, first), slice(first, second), cc, a, b),
        (slice(0, first), slice(second, None), bb, a, c),
        (slice(first, second), slice(second, None), aa, b, c),
    ):
        block = left[:, None, None, :] * right.T[None, :, :, None] * gram[None, :, None, :]
        matrix[rows, columns] = block.reshape(len(left) * rank, len(right) * rank)
        matrix[columns, rows] = matrix[rows, columns].T
    return matrix


def jacobian(factors: Factors, mask: Fibers | None = None) -> Float[np.ndarray, "_m _n"]:
    """Returns the derivatives of all entries, row by row, or of the entries in the valid fibers."""
    a, b, c = factors
    (i, rank), j, k = a.shape, len(b), len(c)
    bc, ac, ab = (left[:, None, :] * right[None, :, :] for left, right in ((b, c), (a, c), (a, b)))
    to_a, to_b, to_c = (np.zeros((i, j, k, size, rank)) for size in (i, j, k))
    to_a[range(i), :, :, range(i)] = bc[None]
    to_b[:, range(j), :, range(j)] = np.moveaxis(np.broadcast_to(ac[:, None], (i, j, k, rank)), 1, 0)
    to_c[:, :, range(k), range(k)] = ab[:, :, None]
    full = np.concatenate([part.reshape(i, j, k, -1) for part in (to_a, to_b, to_c)], axis=3)
    rows = full if mask is None else full[mask]
    return np.asarray(rows.reshape(-1, full.shape[3]))
