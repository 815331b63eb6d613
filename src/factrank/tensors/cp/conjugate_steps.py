r"""Damped Gauss-Newton steps by conjugate gradients, for fits with too many unknowns for a normal matrix.

A step solves $(J^\top J + \mu I)\, x = g$. The product of $J^\top J$ with a change (X, Y, Z) of the factors (A, B, C)
needs only matrices with one row and one column per term (Sorber, Van Barel and De Lathauwer 2013, SIAM J. Optim. 23):
its part for A is

$$X\,(B^\top B * C^\top C) + A\,\bigl((Y^\top B) * C^\top C + B^\top B * (Z^\top C)\bigr),$$

and the parts for B and C follow by symmetry: $O(R^2 (a + b + c))$ operations, however many entries the tensor has. If
only some fibers are fitted, the product is computed from their derivatives. The preconditioner consists of the
diagonal blocks $B^\top B * C^\top C + \mu I$ (and those of B and C), which are the normal matrices of alternating least
squares.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.linalg import lapack

from factrank.tensors.cp.cp_equations import Factors, Fibers, join, split

Unknowns = Float[np.ndarray, " n"]
Matrix = Float[np.ndarray, "_ _"]

LEAST_SHIFT = 1e-13
"""Least shift of the blocks of the preconditioner, relative to their mean diagonal, so that they can be inverted."""

FEW_STEPS, MANY_STEPS = 60, 250
"""Maximum number of conjugate gradients of a step, far from a solution and close to one."""

CLOSE = 1e-3
"""Relative residual below which the fit is close to a solution."""

LOOSE, TIGHT = 0.1, 1e-6
"""Range of the accuracy of a step, relative to the slope: the relative residual of the fit, within these limits."""


@dataclass(frozen=True, eq=False)
class SelectedFibers:
    """The fibers that are fitted, and the matrices that add them up by their first and second index."""

    first: Int[np.ndarray, " fibers"]
    second: Int[np.ndarray, " fibers"]
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: Fibers) -> SelectedFibers:
        """Returns the fibers of a mask."""
        first, second = np.nonzero(mask)
        return cls(first, second, (mask.shape[0], mask.shape[1]))

    @cached_property
    def by_first(self) -> sp.csr_array:
        """Sums fibers with the same first index."""
        return _sums(self.first, self.shape[0])

    @cached_property
    def by_second(self) -> sp.csr_array:
        """Sums fibers with the same second index."""
        return _sums(self.second, self.shape[1])


def _sums(places: Int[np.ndarray, " n"], size: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(places)), (places, np.arange(len(places)))), shape=(size, len(places)))


@dataclass(frozen=True, eq=False)
class NormalProducts:
    """Products with the normal matrix at some factors, and with its preconditioner.

    Arguments:
        factors: A, B and C.
        fibers: the fibers that are fitted; None if all are.
        free: the unknowns that may change; None if all may.
    """

    factors: Factors
    fibers: SelectedFibers | None = None
    free: Bool[np.ndarray, " n"] | None = None

    @cached_property
    def grams(self) -> tuple[Matrix, Matrix, Matrix]:
        """The Gram matrices of the three factors."""
        a, b, c = self.factors
        return a.T @ a, b.T @ b, c.T @ c

    def _split(self, unknowns: Unknowns) -> Factors:
        a, b, c = self.factors
        return split(unknowns, (len(a), len(b), len(c)), a.shape[1])

    def times(self, change: Unknowns) -> Unknowns:
        """Returns J^T J times a change of the unknowns that may change."""
        x, y, z = self._split(change)
        product = join(self._of_all(x, y, z) if self.fibers is None else self._of_some(self.fibers, x, y, z))
        return product if self.free is None else np.where(self.free, product, 0.0)

    def _of_all(self, x: Matrix, y: Matrix, z: Matrix) -> Factors:
        a, b, c = self.factors
        aa, bb, cc = self.grams
        xa, yb, zc = x.T @ a, y.T @ b, z.T @ c
        return (
            x @ (bb * cc) + a @ (yb * cc + bb * zc),
            y @ (aa * cc) + b @ (xa * cc + aa * zc),
            z @ (aa * bb) + c @ (xa * bb + aa * yb),
        )

    def _of_some(self, fibers: SelectedFibers, x: Matrix, y: Matrix, z: Matrix) -> Factors:
        a, b, c = self.factors
        at_first, at_second = a[fibers.first], b[fibers.second]
        both = at_first * at_second
        moved = (x[fibers.first] * at_second + at_first * y[fibers.second]) @ c.T + both @ z.T
        back = moved @ c
        return fibers.by_first @ (back * at_second), fibers.by_second @ (back * at_first), moved.T @ both

    def preconditioner(self, shift: float) -> Callable[[Unknowns], Unknowns] | None:
        """Returns the inverse of the diagonal blocks plus a shift; None if a block cannot be inverted."""
        aa, bb, cc = self.grams
        blocks = []
        for block in (bb * cc, aa * cc, aa * bb):
            least = LEAST_SHIFT * float(np.trace(block)) / len(block)
            inverted, failed = lapack.dpotrf(block + max(shift, least) * np.eye(len(block)), lower=1)
            if failed:
                return None
            blocks.append(inverted)

        def inverse(unknowns: Unknowns) -> Unknowns:
            parts = self._split(unknowns)
            solved = [lapack.dpotrs(block, part.T, lower=1)[0].T for block, part in zip(blocks, parts, strict=True)]
            joined = join((solved[0], solved[1], solved[2]))
            return joined if self.free is None else np.where(self.free, joined, 0.0)

        return inverse


def conjugate_step(
    products: NormalProducts, slope: Unknowns, shift: float, residual: float, end: float
) -> Unknowns | None:
    """Returns x with (J^T J + shift I) x close to the slope; None if the preconditioner does not exist.

    Arguments:
        products: the normal matrix.
        slope: J^T times the error, 0 for unknowns that may not change.
        shift: damping and ridge.
        residual: relative residual of the fit, which determines the accuracy and the number of steps.
        end: `time.monotonic` time at which to return what was found so far.
    """
    inverse = products.preconditioner(shift)
    if inverse is None:
        return None
    x, rest = np.zeros_like(slope), slope.copy()
    goal = min(max(residual, TIGHT), LOOSE) * float(np.linalg.norm(slope))
    towards = inverse(rest)
    direction, weight = towards, float(rest @ towards)
    for _ in range(MANY_STEPS if residual < CLOSE else FEW_STEPS):
        image = products.times(direction) + shift * direction
        curvature = float(direction @ image)
        if not curvature > 0 or not np.isfinite(curvature):
            break
        x = x + weight / curvature * direction
        rest = rest - weight / curvature * image
        if float(np.linalg.norm(rest)) <= goal or time.monotonic() > end:
            break
        towards = inverse(rest)
        before, weight = weight, float(rest @ towards)
        direction = towards + weight / before * direction
    return x
