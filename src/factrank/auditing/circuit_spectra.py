r"""Spectra of circuits from their factors: QR of each factor, then an SVD of the small core.

For $W = s\,A M B^T$ with tall A and B and a rotation M, write $A = Q_A R_A$ and $B = Q_B R_B$. The singular values of
W are those of $s\,R_A M R_B^T$, a matrix as small as the head. Neither W nor any matrix of the size of the stream is
formed.

The **rank** counts the singular values above a tolerance. By default that is what rounding the weights to their stored
type may have changed: by Weyl's inequality no singular value moves by more than the norm of the change, at most
$s\,(\|\delta A\|_F \|M B^T\|_2 + \|A M\|_2 \|\delta B\|_F)$ to first order. So a singular value above it is not zero in
any matrix whose factors round to the stored ones (up to second order), and one below may be nothing but rounding.

The **entropy effective rank** is $\exp(-\sum_i p_i \ln p_i)$ with $p_i = \sigma_i / \sum_j \sigma_j$ (Roy and Vetterli
2007), the **energy rank** the same with $p_i = \sigma_i^2 / \sum_j \sigma_j^2$, which papers also call effective rank,
and the **stable rank** $\sum_i \sigma_i^2 / \sigma_1^2$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.heads import Rotation, Rounded
from factrank.errors import InputError

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Spectrum:
    """Singular values of a circuit, and the tolerance below which they count as zero.

    Arguments:
        values: Singular values, largest first.
        tolerance: What a singular value has to exceed to count.
        decided: How the tolerance was chosen: "rounding" of the stored weights, or "chosen".
    """

    values: tuple[float, ...]
    tolerance: float
    decided: str

    @property
    def largest(self) -> float:
        """The largest singular value."""
        return self.values[0]

    @property
    def rank(self) -> int:
        """Number of singular values above the tolerance."""
        return sum(value > self.tolerance for value in self.values)

    @property
    def effective_rank(self) -> float:
        """Entropy effective rank; 0 for the zero matrix.

        >>> round(Spectrum((3.0, 3.0, 3.0), 0.0, "chosen").effective_rank, 6)
        3.0
        """
        return _perplexity(np.array(self.values))

    @property
    def energy_rank(self) -> float:
        """Entropy effective rank of the squared singular values; 0 for the zero matrix."""
        return _perplexity(np.array(self.values) ** 2)

    @property
    def stable_rank(self) -> float:
        """Squared Frobenius norm over squared spectral norm; 0 for the zero matrix.

        >>> Spectrum((2.0, 1.0, 1.0), 0.0, "chosen").stable_rank
        1.5
        """
        return float(sum((value / self.largest) ** 2 for value in self.values)) if self.largest else 0.0


def _perplexity(weights: Float[np.ndarray, " values"]) -> float:
    """Return the exponential of the entropy of numbers that are divided by their sum."""
    some = weights[weights > 0]
    fractions = some / some.sum()
    return float(np.exp(-(fractions * np.log(fractions)).sum())) if len(some) else 0.0


@dataclass(frozen=True, eq=False)
class ReducedFactor:
    """R of the QR decomposition of a factor, with its norm and the norm of its rounding error."""

    core: Float[np.ndarray, "rows columns"]
    error: float

    @cached_property
    def norm(self) -> float:
        """Spectral norm of the factor."""
        return float(np.linalg.norm(self.core, 2))


def reduced(factor: Rounded) -> list[ReducedFactor]:
    """Reduce each tall matrix [rows, columns] of a factor [heads, rows, columns] to its R."""
    errors = factor.frobenius_error
    return [ReducedFactor(_triangle(matrix), float(error)) for matrix, error in zip(factor.values, errors, strict=True)]


def _triangle(matrix: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "few columns"]:
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def stack(factors: list[ReducedFactor]) -> ReducedFactor:
    """Reduce factors on top of each other: R of the stack is R of the stacked R."""
    if len(factors) == 1:
        return factors[0]
    core = _triangle(np.concatenate([factor.core for factor in factors]))
    return ReducedFactor(core, float(np.linalg.norm([factor.error for factor in factors])))


def spectrum(
    left: ReducedFactor,
    right: ReducedFactor,
    rotation: Rotation | None = None,
    distance: int = 0,
    *,
    scale: float = 1.0,
    tolerance: float | None = None,
) -> Spectrum:
    """Return the spectrum of scale A M B^T.

    Arguments:
        left: A, reduced.
        right: B, reduced.
        rotation: Rotary positions, whose rotation at the distance is M; by default, M is the identity.
        distance: Tokens from key to query.
        scale: Factor of the product.
        tolerance: Fraction of the largest singular value; by default, the rounding of the stored weights decides.
    """
    turned = left.core if rotation is None else rotation.turned(left.core, distance)
    stretch = 1.0 if rotation is None else rotation.stretch
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        product = turned @ right.core.T
        rounding = abs(scale) * stretch * (left.error * right.norm + left.norm * right.error)
    if not np.isfinite(product).all() or not np.isfinite(rounding):
        raise InputError("the weights of a circuit are so large that their product is not a finite number")
    values = abs(scale) * np.linalg.svd(product, compute_uv=False)
    largest = float(values[0])
    if tolerance is not None:
        return Spectrum(tuple(values.tolist()), tolerance * largest, "chosen")
    return Spectrum(tuple(values.tolist()), max(rounding, 8 * len(values) * EPSILON * largest), "rounding")
