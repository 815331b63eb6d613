"""Records of a database: the table of its values, the slices of its tensor, and its singular values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.errors import InputError
from factrank.foreign_text import few
from factrank.report.pictures.axis_blocks import (
    MOST_MARKS,
    MOST_SIDE,
    AxisBlocks,
    block_sides,
    blocks_of,
    distinct_labels,
)
from factrank.report.pictures.grid import Grid, Record, block_note, menu_note
from factrank.tensors.core import AXES, AXIS_NAMES, ZeroOneTensor, flattening

MOST_QUERIES = 20
"""Most queries to choose from in one picture."""
MOST_SINGULAR = 500
LARGEST_AXIS = 1_500
"""Longest axis whose flattening is decomposed."""
SHOWN_VALUES = 3


def table_grid(database: Database, most: int = MOST_MARKS) -> Grid:
    """Return the table of keys and queries with values as colours; if it is large, the number of facts in blocks."""
    if database.n_fibers <= most and max(database.n_keys, database.n_queries) <= MOST_SIDE:
        return _named_table(database)
    rows, columns = _axes(database.keys, database.queries, most)
    counts = _counts(database.triples[:, :2], rows, columns)
    facts = f"{database.n_facts:,} facts: {database.n_keys:,} keys x {database.n_queries:,} queries"
    return Grid(
        title=f"Where the facts are ({facts})",
        row_title="key",
        column_title="query",
        colour_title="facts",
        records=_count_records(counts, rows, columns),
        rows=rows.labels,
        columns=columns.labels,
        notes=block_note(rows, columns, "keys", "queries", "the number of facts"),
    )


def _named_table(database: Database) -> Grid:
    keys, queries = distinct_labels(database.keys), distinct_labels(database.queries)
    values = distinct_labels(database.values)
    records: list[Record] = []
    for start, count in zip(database.fiber_starts.tolist(), database.fiber_counts.tolist(), strict=True):
        key, query, _ = database.triples[start].tolist()
        found = [values[code] for code in database.triples[start : start + count, 2].tolist()]
        more = f" and {count - SHOWN_VALUES:,} more" if count > SHOWN_VALUES else ""
        text = ", ".join(found[:SHOWN_VALUES]) + more
        records.append({"row": keys[key], "column": queries[query], "colour": text})
    return Grid(
        title=f"The value of each key and query ({database.n_facts:,} facts)",
        row_title="key",
        column_title="query",
        colour_title="value",
        records=records,
        rows=keys,
        columns=queries,
        is_named=True,
    )


def slices_grid(database: Database, query: str | None = None, most: int = MOST_MARKS) -> Grid:
    """Return the slices D[:, q, :] of the 0/1 tensor: keys and values that belong together, one slice per query."""
    chosen, notes = chosen_queries(database, query)
    inside = np.isin(database.triples[:, 1], chosen)
    triples = database.triples[inside]
    widest = int(database.values_per_query[chosen].max(initial=0))  # a slice shows only the values of its query
    sides = (database.n_keys, database.n_values)
    if len(triples) > most or max(database.n_keys, widest) > MOST_SIDE:
        sides = block_sides(*sides, most // max(len(chosen), 1))
    rows, columns = blocks_of(database.keys, sides[0]), blocks_of(database.values, sides[1])
    names = distinct_labels([database.queries[code] for code in chosen])
    records = []
    for code, name in zip(chosen, names, strict=True):
        counts = _counts(triples[triples[:, 1] == code][:, [0, 2]], rows, columns)
        records += _count_records(counts, rows, columns, layer=name)
    return Grid(
        title=f"Slices of the fact tensor ({database.n_facts:,} facts)",
        row_title="key",
        column_title="value",
        colour_title="facts",
        records=records,
        rows=rows.labels,
        columns=columns.labels,
        layers=names,
        layer_title="query",
        notes=(*notes, *menu_note("query", names), *block_note(rows, columns, "keys", "values", "the number of facts")),
    )


def chosen_queries(database: Database, query: str | None) -> tuple[list[int], tuple[str, ...]]:
    """Return the codes of the queries to show, those with most facts first if there are many, and a note on them."""
    if query is not None:
        if query not in database.queries:
            raise InputError(f"no query {query!r}; the queries are {few(database.queries[:4])}")
        return [database.queries.index(query)], ()
    if database.n_queries <= MOST_QUERIES:
        return list(range(database.n_queries)), ()
    counts = np.bincount(database.triples[:, 1], minlength=database.n_queries)
    most = np.argsort(-counts, kind="stable")[:MOST_QUERIES].tolist()
    note = f"The {MOST_QUERIES} queries with most facts of {database.n_queries:,}; query=NAME shows another."
    return most, (note,)


def singular_records(database: Database) -> tuple[list[Record], tuple[str, ...]]:
    """Return the singular values of the three flattenings of the fact tensor, and notes on what is left out."""
    tensor, records, notes = ZeroOneTensor.of(database.compact()), list[Record](), list[str]()
    for axis in AXES:
        if tensor.shape[axis] > LARGEST_AXIS:
            sizes = f"{tensor.shape[axis]:,} rows, more than {LARGEST_AXIS:,}"
            notes.append(f"The {AXIS_NAMES[axis]} flattening is left out: it has {sizes}.")
            continue
        matrix = flattening(tensor, axis)
        squares = np.linalg.eigvalsh((matrix @ matrix.T).toarray().astype(np.float64))[::-1]
        records += indexed(np.sqrt(np.maximum(squares, 0.0)), AXIS_NAMES[axis], notes)
    return records, tuple(notes)


def indexed(values: Float[np.ndarray, " n"], name: str, notes: list[str]) -> list[Record]:
    """Return numbered singular values, the largest of them if there are many."""
    if len(values) > MOST_SINGULAR:
        notes.append(f"The {MOST_SINGULAR} largest of {len(values):,} singular values of the {name} flattening.")
    largest = values[:MOST_SINGULAR].tolist()
    return [{"x": at, "y": float(f"{value:.6g}"), "colour": name} for at, value in enumerate(largest, start=1)]


def _axes(keys: Sequence[str], others: Sequence[str], most: int) -> tuple[AxisBlocks, AxisBlocks]:
    sides = block_sides(len(keys), len(others), most)
    return blocks_of(keys, sides[0]), blocks_of(others, sides[1])


def _counts(pairs: Int[np.ndarray, "n 2"], rows: AxisBlocks, columns: AxisBlocks) -> dict[tuple[int, int], int]:
    """Return the number of facts in each block with any, by row and column of the block."""
    cells = (pairs[:, 0] // rows.size).astype(np.int64) * len(columns.labels) + pairs[:, 1] // columns.size
    found, counts = np.unique(cells, return_counts=True)
    places = zip(*(part.tolist() for part in np.divmod(found, len(columns.labels))), strict=True)
    return dict(zip(places, counts.tolist(), strict=True))


def _count_records(
    counts: dict[tuple[int, int], int], rows: AxisBlocks, columns: AxisBlocks, **fields: str
) -> list[Record]:
    return [
        {"row": rows.labels[row], "column": columns.labels[column], "colour": count, **fields}
        for (row, column), count in counts.items()
    ]
