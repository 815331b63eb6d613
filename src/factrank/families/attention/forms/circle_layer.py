r"""Circle: every value a point of the unit circle, two coordinates of the keys and one head of width 2 per query.

With $u_v = (\cos t_v, \sin t_v)$, $t_v = 2 \pi v / n$ for the n values in use, a key holds $u_{f(k,q)}$ in the block of
query q (see `blocks`), attention is exactly 0 or 1, and

$$L[k,q,v] = \cos(t_{f(k,q)} - t_v), \qquad \text{margin at least } 2 \sin^2(\pi / n);$$

values that no fact uses stay at 0, behind by 1. Where the database says nothing all logits are 0.

Precision, with unit roundoff u: both coordinates are stored with a relative error u, the product with a head and the
sums make at most 7 roundings more, and the terms of a logit add up to at most 1 by Cauchy and Schwarz: two logits keep
their order while

$$2 \sin^2(\pi / n) > 2 \gamma_9, \qquad \gamma_9 = 9u / (1 - 9u),$$

what the query itself writes is scaled to $2^{-10}$, so that it hardly counts. So 16 values fit into bfloat16, 4,289
into float32. If all values together are too many, each range has a circle of its own, and if there are many ranges (4
in bfloat16), each query: queries that share a range have scores of three terms of size c, of which saturation leaves
little to rounding.
The parabola needs half the coordinates and holds more values; the circle has logits of size 1, and 0 for empty fibers.
"""

from __future__ import annotations

from dataclasses import replace
from math import asin, pi, sqrt
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.binary_codes import editing_of, used_queries, used_values
from factrank.families.attention.forms.building import (
    SATURATION,
    STRENGTHS,
    BlockPlan,
    QueryGroup,
    block_layer,
    contents_by_value,
)
from factrank.families.attention.forms.construction import Built, FormSearch, require_held, table_refusal
from factrank.families.attention.forms.shared_heads import Grouping, grouped_by_range
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import SIGNIFICAND, Precision

ROUNDINGS = 9
"""Two of stored numbers, seven of a logit."""

OWN = 2.0**-10
"""What a query holds in its own coordinate: small beside 1, so that adding and taking it back hardly rounds."""

ROUNDINGS_OF_SCORES = 6
"""Roundings of a score besides those of the sum over constant coordinates."""


def most_points(precision: Precision) -> int:
    """The most points of a circle whose order survives rounding.

    >>> [most_points(precision) for precision in ("bfloat16", "float32")]
    [16, 4289]
    """
    total = ROUNDINGS * 2.0 ** -SIGNIFICAND[precision]
    return int(pi / asin(sqrt(total / (1 - total))))


def most_ranges(precision: Precision) -> int:
    """The most ranges with several queries each whose scores are proved to saturate.

    >>> [most_ranges(precision) for precision in ("bfloat16", "float32")]
    [4, 713918]
    """
    score = float(np.prod(STRENGTHS[precision]))
    spare = (score - SATURATION[precision]) / (3 * score)
    return int(spare / (1 + spare) * 2.0 ** SIGNIFICAND[precision]) - ROUNDINGS_OF_SCORES


def points(n_values: int) -> Float[np.ndarray, "values 2"]:
    """Points (cos, sin) of n equidistant angles."""
    angles = 2 * pi * np.arange(n_values) / n_values
    return np.column_stack([np.cos(angles), np.sin(angles)])


class Circle:
    """The construction `circle`."""

    name = "circle"
    estimated = False

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Too many values in a range for the precision."""
        reason = table_refusal(database)
        if reason is not None:
            return reason
        most = most_points(precision)
        largest = max(len(values) for _, values in self.grouping(database, precision))
        return None if largest <= most else f"{largest:,} values do not fit into {precision}: at most {most:,} do"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """d_model = 2Q + number of ranges, one head of width 2 per query that has facts."""
        return self.plan(database, precision).shape

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer; nothing is left to search."""
        require_held(self, database, precision)
        plan = self.plan(database, precision)
        codes = [points(len(group.values)) for group in plan.groups]
        layer = block_layer(database, plan, codes, contents_by_value(database, plan, codes), 0.0, precision)
        editing: dict[str, Any] = {**editing_of(plan, 0), "code": "circle"}
        return Built(_with_small_own(layer, plan), self.name, editing)

    def grouping(self, database: Database, precision: Precision) -> Grouping:
        """One group if the values fit, else the ranges, or one group per query if there are too many ranges."""
        queries, values = used_queries(database).tolist(), used_values(database)
        if len(values) <= most_points(precision):
            return [(queries, values)]
        ranges = grouped_by_range(database)
        if len(ranges) < min(len(queries), most_ranges(precision)) or len(ranges) == len(queries):
            return ranges
        return [([query], values) for members, values in ranges for query in members]

    def plan(self, database: Database, precision: Precision) -> BlockPlan:
        """One class per query."""
        queries = used_queries(database)
        classes = np.full(database.n_queries, -1)
        classes[queries] = np.arange(len(queries))
        grouping = self.grouping(database, precision)
        return BlockPlan(tuple(QueryGroup(tuple(members), values, 2) for members, values in grouping), classes)


def _with_small_own(layer: AttentionLayer, plan: BlockPlan) -> AttentionLayer:
    """The same scores from a smaller entry in the own coordinates of queries: a power of two moves into W_Q."""
    own: Int[np.ndarray, " queries"] = np.concatenate([np.array(group.queries[1:], int) for group in plan.groups])
    coordinates = plan.starts[own]
    embedding, w_q = (cast("Any", np.array(part)) for part in (layer.embedding, layer.w_q))
    embedding[layer.n_keys + own, coordinates] *= embedding.dtype.type(OWN)
    w_q[:, coordinates] /= w_q.dtype.type(OWN)
    return replace(layer, embedding=embedding, w_q=w_q)
