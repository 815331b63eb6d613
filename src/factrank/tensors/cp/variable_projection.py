r"""Variable projection: CP fits of mid-size tensors, with one factor eliminated.

Let the matrix D have the slices of one axis as columns. The tensor has R terms iff the columns of D are combinations of
R rank-one matrices $a_r c_r^\top$, the columns of the matrix M(A, C). With an orthonormal basis N of the orthogonal
complement of M, the equations $F(A, C) = N^\top D = 0$ are few: $m\,n$ of them for n slices and $m$ = rows of D - R.
The third factor is $B = M^+ D$. To first order, a change of A and C changes F by $-N^\top dM\, B$, with Jacobian

$$J[(j, q), (i, r)] = E[j, i, r]\, B[r, q], \qquad
J J^\top[(j, q), (j', q')] = \sum_r \Bigl(\sum_i E[j, i, r] E[j', i, r]\Bigr) B[r, q] B[r, q'],$$

so damped Gauss-Newton steps (Kaufman 1975) need one Cholesky factorisation with $m\,n$ unknowns instead of one with all
R(a + b + c).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

from factrank.tensors.cp.cp_fit import FitStatus, fit_status

Matrix = Float[np.ndarray, "_ _"]

CONVERGED = 1e-14
"""Relative residual at which steps stop; a fit within `CLOSE` counts as converged."""

CLOSE = 1e-11

STEPS = 60
"""Maximum number of steps; fits that converge usually need 7 to 30."""

FIRST_DAMPING, LARGEST_DAMPING = 1e-2, 1e3
"""Initial and largest damping, relative to the mean diagonal of J J^T."""


@dataclass(frozen=True, eq=False)
class ProjectedPoint:
    """Factors A and C, and everything about the reduced equations that depends on them.

    Arguments:
        target: D, whose rows are the pairs of indices of the two factors, and whose columns are the slices.
        left, right: A and C.
        fixed: the number of last terms whose two factors do not change.
    """

    target: Matrix
    left: Matrix
    right: Matrix
    fixed: int = 0

    @property
    def n_terms(self) -> int:
        """R."""
        return int(self.left.shape[1])

    @cached_property
    def products(self) -> Matrix:
        """M, whose columns are the rank-one matrices a_r c_r^T."""
        return np.asarray((self.left[:, None, :] * self.right[None, :, :]).reshape(-1, self.n_terms))

    @cached_property
    def complement(self) -> Matrix:
        """N, an orthonormal basis of the orthogonal complement of M."""
        return np.asarray(np.linalg.qr(self.products, mode="complete")[0][:, self.n_terms :])

    @cached_property
    def error(self) -> Matrix:
        """F = N^T D."""
        return np.asarray(self.complement.T @ self.target)

    @cached_property
    def residual(self) -> float:
        """|F| / |D|."""
        return float(np.linalg.norm(self.error)) / (float(np.linalg.norm(self.target)) or 1.0)

    @cached_property
    def third(self) -> Matrix:
        """B, one row per term and one column per slice."""
        return np.asarray(np.linalg.lstsq(self.products, self.target, rcond=1e-13)[0])

    @cached_property
    def slopes(self) -> Float[np.ndarray, "_ _ _"]:
        """E[j, i, r]: derivatives of N^T M with respect to the entries of A, then C, of the terms that change."""
        basis = self.complement.reshape(len(self.left), len(self.right), -1)
        moving = slice(0, self.n_terms - self.fixed)
        to_left = np.einsum("kvj,vr->jkr", basis, self.right[:, moving], optimize=True)
        to_right = np.einsum("kvj,kr->jvr", basis, self.left[:, moving], optimize=True)
        return np.concatenate([to_left, to_right], axis=1)

    def gram(self) -> Matrix:
        """J J^T."""
        slopes, third = self.slopes, self.third[: self.n_terms - self.fixed]
        m, n = slopes.shape[0], third.shape[1]
        # For each term, a Gram matrix over the basis; a matrix product then sums over terms.
        per_term = np.matmul(slopes.transpose(2, 0, 1), slopes.transpose(2, 1, 0)).reshape(len(third), m * m)
        pairs = (third[:, :, None] * third[:, None, :]).reshape(len(third), n * n)
        whole = (per_term.T @ pairs).reshape(m, m, n, n)
        return np.asarray(whole.transpose(0, 2, 1, 3).reshape(m * n, m * n))

    def moved(self, weights: Matrix) -> ProjectedPoint:
        """Returns the point moved by J^T times the weights (one per equation)."""
        by_term = weights @ self.third[: self.n_terms - self.fixed].T
        change = np.einsum("jir,jr->ir", self.slopes, by_term, optimize=True)
        left, right = self.left.copy(), self.right.copy()
        moving = slice(0, self.n_terms - self.fixed)
        left[:, moving] += change[: len(left)]
        right[:, moving] += change[len(left) :]
        return ProjectedPoint(self.target, left, right, self.fixed)

    def largest_term(self) -> float:
        """Returns the largest norm of a term over |D|."""
        sizes: Any = [
            np.linalg.norm(part, axis=axis) for part, axis in ((self.left, 0), (self.right, 0), (self.third, 1))
        ]
        return float((sizes[0] * sizes[1] * sizes[2]).max(initial=0.0)) / (float(np.linalg.norm(self.target)) or 1.0)


def start_point(
    target: Matrix, sizes: tuple[int, int], n_terms: int, rng: np.random.Generator, *, ones: bool = False
) -> ProjectedPoint:
    """Returns random factors; with `ones`, the last term is fixed to be the all-ones matrix."""
    left, right = (rng.normal(size=(size, n_terms)) for size in sizes)
    if ones:
        left[:, -1] = right[:, -1] = 1.0
    return ProjectedPoint(target, left, right, int(ones))


def solve(point: ProjectedPoint, deadline: float) -> tuple[ProjectedPoint, FitStatus]:
    """Runs damped Gauss-Newton steps from a point, until F vanishes, no step lowers it, or the deadline."""
    damping, late = FIRST_DAMPING, False
    for _ in range(STEPS):
        late = time.monotonic() > deadline
        if point.residual <= CONVERGED or late:
            break
        found = _step(point, damping, deadline)
        if found is None:
            break
        point, damping = found
    return point, fit_status(point.residual, point.largest_term(), CLOSE, out_of_time=late)


def _step(point: ProjectedPoint, damping: float, deadline: float) -> tuple[ProjectedPoint, float] | None:
    """A step that lowers |F|, and the next damping; None if there is none."""
    gram = point.gram()
    diagonal = np.diag(gram).copy()
    scale = float(diagonal.mean())
    while damping < LARGEST_DAMPING and time.monotonic() < deadline:
        np.fill_diagonal(gram, diagonal + damping * scale)
        factor, failed = lapack.dpotrf(gram, lower=1)
        if not failed:
            weights = lapack.dpotrs(factor, point.error.ravel(), lower=1)[0].reshape(point.error.shape)
            proposal = point.moved(weights)
            if proposal.residual < point.residual and np.all(np.isfinite(proposal.left)):
                return proposal, max(damping / 10, 1e-16)
        damping *= 5
    return None
