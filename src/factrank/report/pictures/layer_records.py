"""Records of a layer: its logits, attention, circuits and direct path, with names on the axes.

The papers write L, A^h, V^h and E: L[k, q] = E[q] + sum over h of A^h[k, q] V^h[k] + (1 - A^h[k, q]) V^h[q].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.circuits import parts_of
from factrank.readouts import AnyModel, ReadsFacts, code_of, handed_in, logits_at, require_match
from factrank.report.pictures.axis_blocks import (
    MOST_MARKS,
    block_means,
    block_sides,
    blocks_of,
    distinct_labels,
)
from factrank.report.pictures.grid import Grid, Record, block_note, matrix_records, menu_note
from factrank.report.pictures.table_records import MOST_QUERIES, chosen_queries, indexed
from factrank.tensors.core import AXIS_NAMES

MOST_CELLS = 50_000_000
"""Most logits, attention weights or circuit entries that are computed for a picture."""
MOST_HEADS = 20
NOISE = 1e-10
"""Singular values below this fraction of the largest are rounding errors."""


@dataclass(frozen=True)
class NamedLayer:
    """A model with names for its keys, queries and values, and its facts if they are known."""

    model: ReadsFacts
    keys: Sequence[str]
    queries: Sequence[str]
    values: Sequence[str]
    facts: Database | None


def named_layer(given: AnyModel, database: Database | None = None) -> NamedLayer:
    """Return a model with the names of a database, of its own facts, or else with numbers."""
    model, own = handed_in(given)
    facts = own if database is None else database
    if facts is not None:
        require_match(model, facts)
        return NamedLayer(model, *facts.vocabularies, facts)
    sizes = (("key", model.n_keys), ("query", model.n_queries), ("value", model.n_values))
    keys, queries, values = ([f"{kind} {code}" for code in range(size)] for kind, size in sizes)
    return NamedLayer(model, keys, queries, values, None)


def logits_grid(
    given: AnyModel, query: str | int | None = None, database: Database | None = None, most: int = MOST_MARKS
) -> Grid:
    """Return the logits L[:, q, :] of keys and values, one heat map per query."""
    layer = named_layer(given, database)
    chosen, notes = _queries(layer, query)
    n_keys, n_values = len(layer.keys), len(layer.values)
    _require_room(n_keys * n_values, "logits of a query")
    chosen = chosen[: max(1, MOST_CELLS // (n_keys * n_values))]
    sides = block_sides(n_keys, n_values, most // len(chosen))
    rows, columns = blocks_of(layer.keys, sides[0]), blocks_of(layer.values, sides[1])
    names = distinct_labels([layer.queries[code] for code in chosen])
    records: list[Record] = []
    for code, name in zip(chosen, names, strict=True):
        logits = logits_at(layer.model, np.arange(n_keys, dtype=np.int32), np.full(n_keys, code, dtype=np.int32))
        facts = _facts_of(layer, code) if rows.size == columns.size == 1 else None
        records += matrix_records(
            block_means(np.asarray(logits, float), rows, columns), rows, columns, facts, layer=name
        )
    return Grid(
        title="Logits L of each key and value",
        row_title="key",
        column_title="value",
        colour_title="logit",
        records=records,
        rows=rows.labels,
        columns=columns.labels,
        layers=names,
        layer_title="query",
        notes=(
            *notes,
            *menu_note("query", names),
            *_framed(records),
            *block_note(rows, columns, "keys", "values", "the mean logit"),
        ),
        middle=0.0,
    )


def attention_grid(given: AnyModel, database: Database | None = None, most: int = MOST_MARKS) -> Grid:
    """Return the attention weights A^h[k, q] of queries on keys, one heat map per head."""
    layer = named_layer(given, database)
    _require_room(len(layer.keys) * len(layer.queries) * _n_heads(layer.model), "attention weights")
    weights = np.asarray(parts_of(layer.model).attention, float)[..., 0]
    words = ("Attention A: weight of each key for each query", "weight on the key", "mean weight")
    return _by_head(weights, (layer.keys, "key"), (layer.queries, "query"), words, most, None)


def circuits_grid(given: AnyModel, database: Database | None = None, most: int = MOST_MARKS) -> Grid:
    """Return the circuits V^h[t, v]: what a head writes if it attends to token t, one heat map per head."""
    layer = named_layer(given, database)
    tokens = [*layer.keys, *layer.queries]
    _require_room(len(tokens) * len(layer.values) * _n_heads(layer.model), "entries of circuits")
    circuits = np.asarray(parts_of(layer.model).circuits, float)
    words = ("Circuits V: what a head writes if it attends to a token", "logit", "mean logit")
    return _by_head(circuits, (tokens, "token"), (layer.values, "value"), words, most, 0.0)


def direct_grid(given: AnyModel, database: Database | None = None, most: int = MOST_MARKS) -> Grid:
    """Return the direct path E[q, v]: what the embedding of a query writes without attention."""
    layer = named_layer(given, database)
    _require_room(len(layer.queries) * len(layer.values), "entries of the direct path")
    direct = np.asarray(parts_of(layer.model).direct, float)[None]
    words = ("Direct path E: what a query writes by itself", "logit", "mean logit")
    return _by_head(direct, (layer.queries, "query"), (layer.values, "value"), words, most, 0.0)


def layer_singular_records(given: AnyModel) -> tuple[list[Record], tuple[str, ...]]:
    """Return the singular values of the three flattenings of the logit tensor."""
    model = handed_in(given).model
    shape = model.n_keys, model.n_queries, model.n_values
    _require_room(int(np.prod(shape, dtype=object)), "logits")
    pairs = np.divmod(np.arange(shape[0] * shape[1], dtype=np.int32), np.int32(shape[1]))
    tensor = np.asarray(logits_at(model, *pairs), float).reshape(shape)
    records, notes = list[Record](), list[str]()
    for axis, name in enumerate(AXIS_NAMES):
        matrix = np.moveaxis(tensor, axis, 0).reshape(shape[axis], -1)
        values = np.linalg.svd(matrix, compute_uv=False)
        records += indexed(values[values > NOISE * values.max(initial=0.0)], name, notes)
    notes.append(f"Values below {NOISE:g} of the largest are left out.")
    return records, tuple(notes)


def _by_head(
    matrices: Float[np.ndarray, "heads rows columns"],
    rows_of: tuple[Sequence[str], str],
    columns_of: tuple[Sequence[str], str],
    words: tuple[str, str, str],
    most: int,
    middle: float | None,
) -> Grid:
    (row_names, row_word), (column_names, column_word) = rows_of, columns_of
    shown = matrices[:MOST_HEADS]
    sides = block_sides(len(row_names), len(column_names), most // len(shown))
    rows, columns = blocks_of(row_names, sides[0]), blocks_of(column_names, sides[1])
    names = tuple(f"head {head}" for head in range(len(shown))) if len(shown) > 1 else ()
    records: list[Record] = []
    for at, matrix in enumerate(shown):
        layer = names[at] if names else ""
        records += matrix_records(block_means(matrix, rows, columns), rows, columns, layer=layer)
    left_out = (f"The first {MOST_HEADS} of {len(matrices):,} heads.",) if len(matrices) > MOST_HEADS else ()
    title, colour, mean = words
    plural = {"query": "queries"}
    blocks = block_note(
        rows, columns, plural.get(row_word, f"{row_word}s"), plural.get(column_word, f"{column_word}s"), f"the {mean}"
    )
    return Grid(
        title=title,
        row_title=row_word,
        column_title=column_word,
        colour_title=colour,
        records=records,
        rows=rows.labels,
        columns=columns.labels,
        layers=names,
        layer_title="head" if names else "",
        notes=(*left_out, *menu_note("head", names), *blocks),
        middle=middle,
    )


def _queries(layer: NamedLayer, query: str | int | None) -> tuple[list[int], tuple[str, ...]]:
    """Return the codes of the queries to show, and a note if there are others."""
    if query is not None:
        return [code_of("query", query, layer.model, layer.facts)], ()
    if layer.facts is not None:
        return chosen_queries(layer.facts, None)
    shown = list(range(min(len(layer.queries), MOST_QUERIES)))
    more = len(layer.queries) > MOST_QUERIES
    return shown, (f"The first {MOST_QUERIES} of {len(layer.queries):,} queries; query=CODE shows another.",) * more


def _facts_of(layer: NamedLayer, query: int) -> Bool[np.ndarray, "keys values"] | None:
    if layer.facts is None:
        return None
    triples = layer.facts.triples[layer.facts.triples[:, 1] == query]
    found = np.zeros((len(layer.keys), len(layer.values)), bool)
    found[triples[:, 0], triples[:, 2]] = True
    return found


def _framed(records: list[Record]) -> tuple[str, ...]:
    return ("Facts are framed.",) if records and "fact" in records[0] else ()


def _n_heads(model: ReadsFacts) -> int:
    return int(getattr(getattr(model, "shape", None), "n_heads", 1))


def _require_room(n_cells: int, what: str) -> None:
    if n_cells > MOST_CELLS:
        raise InputError(f"{n_cells:,} {what} are too many for a picture, which takes at most {MOST_CELLS:,}")
