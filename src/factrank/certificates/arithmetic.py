r"""Arithmetic: what is assumed of a machine that evaluates a layer, and what follows from it for sums of products.

Assumptions, for weights of p significant bits (float64 53, float32 24, bfloat16 8) and $u = 2^{-p}$:

1. Every sum, difference, product and quotient has a relative error of at most u, and none if it is a number of the
   format, unless it overflows or is smaller than the least normal number; then the error is at most that number. Sums
   may be taken in any order and grouping, products and sums may be fused, and results may be kept in a wider format for
   a while, all of which XLA does. Products in a shorter format (TF32) are excluded: evaluate under
   `jax.default_matmul_precision("highest")`.
2. The logistic function is off by at most 4u, and is exactly 0 or 1 where its argument is at least 104 in size
   (float32, bfloat16) or 750 (float64). JAX computes $1 / (1 + e^{-s})$: there $e^{-s}$ overflows or vanishes beside 1.
   The same of a softmax over the two tokens, which subtracts the larger score before it does anything else, and whose
   sum may divide the weights or what they weigh. A wider format with a larger range has to round weights to 0 too.
3. One product after another. A program forms the scores $(x W_Q) \cdot (x W_K)$ and, for each token, the values
   $x W_V$; weighs these; multiplies by W_O and then by U, or by $W_O U$ formed first. Each of these products is a
   result of its own, and a sum over one index. The sums over heads, over the two tokens and over the direct path may be
   taken wherever they occur: by themselves, or together with the coordinates of W_O (heads concatenated, all or some of
   them) or of U. What a head has of a token, or of both once they are weighed, stays together: all its value
   coordinates are added up with W_O before any of it meets U, or all of them go through $W_O U$, which is formed over
   all coordinates of the stream. All logits of a pair come from the same attention weights.

So the usual programs are covered: loops, matrix products, PyTorch's and JAX's modules, heads side by side or one by
one, on any number of threads. *Not* covered: $W_Q W_K^T$ or $W_V W_O$ folded beforehand, which are other weights;
tokens that are weighed before they meet W_V; several products under one sum (NumPy's `einsum` of three or more factors
without `optimize`); the value coordinates of one head dealt to several parts that meet U one by one, or some of them
folded into $W_O U$ and others not; fused kernels that turn scores into powers of two before they subtract; shortened
products; weights converted to another precision.

Memories, factual recall and memorisers take matrices in any order, one product after another, each a sum over one index
or over heads and one index; a product that is added to another one (vectors and places, heads) may join its sum. Every
head pools its tokens in a sum of its own. So an `einsum` that sums over tokens, heads and coordinates at once is not
covered there. Their proofs say how many terms their sums have; `roundings` counts
those of an attention layer.

Then a sum of products whose terms each undergo at most n roundings is off by at most

$$\gamma_n \sum |\text{terms}|, \qquad \gamma_n = (1 + u)^n - 1 \le \frac{n u}{1 - n u}$$

(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). A sum of m terms that are not 0 costs each at
most m - 1 roundings, and their products one more, none where one factor is always a power of two. And where all terms
are integers whose absolute values add up to at most $2^p$, no order of summation rounds anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from factrank.nn import Precision

LOGISTIC_UNITS = 4
"""The assumed error of the logistic function, in unit roundoffs."""

EXPONENTIAL_UNITS = 16
"""The assumed error of the exponential function, in unit roundoffs."""

SLACK = 1 + 2.0**-20
"""Bounds are themselves computed in float64; this covers the rounding of up to 2^30 positive terms."""

OUR_BITS = 53
"""Our own evaluation is in float64."""

OUR_ROUNDINGS = 8
"""What our own evaluation in float64 may add to the roundings of the layer's."""


@dataclass(frozen=True)
class Arithmetic:
    """The numbers of a precision.

    Arguments:
        bits: p, of the significand.
        unit: u, for bfloat16 and float64 a little more: a sum may be rounded to a wider format first.
        saturation: arguments from which the logistic function is exactly 0 or 1.
        least: the least normal number; results below it may become 0.
        largest: the largest finite number.
    """

    bits: int
    unit: float
    saturation: float
    least: float
    largest: float

    @property
    def exact(self) -> float:
        """Integers up to this size are exact; a little less in float64, in which we add up their sizes ourselves."""
        return 2.0**self.bits if self.bits < OUR_BITS else 2.0**OUR_BITS / SLACK

    def gamma(self, roundings: Float[np.ndarray, "*size"]) -> Float[np.ndarray, "*size"]:
        """An upper bound of gamma_n, for the layer's evaluation and ours in float64 together; infinite from n u = 1/2.

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
    """What is wrong if computed margins are below proved ones: then this machine breaks an assumption, or we do.

    A computed margin is itself a difference that was rounded. Empty where nothing is wrong.

    >>> why_refuted(np.array([1.0, 0.5]), np.array([0.9, 0.6]), ARITHMETIC["float32"])
    'margins below the bounds that were proved: 1; this evaluation breaks an assumption of the proof'
    """
    if proved is None:
        return ""
    with np.errstate(invalid="ignore"):
        n_below = int((computed + 4 * arithmetic.unit * np.abs(computed) < proved).sum())
    if not n_below:
        return ""
    return f"margins below the bounds that were proved: {n_below:,}; this evaluation breaks an assumption of the proof"


def integral(numbers: Float[np.ndarray, "..."]) -> bool:
    """Whether all are integers."""
    return bool((numbers == np.rint(numbers)).all())


def powers_of_two(weights: Float[np.ndarray, "..."]) -> bool:
    """Whether all that are not 0 are powers of two up to the sign: products with them are exact.

    >>> powers_of_two(np.array([0.0, -1.0, 4.0, 0.5])), powers_of_two(np.array([3.0]))
    (True, False)
    """
    significands, _ = np.frexp(weights)
    return bool(np.isin(np.abs(significands), (0.0, 0.5)).all())


def roundings_of_product(most_terms: int, weights: Float[np.ndarray, "..."]) -> int:
    """How many roundings a term undergoes in sums of at most so many products with these weights."""
    return max(most_terms - 1, 0) + (0 if powers_of_two(weights) else 1)


def most_nonzero(weights: Float[np.ndarray, "..."], axis: int) -> int:
    """The most entries along an axis that are not 0."""
    return int((weights != 0).sum(axis=axis).max(initial=0))
