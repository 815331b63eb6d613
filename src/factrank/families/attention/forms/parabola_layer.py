r"""Parabola: every value a number, one coordinate of the keys and one head of width 1 per query.

A key holds the label $x_{f(k,q)}$ in the coordinate of query q (0 where there is no fact); head q copies it to the
output coordinate, which the unembedding reads with $2 x_v$, and the constant coordinate of the query adds
$s - x_v^2$. Attention is exactly 0 or 1, so that

$$L[k,q,v] = s + 2 x_{f(k,q)} x_v - x_v^2 = s + x_{f(k,q)}^2 - (x_v - x_{f(k,q)})^2,$$

largest at $v = f(k,q)$ by $(x_v - x_f)^2 \ge 1$. How many values a precision holds, and with which shift s, say
`parabola_labels`. Where all values together are too many, queries are grouped so that each group has few enough: a
group has labels, an output coordinate (that of its first query) and a constant of its own, and the logits of all other
values are 0, below s. One number per fact, whatever the number of values.

Queries are told apart by one of three codes:

- *own coordinates* (see `routing`): d_model = Q + number of groups;
- *one-hot*: d_model = 2Q, the plainest;
- *compact*, points on a circle (see `compact_routing`): d_model = Q + 3, refused where the scores of so many queries
  are not proved to saturate.

Where the database says nothing the value with the label 0 wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import used_queries, used_values
from factrank.families.attention.forms.building import (
    CIRCLE_COORDINATES,
    D_QK,
    Labels,
    QueryGroup,
    Routing,
    block_routing,
    compact_refusal,
    compact_routing,
    label_choices,
    labels_for,
    most_values,
)
from factrank.families.attention.forms.construction import Built, FormSearch, host_layer, require_held, table_refusal
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
"""Groups that a range is tried to be packed into."""


@dataclass(frozen=True, eq=False)
class ParabolaPlan:
    """Which values share labels and where everything lies.

    Arguments:
        groups: queries with one range and one set of labels, of width 1.
        labels: those of the largest range, for all groups.
        queries: those that have facts, in the order of heads and of their coordinates.
        n_queries: all queries.
    """

    groups: tuple[QueryGroup, ...]
    labels: Labels
    queries: Int[np.ndarray, " heads"]
    n_queries: int

    @property
    def classes(self) -> Int[np.ndarray, " queries"]:
        """The head of each query, which is also its coordinate; -1 for a query without facts."""
        found = np.full(self.n_queries, -1)
        found[self.queries] = np.arange(len(self.queries))
        return found

    @property
    def group_of(self) -> Int[np.ndarray, " queries"]:
        """The group of each query, -1 without facts."""
        found = np.full(self.n_queries, -1)
        for number, group in enumerate(self.groups):
            found[list(group.queries)] = number
        return found

    @property
    def outputs(self) -> list[int]:
        """The output coordinate of each group: that of its first query."""
        return [int(self.classes[group.queries[0]]) for group in self.groups]


class Parabola:
    """The constructions `parabola`, `compact-parabola` and `one-hot-parabola`."""

    estimated = False

    def __init__(self, query_code: QueryCode = "own coordinates") -> None:
        self.query_code = query_code
        self.name = NAMES[query_code]

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Too many values for the precision, or too many queries for the compact code."""
        reason = table_refusal(database)
        if reason is not None:
            return reason
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
        """One head of width 1 per query that has facts."""
        n_heads = len(used_queries(database))
        unused = int(n_heads < database.n_queries)
        if self.query_code == "one-hot":
            coordinates = database.n_queries
        elif self.query_code == "compact":
            coordinates = CIRCLE_COORDINATES if database.n_queries > 1 else 1
        else:
            coordinates = len(self.grouping(database, precision)) + unused
        return LayerShape(n_heads + coordinates, n_heads, D_QK, 1)

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer; nothing is left to search."""
        require_held(self, database, precision)
        return self._built(database, self.plan(database, precision), precision)

    def labels(self, database: Database, precision: Precision) -> tuple[Labels, ...]:
        """The kinds of labels that are proved for this layer."""
        written = 2 if self.query_code == "own coordinates" else 0
        return label_choices(database.n_queries, precision, written)

    def grouping(self, database: Database, precision: Precision) -> Grouping:
        """One group where the values fit; else ranges, packed into as few groups as first fit finds."""
        queries, values = used_queries(database).tolist(), used_values(database)
        most = most_values(self.labels(database, precision))
        return [(queries, values)] if len(values) <= most else packed(grouped_by_range(database), most)

    def plan(self, database: Database, precision: Precision) -> ParabolaPlan:
        """The plan of a database that is not refused."""
        grouping = self.grouping(database, precision)
        groups = tuple(QueryGroup(tuple(queries), values, 1) for queries, values in grouping)
        choices = self.labels(database, precision)
        labels = labels_for(max(len(group.values) for group in groups), choices) or choices[-1]
        return ParabolaPlan(groups, labels, used_queries(database), database.n_queries)

    def _built(self, database: Database, plan: ParabolaPlan, precision: Precision) -> Built:
        shape = self.shape(database, precision)
        routing, constants = self._routing(plan, shape.d_model, precision)
        embedding = np.zeros((database.n_keys + database.n_queries, shape.d_model))
        embedding[database.n_keys :] = routing.tokens
        unembedding = np.zeros((shape.d_model, database.n_values))
        w_o = np.zeros((shape.n_heads, 1, shape.d_model))
        label = np.zeros((len(plan.groups), database.n_values))
        for number, (group, output) in enumerate(zip(plan.groups, plan.outputs, strict=True)):
            labels = plan.labels.of(np.arange(len(group.values)), precision)
            label[number, group.values] = labels
            unembedding[output, group.values] = 2 * labels
            unembedding[np.array(constants[number])[:, None], group.values] = plan.labels.biases(labels)
            w_o[plan.classes[list(group.queries)], 0, output] = 1.0
        keys, queries, values = database.triples.T
        embedding[keys, plan.classes[queries]] = label[plan.group_of[queries], values]
        heads = {"w_q": routing.w_q, "w_k": routing.w_k, "w_v": np.eye(shape.n_heads, shape.d_model)[..., None]}
        parts = {"embedding": embedding, **heads, "w_o": w_o, "unembedding": unembedding}
        return Built(host_layer(database.n_keys, precision, parts), self.name, editing_of(plan, constants))

    def _routing(self, plan: ParabolaPlan, d_model: int, precision: Precision) -> tuple[Routing, list[list[int]]]:
        """The routing, and for each group the coordinates that are constant for its queries."""
        n_heads, n_queries = len(plan.queries), plan.n_queries
        if self.query_code == "compact":
            return compact_routing(plan.classes, d_model, precision), [[d_model - 1]]
        own = np.full(n_queries, -1)
        if self.query_code == "one-hot":
            coordinates = n_heads + np.arange(n_queries)
            routing = block_routing(plan.classes, coordinates, own, d_model, precision)
            return routing, [coordinates[list(group.queries)].tolist() for group in plan.groups]
        for group in plan.groups:
            own[list(group.queries[1:])] = plan.classes[list(group.queries[1:])]
        constants = n_heads + np.where(plan.group_of < 0, len(plan.groups), plan.group_of)
        routing = block_routing(plan.classes, constants, own, d_model, precision)
        return routing, [[n_heads + number] for number in range(len(plan.groups))]


def packed(grouping: Grouping, most: int) -> Grouping:
    """Ranges taken together while their union has at most so many values: the largest first, first fit."""
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


def editing_of(plan: ParabolaPlan, constants: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What edits need: the labels, for each group its range, output and constants, for each query its place.

    The label of a value is that of its place in the range of its group (`Labels.of`); `most` values have one.
    """
    groups = [
        {"values": group.values.tolist(), "output": output, "constants": list(constant)}
        for group, output, constant in zip(plan.groups, plan.outputs, constants, strict=True)
    ]
    by_query = {"group": plan.group_of.tolist(), "class": plan.classes.tolist(), "start": plan.classes.tolist()}
    return {"code": "parabola", "labels": plan.labels._asdict(), "groups": groups, "queries": by_query}
