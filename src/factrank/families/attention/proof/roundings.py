r"""Count the roundings of a term of a logit, for any program that evaluates the layer.

A logit is a sum of terms, one per path from a token to the value, in three groups:

$$x_q U_v, \qquad \sum_{h, c} (1 - a_h)\,(x_q W_V^h)_c\, (W_O^h U_v)_c, \qquad
  \sum_{h, c} a_h\,(x_k W_V^h)_c\, (W_O^h U_v)_c,$$

and programs that weight differences, $o_q + a (o_k - o_q)$, have a third group for heads, $-a_h (x_q W_V^h)_c \dots$. A
sum of m nonzero terms, added in any order and grouping, rounds each term at most m - 1 times. It suffices to count the
terms of every sum that a program may form. For one pair let

- T be the number of nonzero value coordinates (h, c), over the three groups for heads: the *leaves* of the layer;
- J be the number of coordinates of the stream that they reach, counted once per head and group;
- D be the number of coordinates of $x_q$ that are read.

A program sends each head and group, with all its value coordinates, into a *block* that adds them with W_O, or through
a precomputed W_O U (a *folded* head). A block may be one head, some heads or all of them concatenated, and may include
the direct path. The blocks, the folded heads and the direct path meet in a last sum, with U. A term that passes
through a block of $T_b$ leaves, next to other blocks and $T_f \le T - T_b$ folded leaves, undergoes

$$T_b + [D > 0] - 1 \quad\text{additions in its block and at most}\quad J + T_f + D - 1 \quad\text{in the last sum:}$$

at most $T + J + D + [D > 0] - 2$ in total. A folded leaf meets in W_O U as many coordinates as its head and group
reaches, and these are absent from the last sum, so it undergoes no more additions either. Weighting before or after
W_O or U, adding heads one by one, adding the logits of heads and of the direct path: all are trees over the same terms.

In addition there are the products with W_O and U (exact if these are powers of two, but at least one, with U or with
W_O U), the roundings of $x W_V$, and, if attention is soft, three for weighting: the product with the weight, and
$1 - a$ or the sum and the division of a softmax, whether it divides the weights or the weighted sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from factrank.certificates import most_nonzero, powers_of_two, roundings_of_product

Counts = Float[np.ndarray, " pairs"]

SOFT_WEIGHING = 3.0
"""Roundings of weighting if attention is soft."""


class PairTerms(NamedTuple):
    """Number of terms in the sums of each pair, in the notation of the module."""

    leaves: Counts
    """T."""
    reached: Counts
    """J."""
    direct: Counts
    """D."""
    soft: Counts
    """1 if some head has a weight other than 0 and 1."""


class LayerTerms(NamedTuple):
    """Roundings that are the same for all pairs of a layer."""

    of_values: int
    """Roundings of x W_V."""
    of_products: int
    """Roundings of the products with W_O and U, one after the other or with W_O U formed first."""


def layer_terms(
    w_v: Float[np.ndarray, "heads d_model d_vo"],
    w_o: Float[np.ndarray, "heads d_vo kept"],
    unembedding: Float[np.ndarray, "kept values"],
) -> LayerTerms:
    """Count the roundings common to all pairs, from the weights on the coordinates of the stream that are read."""
    inexact = [not powers_of_two(part) for part in (w_o, unembedding)]
    # W_O U need not be a power of two even if both factors are.
    return LayerTerms(roundings_of_product(most_nonzero(w_v, 1), w_v), max(sum(inexact), 1))


def roundings_of_logits(pair: PairTerms, layer: LayerTerms) -> Counts:
    """Return the largest number of roundings of a term of a logit of each pair, over all programs above.

    >>> one_head = PairTerms(*(np.array([count]) for count in (1.0, 2.0, 0.0, 0.0)))
    >>> roundings_of_logits(one_head, LayerTerms(of_values=0, of_products=1)).tolist()
    [2.0]
    """
    additions = np.maximum(pair.leaves + pair.reached + pair.direct + (pair.direct > 0) - 2, 0)
    return np.asarray(layer.of_values + SOFT_WEIGHING * pair.soft + additions + layer.of_products)
