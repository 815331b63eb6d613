r"""Assumptions about floating-point arithmetic, and the resulting error bounds of sums of products.

Let weights have p significant bits (float64 53, float32 24, bfloat16 8), and let $u = 2^{-p}$. We assume:

1. Every sum, difference, product and quotient has a relative error of at most u, and is exact if the result is
   representable. If the result is below the smallest normal number, the error is at most that number; nothing is
   assumed about results that overflow. Sums may be evaluated in any order and grouping, products and sums may be fused,
   and intermediate results may be kept in a wider format; XLA does all of this. Reduced-precision products (TF32) are
   excluded: evaluate under `jax.default_matmul_precision("highest")`.
2. The logistic function has an error of at most 4u, and is exactly 0 or 1 if its argument is at least 104 (float32,
   bfloat16) or 750 (float64) in absolute value. JAX computes $1 / (1 + e^{-s})$, and for such arguments $e^{-s}$
   overflows or is absorbed by the 1. The same holds for a softmax over the two tokens that first subtracts the larger
   score; its normalising sum may divide the weights or the weighted values. A wider format with a larger range must
   round weights to 0 as well.
3. Matrix products are evaluated one after another. A program computes the scores $(x W_Q) \cdot (x W_K)$ and, for each
   token, the values $x W_V$; applies the attention weights; and multiplies by W_O and then by U, or by a precomputed
   $W_O U$. Each of these products is an intermediate result, and a sum over one index. The sums over heads, over the
   two tokens and over the direct path may be evaluated at any point: separately, or jointly with the coordinates of W_O
   (all or some heads concatenated) or of U. The contribution of a head at one token, or at both after weighting, is not
   split: either all of its value coordinates are summed with W_O before any of them is multiplied by U, or all of them
   are multiplied by $W_O U$, which is computed over all coordinates of the stream. All logits of a pair use the same
   attention weights.

This covers the usual programs: loops, matrix products, the modules of PyTorch and JAX, heads in parallel or in
sequence, on any number of threads. It does *not* cover: $W_Q W_K^T$ or $W_V W_O$ folded in advance, which are different
weights; attention weights applied before W_V; several products under one sum (NumPy's `einsum` of three or more factors
without `optimize`); the value coordinates of one head split into parts that are multiplied by U separately, or only
partly folded into $W_O U$; fused kernels that compute powers of two of the scores before subtracting; reduced-precision
products; weights converted to another precision.

For memories, factual recall and memorisers, matrix products may be evaluated in any order, one after another, each a
sum over one index or over heads and one index; a product that is added to another (vectors and positions, heads) may be
part of the same sum. Every head pools its tokens in a separate sum, so an `einsum` that sums over tokens, heads and
coordinates at once is not covered. The proofs of these families count the terms of their sums; `roundings` counts them
for an attention layer.

Under these assumptions, a sum of products whose terms each undergo at most n roundings has an error of at most

$$\gamma_n \sum |\text{terms}|, \qquad \gamma_n = (1 + u)^n - 1 \le \frac{n u}{1 - n u}$$

(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). In a sum of m nonzero terms each term undergoes
at most m - 1 roundings, plus one for its product unless one factor is always a power of two. If all terms are integers
whose absolute values sum to at most $2^p$, the sum is exact under any summation order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from factrank.nn import Precision

LOGISTIC_UNITS = 4
"""Assumed error of the logistic function, in unit roundoffs."""

EXPONENTIAL_UNITS = 16
"""Assumed error of the exponential function, in unit roundoffs."""

SLACK = 1 + 2.0**-20
"""Covers the rounding errors of the bounds themselves: float64 sums of up to 2^30 positive terms."""

OUR_BITS = 53
"""Significant bits of the bound computation, which is in float64."""

OUR_ROUNDINGS = 8
"""Roundings that the bound computation adds to the layer's."""


@dataclass(frozen=True)
class Arithmetic:
    """Constants of a precision.

    Arguments:
        bits: Significant bits p.
        unit: Unit roundoff u; slightly more for bfloat16 and float64, because a sum may be rounded to a wider format
            first.
        saturation: Absolute value of the argument from which the logistic function is exactly 0 or 1.
        least: Smallest normal number; results below it may become 0.
        largest: Largest finite number.
    """

    bits: int
    unit: float
    saturation: float
    least: float
    largest: float

    @property
    def exact(self) -> float:
        """Integers up to this size are exact; slightly less in float64, which also sums their sizes."""
        return 2.0**self.bits if self.bits < OUR_BITS else 2.0**OUR_BITS / SLACK

    def gamma(self, roundings: Float[np.ndarray, "*size"]) -> Float[np.ndarray, "*size"]:
        """Return an upper bound of gamma_n that covers the layer's evaluation and ours; infinite if n u >= 1/2.

        >>> (ARITHMETIC["float32"].gamma(np.array([1.0, 2.0, 1e8])) * 2**24).round(5).tolist()
        [1.0, 2.0, inf]
        """
        return np.asarray(_gamma(roundings, self.unit) + _gamma(roundings + OUR_ROUNDINGS, 2.0**-OUR_BITS))


def _gamma(roundings: Float[np.ndarray, "*size"], unit: float) -> Float[np.ndarray, "*size"]:
    total = roundings * unit
    return np.asarray(np.where(total < 0.5, total / (1 - np.minimum(total, 0.5)) * SLACK, np.inf))


ARITHMETIC: dict[Precision, Arithmetic] = {
    "float64": Arithmetic(53, 2.0**-53 * (1 + 2.0**-10), 750.0, 2.0**-1022, float(np.finfo(np.float64).max)),
    "float32": Arithmetic(24, 2.0**-24, 104.0, 2.0**-126, float(np.finfo(np.float32).max)),
    "bfloat16": Arithmetic(8, 2.0**-8 * (1 + 2.0**-10), 104.0, 2.0**-126, 2.0**127),
}


def why_refuted(
    computed: Float[np.ndarray, " facts"], proved: Float[np.ndarray, " facts"] | None, arithmetic: Arithmetic
) -> str:
    """Return an error message if computed margins are below proved ones, or an empty string.

    In that case this machine violates an assumption, or the proof is wrong. A computed margin is itself a rounded
    difference, which the comparison allows for.

    >>> why_refuted(np.array([1.0, 0.5]), np.array([0.9, 0.6]), ARITHMETIC["float32"])
    '1 margins are below their proved bounds; this evaluation violates an assumption of the proof'
    """
    if proved is None:
        return ""
    with np.errstate(invalid="ignore"):
        n_below = int((computed + 4 * arithmetic.unit * np.abs(computed) < proved).sum())
    if not n_below:
        return ""
    return f"{n_below:,} margins are below their proved bounds; this evaluation violates an assumption of the proof"


def integral(numbers: Float[np.ndarray, "..."]) -> bool:
    """Return whether all numbers are integers."""
    return bool((numbers == np.rint(numbers)).all())


def greatest_unit(numbers: Float[np.ndarray, "..."]) -> float:
    """Return the largest power of two of which all numbers are integer multiples; 1 if all are 0.

    >>> greatest_unit(np.array([0.0, 12.0, -8.0])), greatest_unit(np.array([1.0, 0.75]))
    (4.0, 0.25)
    """
    significands, exponents = np.frexp(numbers[numbers != 0])
    if not significands.size:
        return 1.0
    whole = np.ldexp(significands, OUR_BITS).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64) + exponents - OUR_BITS
    return float(np.ldexp(1.0, int(lowest.min())))


def powers_of_two(weights: Float[np.ndarray, "..."]) -> bool:
    """Return whether all nonzero weights are powers of two up to sign, which makes products with them exact.

    >>> powers_of_two(np.array([0.0, -1.0, 4.0, 0.5])), powers_of_two(np.array([3.0]))
    (True, False)
    """
    significands, _ = np.frexp(weights)
    return bool(np.isin(np.abs(significands), (0.0, 0.5)).all())


def roundings_of_product(most_terms: int, weights: Float[np.ndarray, "..."]) -> int:
    """Return how many roundings a term undergoes in a sum of at most `most_terms` products with these weights."""
    return max(most_terms - 1, 0) + (0 if powers_of_two(weights) else 1)


def most_nonzero(weights: Float[np.ndarray, "..."], axis: int) -> int:
    """Return the largest number of nonzero entries along an axis."""
    return int((weights != 0).sum(axis=axis).max(initial=0))
