r"""Mixed: some queries in one form and the others in another, side by side in one layer.

The table is split by query. Each part has its own layer for all keys and values, on its own coordinates, so the rows of
keys, of queries and of the unembedding are concatenated without interference. The only interaction is that the heads of
one part must read the query, not the key, for the queries of the other part. Both parts route by the query alone with
$d_{qk} = 1$ (see `query_routing`): all their heads have the same $W_K = e$ with $x_k \cdot e = 0$ for every key and
$x_q \cdot e = t \ne 0$ for every query. On the coordinates of the other part, a head therefore uses $W_K = e$ and
$W_Q = r\, e$ with $r\, t^2 = c$, and its score is

$$(r\, t)(0 - t) = -c$$

for every query of the other part: attention is exactly 0, and the head reads a query that is 0 in its coordinates.
Logits and margins are exactly the same as in the part that contains the query.

A split helps if a small code cannot store all queries. The queries with the shortest ranges use it while they fit,
and the rest (long ranges, several values per key) use another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.building import STRENGTHS
from factrank.families.attention.forms.construction import (
    Built,
    Construction,
    FormSearch,
    host_layer,
    table_refusal,
)
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, to_arrays

ROUTED_BY_QUERY = ("parabola", "digits", "circle", "shared-heads", "binary", "set-valued")
"""Forms that can be parts: their attention depends on the query alone."""


@dataclass(frozen=True, eq=False)
class QuerySplit:
    """Two forms and their queries."""

    forms: tuple[Construction, Construction]
    queries: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]
    shape: LayerShape


class Mixed:
    """The form `mixed`, from the forms of a registry."""

    name = "mixed"
    estimated = True

    def __init__(self, forms: Mapping[str, Construction]) -> None:
        self._forms = forms

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Return why no split exists: every form stores all queries or none of them."""
        reason = table_refusal(database, functional=False)
        if reason is None and self.split(database, precision) is None:
            return "nothing to split: every construction takes all queries or none"
        return reason

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the shape of the smallest split."""
        return self._required(database, precision).shape

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """Build both layers and combine them; the result cannot be edited."""
        split = self._required(database, precision)
        half = FormSearch(search.seconds / 2, search.seed)
        layers = []
        for form, queries in zip(split.forms, split.queries, strict=True):
            layers.append(form.build(of_queries(database, queries), precision, half).layer)
        return Built(side_by_side(layers[0], layers[1], split.queries, precision), self.name)

    def split(self, database: Database, precision: Precision) -> QuerySplit | None:
        """Return the smallest split found; None if every form stores all queries or none."""
        forms = [self._forms[name] for name in ROUTED_BY_QUERY if name in self._forms]
        order = _easiest_first(database)
        found = []
        for first in forms:
            if first.refusal(database, precision) is None:
                continue
            n_held = _n_held(first, database, order, precision)
            if not 0 < n_held < len(order):
                continue
            queries = np.sort(order[:n_held]), np.sort(order[n_held:])
            rest = of_queries(database, queries[1])
            shape = first.shape(of_queries(database, queries[0]), precision)
            for second in forms:
                needed = not (rest.functional and second.name == "set-valued")  # expensive to try
                if needed and second is not first and second.refusal(rest, precision) is None:
                    both = joint_shape(shape, second.shape(rest, precision))
                    found.append(QuerySplit((first, second), queries, both))
        return min(found, key=lambda split: split.shape.parameters(*database.shape), default=None)

    def _required(self, database: Database, precision: Precision) -> QuerySplit:
        split = self.split(database, precision) if database.n_facts else None
        if split is None:
            raise InputError(f"{self.name}: {self.refusal(database, precision)}")
        return split


def of_queries(database: Database, queries: Int[np.ndarray, " some"]) -> Database:
    """Restrict a database to these queries, keeping all keys and values."""
    place = np.full(database.n_queries, -1, dtype=np.int32)
    place[queries] = np.arange(len(queries))
    triples = database.triples[place[database.triples[:, 1]] >= 0].copy()
    triples[:, 1] = place[triples[:, 1]]
    return Database(triples, database.keys, database.queries.take(queries), database.values)


def joint_shape(one: LayerShape, other: LayerShape) -> LayerShape:
    """Return the shape of two layers side by side; heads are split or padded to the cheapest width.

    >>> joint_shape(LayerShape(4, 3, 1, 1), LayerShape(9, 2, 1, 4))
    LayerShape(d_model=13, n_heads=7, d_qk=1, d_vo=2)
    """
    widths = range(1, max(one.d_vo, other.d_vo) + 1)
    n_heads = {width: sum(part.n_heads * ceil(part.d_vo / width) for part in (one, other)) for width in widths}
    best = min(reversed(widths), key=lambda width: n_heads[width] * (1 + width))
    return LayerShape(one.d_model + other.d_model, n_heads[best], 1, best)


def side_by_side(
    one: AttentionLayer,
    other: AttentionLayer,
    queries: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]],
    precision: Precision,
) -> AttentionLayer:
    """Combine two layers with the same keys and values; `queries` lists the queries of each in the table."""
    shape = joint_shape(one.shape, other.shape)
    n_keys, n_queries = one.n_keys, sum(map(len, queries))
    embedding = np.zeros((n_keys + n_queries, shape.d_model))
    unembedding = np.zeros((shape.d_model, one.n_values))
    w_q, w_k = np.zeros((2, shape.n_heads, shape.d_model, 1))
    w_v, w_o = np.zeros((2, shape.n_heads, shape.d_model, shape.d_vo))
    coordinates = slice(0, one.shape.d_model), slice(one.shape.d_model, shape.d_model)
    parts = [{name: part.astype(np.float64) for name, part in to_arrays(layer).items()} for layer in (one, other)]
    head = 0
    for mine, theirs in ((0, 1), (1, 0)):
        part, here, there = parts[mine], coordinates[mine], coordinates[theirs]
        embedding[:n_keys, here] = part["embedding"][:n_keys]
        embedding[n_keys + queries[mine], here] = part["embedding"][n_keys:]
        unembedding[here] = part["unembedding"]
        away_q, away_k = _reading_the_query(parts[theirs], n_keys, precision)
        for number in range(len(part["w_q"])):
            for start in range(0, part["w_v"].shape[2], shape.d_vo):
                w_q[head, here], w_k[head, here] = part["w_q"][number], part["w_k"][number]
                w_q[head, there, 0], w_k[head, there, 0] = away_q, away_k
                values = part["w_v"][number, :, start : start + shape.d_vo]
                w_v[head, here, : values.shape[1]] = values
                w_o[head, here, : values.shape[1]] = part["w_o"][number, start : start + shape.d_vo].T
                head += 1
    heads = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o.transpose(0, 2, 1)}
    return host_layer(n_keys, precision, {"embedding": embedding, **heads, "unembedding": unembedding})


def _reading_the_query(
    part: Mapping[str, Float[np.ndarray, "..."]], n_keys: int, precision: Precision
) -> tuple[Float[np.ndarray, " d_model"], Float[np.ndarray, " d_model"]]:
    """Return W_Q and W_K with which the other part's heads read the queries of this part: r e and e."""
    direction = part["w_k"][0, :, 0]
    strengths = part["embedding"] @ direction
    asked = strengths[n_keys:]
    assert not strengths[:n_keys].any() and asked[0] and (asked == asked[0]).all()  # noqa: S101, PT018
    towards_key, towards_query = STRENGTHS[precision]
    return np.rint(direction * (towards_key * towards_query / asked[0] ** 2)), direction


def _easiest_first(database: Database) -> Int[np.ndarray, " queries"]:
    """Sort the queries: without facts first, then one value per key and few values in total."""
    most = np.zeros(database.n_queries, dtype=np.int64)
    np.maximum.at(most, database.triples[database.fiber_starts, 1], database.fiber_counts)
    return np.lexsort((database.values_per_query, most))


def _n_held(form: Construction, database: Database, order: Int[np.ndarray, " queries"], precision: Precision) -> int:
    """Return how many of the first queries a form stores if it refuses all of them, by bisection."""
    held, refused = 0, len(order)
    while refused - held > 1:
        middle = (held + refused) // 2
        some = of_queries(database, np.sort(order[:middle]))
        # Queries without facts are first; they must not stop the search.
        if not some.n_facts or form.refusal(some, precision) is None:
            held = middle
        else:
            refused = middle
    return held if of_queries(database, np.sort(order[:held])).n_facts else 0
