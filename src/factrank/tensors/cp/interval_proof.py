r"""IntervalProof: a proof by interval Newton that an exact real CP decomposition exists near a numerical one.

Take the equations $F(x) = 0$, $\sum_r a_{ir} b_{jr} c_{kr} - T_{ijk}$ for all entries, in equally many free unknowns;
the other unknowns are fixed at their float values. With $Y \approx F'(x_0)^{-1}$ and the box $X$ of radius $\rho$
around $x_0$, the Krawczyk operator satisfies $|K(X) - x_0|_a \le |Y F(x_0)|_a + \rho \sum_b |I - Y F'(X)|_{ab}$. If
this is less than $\rho$ for every $a$, then $K(X)$ is inside $X$ and $F$ has a zero in $X$ (Krawczyk 1969; Moore 1977).
Everything except the choice of $Y$ is computed in ball arithmetic (python-flint), so rounding errors are covered.

The slices of a full table D add up to the all-ones matrix, which makes $F'$ singular. In this case the proof drops one
slice w and fixes the first two factors of a term $1 \otimes 1 \otimes \lambda$. If the other slices are $D_v =
\lambda_v 1 1^\top + \sum_r c_{vr} a_r b_r^\top$, then $D_w = (1 - \sum_v \lambda_v) 1 1^\top - \sum_r (\sum_v c_{vr})
a_r b_r^\top$, so D has the same number of terms. The same argument works on the valid fibers of a functional database,
for its completion rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import qr

from factrank.display import Shown
from factrank.tensors.core import ZeroOneTensor
from factrank.tensors.cp.cp_equations import Factors, Fibers, jacobian, join, split

PRECISION = 96
"""Bits of precision of the ball arithmetic."""

REGULAR = 1e-10
"""Minimum pivot of the Jacobian, relative to the largest, for attempting a proof."""

WIDENINGS = (2.0, 16.0)
"""Radii to try, relative to the Newton correction."""


@dataclass(frozen=True, eq=False)
class IntervalProof(Shown):
    """Data of a proof that the tensor has an exact decomposition within `radius` of `factors`.

    Arguments:
        tensor: the tensor.
        factors: the centre of the box. With a dropped slice, the third factor has no row for it and the last term is 1
            x 1 x c.
        free: which unknowns (A, B, C, row by row) may differ from the centre; as many as there are equations.
        radius: by how much they may differ.
        mask: the valid fibers, for a proof about the completion rank; None for the rank.
        dropped: the value slice of a full table that follows from the others, or None.
    """

    tensor: ZeroOneTensor
    factors: Factors
    free: Bool[np.ndarray, " n"]
    radius: float
    mask: Fibers | None = None
    dropped: int | None = None

    @property
    def rank(self) -> int:
        """The number of terms, a certified upper bound."""
        return int(self.factors[0].shape[1])

    def __repr__(self) -> str:
        which = "rank" if self.mask is None else "completion rank"
        return f"IntervalProof({which} <= {self.rank:,}, tensor of shape {self.tensor.shape}, radius {self.radius:.2g})"

    def verify(self, tensor: ZeroOneTensor) -> bool:
        """Repeats the whole proof for this tensor, of its rank or (with a mask) of its completion rank."""
        fits = len({factor.shape[1] for factor in self.factors}) == 1 and self.free.dtype == np.bool_
        fits = fits and len(self.free) == sum(self._shape) * self.rank > 0
        holds = fits and same_tensor(self.tensor, tensor) and self._mask_is_valid() and self._reduction_holds()
        return holds and self._contracts()

    def _mask_is_valid(self) -> bool:
        return self.mask is None or np.array_equal(self.mask, valid_fibers(self.tensor))

    def _reduction_holds(self) -> bool:
        if self.dropped is None:
            return True
        if not 0 <= self.dropped < self.tensor.shape[2]:
            return False
        a, b, _ = split(self.free, self._shape, self.rank)
        held = not (a[:, -1].any() or b[:, -1].any())
        ones = bool(np.all(self.factors[0][:, -1] == 1) and np.all(self.factors[1][:, -1] == 1))
        return held and ones and has_one_value(self.tensor, self.mask)

    @property
    def _shape(self) -> tuple[int, int, int]:
        i, j, k = (len(factor) for factor in self.factors)
        return i, j, k

    def _contracts(self) -> bool:
        target = equations_target(self.tensor, self.dropped)
        finite = 0 < self.radius < np.inf and bool(np.all(np.isfinite(join(self.factors))))
        if target.shape != self._shape or not finite:
            return False
        valid = np.ones(target.shape[:2], dtype=bool) if self.mask is None else self.mask
        if valid.shape != target.shape[:2] or int(valid.sum()) * target.shape[2] != int(self.free.sum()):
            return False
        inverse = _inverse(self.factors, self.mask, self.free)
        if inverse is None:
            return False
        correction = _correction(self.factors, target, valid, inverse)
        return _maps_inside(self, valid, inverse, correction)


def has_one_value(tensor: ZeroOneTensor, mask: Fibers | None = None) -> bool:
    """Returns whether every (valid) fiber has exactly one value; the slices then add up to the all-ones matrix."""
    counts = np.zeros(tensor.shape[:2], dtype=np.int64)
    np.add.at(counts, (tensor.coordinates[:, 0], tensor.coordinates[:, 1]), 1)
    return bool(np.all((counts if mask is None else counts[mask]) == 1))


def valid_fibers(tensor: ZeroOneTensor) -> Fibers:
    """Returns which pairs on the first two axes have a one."""
    valid = np.zeros(tensor.shape[:2], dtype=bool)
    valid[tensor.coordinates[:, 0], tensor.coordinates[:, 1]] = True
    return valid


def same_tensor(one: ZeroOneTensor, other: ZeroOneTensor) -> bool:
    """Returns whether two tensors have the same shape and the same ones."""
    first, second = (set(map(tuple, tensor.coordinates.tolist())) for tensor in (one, other))
    return one.shape == other.shape and first == second


def equations_target(tensor: ZeroOneTensor, dropped: int | None) -> Int[np.ndarray, "_i _j _k"]:
    """Returns the right-hand sides of the equations: all entries except those of the dropped slice."""
    dense = tensor.dense()
    return dense if dropped is None else np.delete(dense, dropped, axis=2)


def prove(
    tensor: ZeroOneTensor, factors: Factors, *, mask: Fibers | None = None, dropped: int | None = None
) -> IntervalProof | None:
    """Returns a proof that the tensor has an exact decomposition near these factors, or None.

    If a slice is dropped, the factors are those of the other slices, with a last term 1 x 1 x c (see the module
    docstring).
    """
    derivatives = jacobian(factors, mask)
    n_equations, n_unknowns = derivatives.shape
    movable = np.ones(n_unknowns, dtype=bool)
    if dropped is not None:
        i, j, rank = len(factors[0]), len(factors[1]), factors[0].shape[1]
        movable[rank - 1 : (i + j) * rank : rank] = False
    candidates = np.flatnonzero(movable)
    if not n_equations or len(candidates) < n_equations:
        return None
    triangle, order = qr(derivatives[:, candidates], mode="r", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    if pivots[-1] <= REGULAR * pivots[0]:
        return None
    free = np.zeros(n_unknowns, dtype=bool)
    free[candidates[order[:n_equations]]] = True
    target = equations_target(tensor, dropped)
    valid = np.ones(target.shape[:2], dtype=bool) if mask is None else mask
    inverse = _inverse(factors, mask, free)
    if inverse is None:
        return None
    correction = _correction(factors, target, valid, inverse)
    largest = max(float(x) for x in correction)
    proof = IntervalProof(tensor, factors, free, 1.0, mask, dropped)
    for widening in WIDENINGS:
        wider = replace(proof, radius=widening * largest + 1e-30)
        if _maps_inside(wider, valid, inverse, correction) and wider._reduction_holds():
            return wider
    return None


def _inverse(factors: Factors, mask: Fibers | None, free: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "m m"] | None:
    """Approximate inverse of the Jacobian in the free unknowns; the proof does not depend on its accuracy."""
    try:
        inverse = np.linalg.inv(jacobian(factors, mask)[:, free])
    except np.linalg.LinAlgError:
        return None
    return inverse if np.all(np.isfinite(inverse)) else None


def _correction(
    factors: Factors, target: Int[np.ndarray, "i j k"], valid: Fibers, inverse: Float[np.ndarray, "m m"]
) -> list[Any]:
    """Upper bounds on the entries of |Y F(x0)|."""
    from flint import arb, arb_mat, ctx  # noqa: PLC0415 - only proofs need it

    with ctx.workprec(PRECISION):
        a, b, c = ([[arb(x) for x in row] for row in factor.tolist()] for factor in factors)
        fibers = np.argwhere(valid).tolist()
        products = arb_mat([[x * y for x, y in zip(a[i], b[j], strict=True)] for i, j in fibers])
        error = products * arb_mat(c).transpose() - arb_mat(target[valid].tolist())
        column = arb_mat(len(inverse), 1, error.entries())
        return [abs(x).upper() for x in (arb_mat(inverse.tolist()) * column).entries()]


def _maps_inside(proof: IntervalProof, valid: Fibers, inverse: Float[np.ndarray, "m m"], correction: list[Any]) -> bool:
    """Whether |Y F(x0)| + radius |I - Y F'(X)| 1 < radius, row by row."""
    from flint import arb, arb_mat, ctx  # noqa: PLC0415 - only proofs need it

    size = len(inverse)
    with ctx.workprec(PRECISION):
        derivatives = arb_mat(size, size, list(_ball_jacobian(proof, valid)))
        defect = arb_mat(inverse.tolist()) * derivatives
        entries, radius = defect.entries(), arb(proof.radius)
        for row in range(size):
            line = entries[row * size : (row + 1) * size]
            line[row] -= 1
            total = sum((abs(x).upper() for x in line), arb(0))
            if not correction[row] + total * radius < radius:
                return False
    return True


def _ball_jacobian(proof: IntervalProof, valid: Fibers) -> Iterator[Any]:
    """Yields the entries of F'(X), row by row; only 3 R entries of a row are non-zero."""
    from flint import arb  # noqa: PLC0415 - only proofs need it

    zero, rank = arb(0), proof.rank
    (n_i, n_j, n_k), size = proof._shape, int(proof.free.sum())
    balls = [
        arb(x, proof.radius) if free else arb(x)
        for x, free in zip(join(proof.factors).tolist(), proof.free.tolist(), strict=True)
    ]
    a, b, c = (
        [balls[start + rank * row : start + rank * (row + 1)] for row in range(rows)]
        for start, rows in ((0, n_i), (n_i * rank, n_j), ((n_i + n_j) * rank, n_k))
    )
    place = np.where(proof.free, np.cumsum(proof.free) - 1, size).tolist()
    for i, j in np.argwhere(valid).tolist():
        ab = [x * y for x, y in zip(a[i], b[j], strict=True)]
        for k in range(n_k):
            row = [zero] * (size + 1)
            for r in range(rank):
                row[place[i * rank + r]] = b[j][r] * c[k][r]
                row[place[(n_i + j) * rank + r]] = a[i][r] * c[k][r]
                row[place[(n_i + n_j + k) * rank + r]] = ab[r]
            yield from row[:size]
