r"""Compact routing: queries as points on a circle, three coordinates for any number of queries.

With $p_q = 2 \pi q / Q$ and a strength c beyond saturation,

$$x_q = (\cos p_q, \sin p_q, 1), \qquad W_K = (0, 0, -1), \qquad
  W_Q^h = c'\,\bigl(\cos p_h, \sin p_h, -(1 + \cos(2\pi/Q))/2\bigr), \quad c' = \frac{2c}{1 - \cos(2\pi/Q)}.$$

Keys are 0 there, so the score is $c'(\cos(p_q - p_h) - (1 + \cos(2\pi/Q))/2)$: c for q = h and at most -c for all
others. Scores are not integers and c' grows like Q^2, so rounding limits the number of queries to 9 in bfloat16 and
2,626 in float32. `query_routing` needs fewer coordinates and has no such limit.
"""

from __future__ import annotations

from math import cos, pi

import numpy as np
from jaxtyping import Int

from factrank.certificates import ARITHMETIC
from factrank.families.attention.forms.building.query_routing import SATURATION, Routing
from factrank.nn import Precision

CIRCLE_COORDINATES = 3
CIRCLE_STRENGTH = 4.0
"""Scores before rounding, as a multiple of saturation."""


def compact_routing(classes: Int[np.ndarray, " queries"], d_model: int, precision: Precision) -> Routing:
    """Place queries on a circle in the last three coordinates; a single query is one constant coordinate."""
    n_queries, n_heads = len(classes), int(classes.max(initial=-1)) + 1
    strength = CIRCLE_STRENGTH * SATURATION[precision]
    tokens = np.zeros((n_queries, d_model))
    w_q, w_k = np.zeros((n_heads, d_model, 1)), np.zeros((n_heads, d_model, 1))
    tokens[:, -1], w_k[:, -1] = 1.0, -1.0
    if n_queries == 1:
        w_q[:, -1] = strength
        return Routing(tokens, w_q, w_k)
    angles = 2 * pi * np.arange(n_queries) / n_queries
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    nearest = cos(2 * pi / n_queries)
    tokens[:, -3:-1] = points
    heads = np.argsort(classes, kind="stable")[n_queries - n_heads :]
    w_q[:, -3:-1, 0] = points[heads]
    w_q[:, -1, 0] = -(1 + nearest) / 2
    return Routing(tokens, w_q * 2 * strength / (1 - nearest), w_k)


def compact_refusal(n_queries: int, precision: Precision) -> str | None:
    """Return why the scores of the compact code do not provably saturate; None if they do.

    Their terms add up to at most 2c', since points on a circle have products of size at most 1; both factors are
    stored with an error of one unit roundoff, and $c'$, the products and the sums of three terms add at most 7 more.
    """
    if n_queries == 1:
        return None
    strength = CIRCLE_STRENGTH * SATURATION[precision]
    size = 2 * strength * 2 / (1 - cos(2 * pi / n_queries))
    least = strength - float(ARITHMETIC[precision].gamma(np.full(1, 9.0))[0]) * size
    if least >= SATURATION[precision]:
        return None
    return (
        f"the scores of {n_queries:,} queries on a circle are not proved to saturate in {precision}: "
        f"they are at least {least:.0f}, and {SATURATION[precision]:.0f} is wanted; other codes hold any number"
    )
