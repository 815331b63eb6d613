r"""Parabola: a number for every value, one coordinate per key and one head of width 1 per query.

A key stores the label $x_{f(k,q)}$ in the coordinate of query q (0 if there is no fact); head q copies it to the output
coordinate, which the unembedding reads with $2 x_v$, and the constant coordinate of the query adds $s - x_v^2$.
Attention is exactly 0 or 1, so

$$L[k,q,v] = s + 2 x_{f(k,q)} x_v - x_v^2 = s + x_{f(k,q)}^2 - (x_v - x_{f(k,q)})^2,$$

which is largest at $v = f(k,q)$, by $(x_v - x_f)^2 \ge 1$. `parabola_labels` determines how many values a precision can
hold, and with which shift s. If there are too many values in total, queries are grouped: a group has its own labels,
its own output coordinate (that of its first query) and its own constant, and the logits of all other values are 0,
below s. There is one number per fact, for any number of values.

There are three codes for queries:

- *own coordinates* (see `query_routing`): d_model = Q + number of groups;
- *one-hot*: d_model = 2Q, the simplest;
- *compact*, points on a circle (see `circle_routing`): d_model = Q + 3, refused if the scores do not provably saturate.

For a missing entry, the value with label 0 wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import head_per_query, used_queries, used_values
from factrank.families.attention.forms.building import (
    CIRCLE_COORDINATES,
    BlockPlan,
    Labels,
    QueryGroup,
    RoutedQueries,
    block_layer,
    block_routing,
    compact_refusal,
    compact_routing,
    contents_by_value,
    label_choices,
    labels_for,
    most_values,
    own_coordinates,
)
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.forms.shared_heads import Grouping, grouped_by_range
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision

QueryCode = Literal["own coordinates", "one-hot", "compact"]
NAMES: dict[QueryCode, str] = {
    "own coordinates": "parabola",
    "compact": "compact-parabola",
    "one-hot": "one-hot-parabola",
}

MOST_TRIED = 20
"""Number of groups that packing tries for a range."""


class Parabola(ClosedForm):
    """The forms `parabola`, `compact-parabola` and `one-hot-parabola`."""

    def __init__(self, query_code: QueryCode = "own coordinates") -> None:
        self.query_code = query_code
        self.name = NAMES[query_code]

    def _limit(self, database: Database, precision: Precision) -> str | None:
        most = most_values(self.labels(database, precision))
        groups = self.grouping(database, precision)
        largest = max(len(values) for _, values in groups)
        if largest > most or (self.query_code == "compact" and len(groups) > 1):
            n_values = largest if largest > most else len(used_values(database))
            return f"{n_values:,} values do not fit into {precision}: at most {most:,} do"
        if self.query_code == "compact":
            return compact_refusal(database.n_queries, precision)
        return None

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return one head of width 1 per query with facts."""
        shape, n_queries = self.plan(database, precision).shape, database.n_queries
        if self.query_code == "one-hot":
            return replace(shape, d_model=shape.n_heads + n_queries)
        if self.query_code == "compact":
            return replace(shape, d_model=shape.n_heads + (CIRCLE_COORDINATES if n_queries > 1 else 1))
        return shape

    def labels(self, database: Database, precision: Precision) -> tuple[Labels, ...]:
        """Return the kinds of labels that are proved for this layer."""
        written = 2 if self.query_code == "own coordinates" else 0
        return label_choices(database.n_queries, precision, written)

    def grouping(self, database: Database, precision: Precision) -> Grouping:
        """Return one group if the values fit, else the ranges packed into few groups by first fit."""
        queries, values = used_queries(database).tolist(), used_values(database)
        most = most_values(self.labels(database, precision))
        return [(queries, values)] if len(values) <= most else packed(grouped_by_range(database), most)

    def plan(self, database: Database, precision: Precision) -> BlockPlan:
        """Return a plan with one class per query."""
        groups = [QueryGroup(tuple(queries), values, 1) for queries, values in self.grouping(database, precision)]
        return BlockPlan(tuple(groups), head_per_query(used_queries(database), database.n_queries))

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        plan, choices = self.plan(database, precision), self.labels(database, precision)
        labels = labels_for(max(len(group.values) for group in plan.groups), choices) or choices[-1]
        codes = [labels.of(np.arange(len(group.values)), precision)[:, None] for group in plan.groups]
        rows = self._routed(plan, self.shape(database, precision).d_model, precision)
        biases, contents = [labels.biases(code[:, 0]) for code in codes], contents_by_value(database, plan, codes)
        layer = block_layer(database, plan, [2 * code for code in codes], contents, biases, precision, rows)
        return Built(layer, self.name, editing_of(plan, labels, rows.constants))

    def _routed(self, plan: BlockPlan, d_model: int, precision: Precision) -> RoutedQueries:
        if self.query_code == "compact":
            return RoutedQueries(compact_routing(plan.classes, d_model, precision), [[d_model - 1]])
        if self.query_code == "own coordinates":
            return own_coordinates(plan, precision)
        n_queries = len(plan.classes)
        coordinates = plan.n_classes + np.arange(n_queries)
        routing = block_routing(plan.classes, coordinates, np.full(n_queries, -1), d_model, precision)
        return RoutedQueries(routing, [coordinates[list(group.queries)].tolist() for group in plan.groups])


def packed(grouping: Grouping, most: int) -> Grouping:
    """Merge ranges while their union has at most `most` values: largest first, first fit."""
    groups: list[tuple[list[int], set[int]]] = []
    for queries, values in sorted(grouping, key=lambda group: -len(group[1])):
        mine = set(values.tolist())
        home = next((group for group in groups[-MOST_TRIED:] if len(group[1] | mine) <= most), None)
        if home is None:
            groups.append((list(queries), mine))
        else:
            home[0].extend(queries)
            home[1].update(mine)
    return [(queries, np.array(sorted(values))) for queries, values in groups]


def editing_of(plan: BlockPlan, labels: Labels, constants: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the editing data: labels; range, output and constants per group; position per query.

    The label of a value follows from its place in the range of its group (`Labels.of`); `most` values have one.
    """
    groups = [
        {"values": group.values.tolist(), "output": int(plan.starts[group.queries[0]]), "constants": list(constant)}
        for group, constant in zip(plan.groups, constants, strict=True)
    ]
    by_query = {"group": plan.group_of.tolist(), "class": plan.classes.tolist(), "start": plan.classes.tolist()}
    return {"code": "parabola", "labels": labels._asdict(), "groups": groups, "queries": by_query}
