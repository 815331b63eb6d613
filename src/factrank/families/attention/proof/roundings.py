r"""Roundings: how many a term of a logit undergoes at most, whichever program evaluates the layer.

A logit is a sum of terms, one per path from a token to the value, in three groups:

$$x_q U_v, \qquad \sum_{h, c} (1 - a_h)\,(x_q W_V^h)_c\, (W_O^h U_v)_c, \qquad
  \sum_{h, c} a_h\,(x_k W_V^h)_c\, (W_O^h U_v)_c,$$

and programs that weigh differences, $o_q + a (o_k - o_q)$, have a third group for heads, $-a_h (x_q W_V^h)_c \dots$. A
sum of m terms that are not 0, added in any order and grouping, rounds each of them at most m - 1 times. So count the
terms of every sum that a program may form. For one pair let

- T be the value coordinates (h, c) that are not 0, over the three groups for heads: the *leaves* of the layer;
- J be the coordinates of the stream that they reach, counted once for each head and group;
- D be the coordinates of $x_q$ that are read.

A program sends each head and group, with all its value coordinates, into a *block*, in which these are added up with
W_O, or through W_O U formed first. A block may be one head, some heads or all of them concatenated, and the direct path
may be part of one. The blocks, what is folded and the direct path meet in a last sum, with U. So a term that goes
through a block of $T_b$ leaves, beside other blocks and $T_f \le T - T_b$ leaves that are folded, meets

$$T_b + [D > 0] - 1 \quad\text{additions in its block and at most}\quad J + T_f + D - 1 \quad\text{in the last sum:}$$

no more than $T + J + D + [D > 0] - 2$ in all. A leaf that is folded meets as many coordinates in W_O U as its head and
group reaches, which are then missing from the last sum: no more additions either. Weighing before or after W_O or U,
adding heads one by one, adding logits of heads and of the direct path: all these are trees over the same terms.

To the additions come the products with W_O and U (none where these are powers of two, but one at least, with U or with
W_O U), those of $x W_V$, and where attention is soft three for weighing: the product with the weight, and $1 - a$ or
the sum and the division of a softmax, whether that divides the weights or what they weigh.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from factrank.certificates import most_nonzero, powers_of_two, roundings_of_product

Counts = Float[np.ndarray, " pairs"]

SOFT_WEIGHING = 3.0
"""The roundings of weighing where attention is soft."""


class PairTerms(NamedTuple):
    """The terms of the sums of each pair, as above."""

    leaves: Counts
    """T."""
    reached: Counts
    """J."""
    direct: Counts
    """D."""
    soft: Counts
    """1 where some head does not attend with weight 0 or 1 exactly."""


class LayerTerms(NamedTuple):
    """The roundings that are the same for all pairs of a layer."""

    of_values: int
    """Of x W_V."""
    of_products: int
    """Of the products with W_O and U, one after the other or with W_O U formed first."""


def layer_terms(
    w_v: Float[np.ndarray, "heads d_model d_vo"],
    w_o: Float[np.ndarray, "heads d_vo kept"],
    unembedding: Float[np.ndarray, "kept values"],
) -> LayerTerms:
    """The counts of a layer from its weights, on the coordinates of the stream that are read."""
    inexact = [not powers_of_two(part) for part in (w_o, unembedding)]
    # W_O U need not be a power of two where both factors are.
    return LayerTerms(roundings_of_product(most_nonzero(w_v, 1), w_v), max(sum(inexact), 1))


def roundings_of_logits(pair: PairTerms, layer: LayerTerms) -> Counts:
    """The most roundings that a term of a logit of each pair undergoes, in any of the programs above.

    >>> one_head = PairTerms(*(np.array([count]) for count in (1.0, 2.0, 0.0, 0.0)))
    >>> roundings_of_logits(one_head, LayerTerms(of_values=0, of_products=1)).tolist()
    [2.0]
    """
    additions = np.maximum(pair.leaves + pair.reached + pair.direct + (pair.direct > 0) - 2, 0)
    return np.asarray(layer.of_values + SOFT_WEIGHING * pair.soft + additions + layer.of_products)
