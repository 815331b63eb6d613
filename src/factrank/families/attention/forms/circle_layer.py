r"""Circle: a point on the unit circle for every value, two coordinates per key and one head of width 2 per query.

Let $u_v = (\cos t_v, \sin t_v)$ with $t_v = 2 \pi v / n$ for the n values in use. A key stores $u_{f(k,q)}$ in the
block of query q (see `block_layers`), attention is exactly 0 or 1, and

$$L[k,q,v] = \cos(t_{f(k,q)} - t_v), \qquad \text{margin at least } 2 \sin^2(\pi / n).$$

Values that no fact uses have logit 0, which is 1 below the fact. For a missing entry, all logits are 0.

Precision, with unit roundoff u: both coordinates are stored with relative error u, the product with a head and the sums
add at most 7 roundings, and the terms of a logit add up to at most 1 by Cauchy-Schwarz. Two logits keep their order if

$$2 \sin^2(\pi / n) > 2 \gamma_9, \qquad \gamma_9 = 9u / (1 - 9u);$$

the entry that the query itself writes is scaled to $2^{-10}$ and hardly matters. bfloat16 therefore allows 16 values
and float32 4,289. If there are too many values in total, each range gets its own circle; if there are also too many
ranges (4 in bfloat16), each query does, because queries that share a range have scores of three terms of size c, close
to the limit of saturation. The parabola needs half the coordinates and allows more values; the circle has logits of
size 1, and 0 for missing entries.
"""

from __future__ import annotations

from dataclasses import replace
from math import pi
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.binary_codes import editing_of, head_per_query, used_queries, used_values
from factrank.families.attention.forms.building import (
    SATURATION,
    STRENGTHS,
    BlockPlan,
    QueryGroup,
    block_layer,
    contents_by_value,
    most_points,
)
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.forms.shared_heads import Grouping, grouped_by_range
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import SIGNIFICAND, Precision

OWN = 2.0**-10
"""Entry of a query in its own coordinate: small compared with 1, so adding and subtracting it hardly rounds."""

ROUNDINGS_OF_SCORES = 6
"""Roundings of a score, without the sum over constant coordinates."""


def most_ranges(precision: Precision) -> int:
    """Return the largest number of ranges, with several queries each, for which scores provably saturate.

    >>> [most_ranges(precision) for precision in ("bfloat16", "float32")]
    [4, 713918]
    """
    score = float(np.prod(STRENGTHS[precision]))
    spare = (score - SATURATION[precision]) / (3 * score)
    return int(spare / (1 + spare) * 2.0 ** SIGNIFICAND[precision]) - ROUNDINGS_OF_SCORES


def points(n_values: int) -> Float[np.ndarray, "values 2"]:
    """Return the points (cos, sin) of n equidistant angles."""
    angles = 2 * pi * np.arange(n_values) / n_values
    return np.column_stack([np.cos(angles), np.sin(angles)])


class Circle(ClosedForm):
    """The form `circle`."""

    name = "circle"

    def _limit(self, database: Database, precision: Precision) -> str | None:
        most = most_points(precision)
        largest = max(len(values) for _, values in self.grouping(database, precision))
        return None if largest <= most else f"{largest:,} values do not fit into {precision}: at most {most:,} do"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return d_model = 2Q + number of ranges and one head of width 2 per query with facts."""
        return self.plan(database, precision).shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        plan = self.plan(database, precision)
        codes = [points(len(group.values)) for group in plan.groups]
        layer = block_layer(database, plan, codes, contents_by_value(database, plan, codes), 0.0, precision)
        editing: dict[str, Any] = {**editing_of(plan, 0), "code": "circle"}
        return Built(_with_small_own(layer, plan), self.name, editing)

    def grouping(self, database: Database, precision: Precision) -> Grouping:
        """Return one group if the values fit, else one per range, or one per query if there are too many ranges."""
        queries, values = used_queries(database).tolist(), used_values(database)
        if len(values) <= most_points(precision):
            return [(queries, values)]
        ranges = grouped_by_range(database)
        if len(ranges) < min(len(queries), most_ranges(precision)) or len(ranges) == len(queries):
            return ranges
        return [([query], values) for members, values in ranges for query in members]

    def plan(self, database: Database, precision: Precision) -> BlockPlan:
        """Return a plan with one class per query."""
        groups = [QueryGroup(tuple(queries), values, 2) for queries, values in self.grouping(database, precision)]
        return BlockPlan(tuple(groups), head_per_query(used_queries(database), database.n_queries))


def _with_small_own(layer: AttentionLayer, plan: BlockPlan) -> AttentionLayer:
    """Shrink the own coordinates of queries by a power of two, which moves into W_Q; the scores stay the same."""
    own: Int[np.ndarray, " queries"] = np.concatenate([np.array(group.queries[1:], int) for group in plan.groups])
    coordinates = plan.starts[own]
    embedding, w_q = (cast("Any", np.array(part)) for part in (layer.embedding, layer.w_q))
    embedding[layer.n_keys + own, coordinates] *= embedding.dtype.type(OWN)
    w_q[:, coordinates] /= w_q.dtype.type(OWN)
    return replace(layer, embedding=embedding, w_q=w_q)
