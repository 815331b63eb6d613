r"""ProjectedProof: a proof that an exact CP decomposition exists near a fit by variable projection.

In the notation of `variable_projection`, the unknowns are B and y, where the entries of A and C are $x_0 + Z y$ with a
fixed matrix $Z \approx J^+$, as many as there are equations $M(x_0 + Z y)\, B - D = 0$. Multiply the equations by
$N^\top$ and by $W \approx M(x_0)^+$. The derivatives of the product are close to

$$\begin{pmatrix} I & 0 \\ L & I \end{pmatrix} \quad\text{in } (y, B),$$

so the preconditioner is the identity. The Krawczyk test with the box $|y| \le \rho$, $|B - B_0| \le \rho / \omega$ is

$$|N^\top F| + \rho\, |I - N^\top dM(Z\,\cdot)\, B|\,1 + \frac{\rho}{\omega} |N^\top M|\,1 < \rho, \qquad
\omega |W F| + \rho\,\omega\, |W\, dM(Z\,\cdot)\, B|\,1 + \rho\, |I - W M|\,1 < \rho$$

in every row, for all A, B, C in the box. It proves that an exact real solution exists in the box (Krawczyk 1969). The
test implies that the preconditioned derivative is regular, and so that the preconditioner is.

All quantities are bounded in floating point: a product of k terms has the error $\gamma_k |X| |Y|$ with
$\gamma_k = k u / (1 - k u)$, $u = 2^{-53}$, under any order of summation (Higham 2002, Section 3.5). Sums and products
of non-negative bounds are enlarged by a factor that covers their own rounding errors. N, W, Z and B_0 may be any
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from factrank.display import Shown
from factrank.tensors.core import AXES, ZeroOneTensor, others
from factrank.tensors.cp.interval_proof import has_one_value, same_tensor
from factrank.tensors.cp.variable_projection import Matrix, ProjectedPoint

Vector = Float[np.ndarray, " _"]

UNIT = 2.0**-53

ENLARGED = 1.0 + 1e-8
"""Covers the rounding errors of sums of up to 10^6 non-negative numbers, several times over."""

RADII = (4.0, 64.0)
"""Radii of y to try, relative to the largest |N^T F|."""


def gamma(terms: int) -> float:
    """Returns the relative error bound of a sum of products with this many terms, rounded up."""
    return ENLARGED * (terms + 2) * UNIT / (1 - (terms + 2) * UNIT)


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedProof(Shown):
    """Data of a proof that a tensor has an exact decomposition near these factors.

    Arguments:
        tensor: the tensor.
        axis: the axis whose factor is eliminated.
        left, right: the centre of the box for the factors of the two other axes, in order.
        radius: of y in the module docstring.
        dropped: a value slice that follows from the others, since every fiber has one value; the last term is then 1 x
            1 x c. None if no slice is dropped.
    """

    tensor: ZeroOneTensor
    axis: int
    left: Matrix
    right: Matrix
    radius: float
    dropped: int | None = None

    @property
    def rank(self) -> int:
        """The number of terms, a certified upper bound."""
        return int(self.left.shape[1])

    def __repr__(self) -> str:
        return f"ProjectedProof(rank <= {self.rank:,}, tensor of shape {self.tensor.shape}, radius {self.radius:.2g})"

    def verify(self, tensor: ZeroOneTensor) -> bool:
        """Repeats the whole proof for this tensor."""
        if not (self.axis in AXES and same_tensor(self.tensor, tensor) and self._reduction_holds()):
            return False
        rows, columns = (tensor.shape[other] for other in others(self.axis))
        fits = self.left.shape == (rows, self.rank) and self.right.shape == (columns, self.rank)
        fits = fits and self.left.dtype == self.right.dtype == np.float64  # the error bounds are for double precision
        finite = bool(np.all(np.isfinite(self.left)) and np.all(np.isfinite(self.right)))
        if not (fits and finite and 0 < self.radius < inf):
            return False
        target = unfolded(tensor, self.axis, self.dropped)
        return contracts(ProjectedPoint(target, self.left, self.right, int(self.dropped is not None)), self.radius)

    def _reduction_holds(self) -> bool:
        if self.dropped is None:
            return True
        ones = bool(np.all(self.left[:, -1] == 1) and np.all(self.right[:, -1] == 1))
        return self.axis == 2 and 0 <= self.dropped < self.tensor.shape[2] and ones and has_one_value(self.tensor)


def unfolded(tensor: ZeroOneTensor, axis: int, dropped: int | None = None) -> Matrix:
    """Returns D: one row per pair of indices on the two other axes, one column per slice that is not dropped."""
    whole = np.moveaxis(tensor.dense().astype(np.float64), axis, 2)
    kept = np.arange(tensor.shape[axis]) != (-1 if dropped is None else dropped)
    return np.asarray(whole.reshape(-1, tensor.shape[axis])[:, kept])


def prove_point(
    tensor: ZeroOneTensor, axis: int, point: ProjectedPoint, dropped: int | None = None
) -> ProjectedProof | None:
    """Returns a proof that the tensor has a decomposition near this point, or None."""
    for widening in RADII:
        radius = widening * max(float(_residuals(point)[0].max(initial=0.0)), 1e-300)
        if contracts(point, radius):
            proof = ProjectedProof(tensor, axis, point.left, point.right, radius, dropped)
            return proof if proof._reduction_holds() else None
    return None


def _residuals(point: ProjectedPoint) -> tuple[Matrix, Matrix]:
    """Upper bounds on |N^T F| and |W F|, F = M B_0 - D at the centre, in extended precision if the machine has it."""
    left, right, third, basis, inverse = (
        part.astype(np.longdouble)
        for part in (point.left, point.right, point.third, point.complement, _left_inverse(point))
    )
    products = (left[:, None, :] * right[None, :, :]).reshape(point.products.shape)
    error = products @ third - point.target
    # The entries of M are rounded products, and the target is subtracted: two more roundings.
    most = _long_gamma(point.n_terms + 2) * (np.abs(products) @ np.abs(third) + point.target)
    bounds = [
        np.abs(matrix @ error) + np.abs(matrix) @ (most + _long_gamma(len(error)) * np.abs(error))
        for matrix in (basis.T, inverse)
    ]
    own, other = (np.asarray(ENLARGED * bound, dtype=np.float64) for bound in bounds)
    return own, other


def _long_gamma(terms: int) -> float:
    unit = float(np.finfo(np.longdouble).eps) / 2
    return ENLARGED * (terms + 2) * unit / (1 - (terms + 2) * unit)


def _left_inverse(point: ProjectedPoint) -> Matrix:
    return np.asarray(np.linalg.pinv(point.products))


def contracts(point: ProjectedPoint, radius: float) -> bool:
    """Returns whether the test of the module docstring holds."""
    moving = point.n_terms - point.fixed
    jacobian, spread = _jacobian(point), _pseudo_inverse(point)
    if spread is None or jacobian.shape[0] != point.error.size:
        return False
    reach = ENLARGED * np.abs(spread).sum(axis=1)
    shifts = (ENLARGED * radius * reach).reshape(-1, moving)
    rows = len(point.left)
    box = _Box(point, shifts[:rows], shifts[rows:])
    inverse = _left_inverse(point)
    coupling = box.coupling(inverse, reach)
    omega = 0.25 / max(float(coupling.max(initial=0.0)), 1e-300)
    box = _Box(point, shifts[:rows], shifts[rows:], radius / omega * ENLARGED)
    coupling = box.coupling(inverse, reach)
    own, other = _residuals(point)
    near_identity = np.abs(jacobian @ spread - np.eye(len(jacobian))).sum(axis=1)
    rounding = gamma(jacobian.shape[1]) * (np.abs(jacobian) @ reach) + 4 * UNIT
    defect = ENLARGED * (near_identity + rounding + box.jacobian_radius(jacobian, reach))
    leak = box.off_complement()
    first = own.ravel() + radius * ENLARGED * (defect + np.repeat(leak / omega, point.error.shape[1]))
    second = omega * other.ravel() + radius * ENLARGED * (
        omega * coupling.ravel() + np.repeat(box.off_identity(inverse), point.third.shape[1])
    )
    return bool(np.all(ENLARGED * first < radius) and np.all(ENLARGED * second < radius))


def _jacobian(point: ProjectedPoint) -> Matrix:
    """J as computed: one row per equation (basis vector, slice), one column per moving entry of A, then C."""
    slopes, third = point.slopes, point.third[: point.n_terms - point.fixed]
    whole = slopes[:, None, :, :] * third.T[None, :, None, :]
    return np.asarray(whole.reshape(slopes.shape[0] * third.shape[1], -1))


def _pseudo_inverse(point: ProjectedPoint) -> Matrix | None:
    """Z, as computed."""
    jacobian = _jacobian(point)
    try:
        solved = cho_solve(cho_factor(point.gram(), lower=True), jacobian)
    except (LinAlgError, ValueError):
        return None
    return np.asarray(solved.T) if np.all(np.isfinite(solved)) else None


@dataclass(frozen=True, eq=False)
class _Box:
    """Bounds that hold for all A, C within the given shifts and all B within `third_radius` of the centre."""

    point: ProjectedPoint
    left_shift: Matrix
    right_shift: Matrix
    third_radius: float = 0.0

    def products_radius(self) -> Matrix:
        """By how much M may differ from M as computed."""
        left, right = np.abs(self.point.left), np.abs(self.point.right)
        moving = self.point.n_terms - self.point.fixed
        lefts, rights = np.zeros_like(left), np.zeros_like(right)
        lefts[:, :moving], rights[:, :moving] = self.left_shift, self.right_shift
        most = lefts[:, None, :] * (right + rights)[None] + left[:, None, :] * rights[None]
        return np.asarray(ENLARGED * (most.reshape(self.point.products.shape) + 2 * UNIT * np.abs(self.point.products)))

    def off_complement(self) -> Vector:
        """Row sums of |N^T M| over the box."""
        basis, products = self.point.complement, self.point.products
        most = np.abs(basis.T @ products) + gamma(len(products)) * (np.abs(basis).T @ np.abs(products))
        return np.asarray(ENLARGED * (most + np.abs(basis).T @ self.products_radius()).sum(axis=1))

    def off_identity(self, inverse: Matrix) -> Vector:
        """Row sums of |I - W M| over the box."""
        products = self.point.products
        most = np.abs(inverse @ products - np.eye(len(inverse)))
        most += gamma(len(products)) * (np.abs(inverse) @ np.abs(products)) + 4 * UNIT
        return np.asarray(ENLARGED * (most + np.abs(inverse) @ self.products_radius()).sum(axis=1))

    def coupling(self, inverse: Matrix, reach: Vector) -> Matrix:
        """Row sums of |W dM(Z .) B| over the box, for every term and slice."""
        moving = self.point.n_terms - self.point.fixed
        by_entry = reach.reshape(-1, moving)
        rows = len(self.point.left)
        left, right = (np.abs(part[:, :moving]) for part in (self.point.left, self.point.right))
        change = by_entry[:rows, None, :] * (right + self.right_shift)[None]
        change = change + (left + self.left_shift)[:, None, :] * by_entry[None, rows:]
        third = np.abs(self.point.third[:moving]) + self.third_radius
        return np.asarray(ENLARGED * ((np.abs(inverse) @ change.reshape(-1, moving)) @ third))

    def jacobian_radius(self, jacobian: Matrix, reach: Vector) -> Vector:
        """Row sums of |J(box) - J as computed| |Z|."""
        moving = self.point.n_terms - self.point.fixed
        rows, columns = len(self.point.left), len(self.point.right)
        basis = np.abs(self.point.complement).reshape(rows, columns, -1)
        left, right = (np.abs(part[:, :moving]) for part in (self.point.left, self.point.right))
        error_left = np.einsum("kvj,vr->jkr", basis, gamma(columns) * right + self.right_shift, optimize=True)
        error_right = np.einsum("kvj,kr->jvr", basis, gamma(rows) * left + self.left_shift, optimize=True)
        error = ENLARGED * np.concatenate([error_left, error_right], axis=1)
        by_entry, third = reach.reshape(-1, moving), np.abs(self.point.third[:moving])
        off_slopes = np.einsum("jir,ir->jr", error, by_entry, optimize=True) @ (third + self.third_radius)
        slopes = np.einsum("jir,ir->jr", np.abs(self.point.slopes), by_entry, optimize=True)
        off_third = slopes @ np.full_like(third, self.third_radius)
        rounded = 2 * UNIT * (np.abs(jacobian) @ reach)
        return np.asarray(ENLARGED * ((off_slopes + off_third).ravel() + rounded))
