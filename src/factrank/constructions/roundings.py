r"""Roundings: how many a term of a logit undergoes at most, whichever program evaluates the layer.

A logit is a sum of terms, one per path from a token to the value, in three groups:

$$x_q U_v, \qquad \sum_{h, c} (1 - a_h)\,(x_q W_V^h)_c\, (W_O^h U_v)_c, \qquad
  \sum_{h, c} a_h\,(x_k W_V^h)_c\, (W_O^h U_v)_c,$$

and programs that weigh differences, $o_q + a (o_k - o_q)$, have a third group for heads, $-a_h (x_q W_V^h)_c \dots$. A
sum of m terms that are not 0, added in any order and grouping, rounds each of them at most m - 1 times. So count the
terms of every sum that a program may form. For one pair let

- T be the value coordinates (h, c) that are not 0, over the three groups for heads: the *leaves* of the layer;
- J be the coordinates of the stream that they reach, counted once for each head and group;
- c be the most value coordinates of one head, and m the most coordinates of the stream between one of them and a value;
- D be the coordinates of $x_q$ that are read, and K all coordinates of the stream that are read by one value.

| program | the first sum | the last sum |
|---|---|---|
| stream: heads concatenated, one after another, or as a tree, with x_q anywhere among them; then U | T + [D > 0] | K |
| folded: W_O U is formed; one sum over heads, coordinates and the direct path | m | T + D |
| heads: each head goes through its W_O; one sum over heads, coordinates of the stream and the direct path | c | J + D |

Weighing before or after W_O or U, unembedding heads one at a time, or adding logits of heads and of the direct path,
are trees over the same leaves; they round no more often than one of the three rows. Concatenating only some heads moves
on a straight line between the first row and the last. To the additions come the products with W_O and U (none where
these are powers of two), those of $x W_V$, and where attention is soft three for weighing: the product with the weight,
and $1 - a$ or the sum and the division of a softmax, whether that divides the weights or what they weigh.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from factrank.constructions.arithmetic import most_nonzero, powers_of_two

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
    read: Counts
    """K."""
    soft: Counts
    """1 where some head does not attend with weight 0 or 1 exactly."""


class LayerTerms(NamedTuple):
    """What is the same for all pairs of a layer."""

    of_values: int
    """The roundings of x W_V."""
    widest: int
    """c."""
    fan_out: int
    """m."""
    products: int
    """The roundings of the products with W_O and U, one after the other."""
    folded_products: int
    """Those of W_O U, and of the products with it."""


def layer_terms(
    w_v: Float[np.ndarray, "heads d_model d_vo"],
    w_o: Float[np.ndarray, "heads d_vo kept"],
    unembedding: Float[np.ndarray, "kept values"],
) -> LayerTerms:
    """The counts of a layer from its weights, on the coordinates of the stream that are read."""
    inexact = [not powers_of_two(part) for part in (w_v, w_o, unembedding)]
    return LayerTerms(
        of_values=max(most_nonzero(w_v, 1) - 1, 0) + inexact[0],
        widest=int(w_o.any(axis=2).sum(axis=1).max(initial=0)),
        fan_out=min(most_nonzero(w_o, 2), most_nonzero(unembedding, 0)),
        products=inexact[1] + inexact[2],
        folded_products=1 + (inexact[1] and inexact[2]),
    )


def roundings_of_logits(pair: PairTerms, layer: LayerTerms) -> Counts:
    """The most roundings that a term of a logit of each pair undergoes, in any of the programs above."""
    one_direct = pair.direct > 0
    stream = _additions(pair.leaves + one_direct) + _additions(pair.read) + layer.products
    folded = max(layer.fan_out - 1, 0) + _additions(pair.leaves + pair.direct) + layer.folded_products
    heads = max(layer.widest - 1, 0) + _additions(pair.reached + pair.direct) + layer.products
    after = np.maximum(np.maximum(stream, folded), heads)
    return np.asarray(layer.of_values + SOFT_WEIGHING * pair.soft + after)


def _additions(terms: Counts) -> Counts:
    return np.asarray(np.maximum(terms - 1, 0))
