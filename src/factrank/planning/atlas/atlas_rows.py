"""Rows of the atlas: one trained layer each, as columns of plain numbers.

`AtlasRows` are a mapping from column to array. The first columns specify the layer, and `trial_of_row` returns the
trial that trains it again; the others are its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

AtlasRows = Mapping[str, Any]

TABLE_KINDS = (
    "uniform",
    "disjoint",
    "structured",
    "zipf",
    "overlapping-boxes",
    "associations",
    "injections",
    "bijections",
    "sample",
)
"""Kinds of tables; the column `kind` is an index into them. `sample`: parts of the tables of true facts."""

SAMPLES = ("elements", "countries")
"""Tables of true facts; for samples, `n_classes` is an index into them."""

LOOKS = (125, 250, 500, 1000, 2000, 5000, 10000)
"""Epochs before which loss and recall are recorded."""

TAU = 0.95

SPEC: Mapping[str, str] = {
    "part": "int8",
    "kind": "int8",
    "n_keys": "int32",
    "n_queries": "int32",
    "n_values": "int32",
    "n_facts": "int32",
    "n_classes": "int32",
    "exponent": "float32",
    "d_model": "int32",
    "n_heads": "int32",
    "d_qk": "int32",
    "d_vo": "int32",
    "epochs": "int32",
    "learning_rate": "float64",
    "update": "int8",
    "table_seed": "int64",
    "seed": "int64",
    "search": "int32",
}
"""Columns that specify a layer.

`n_classes` belongs to structured tables, `exponent` to Zipf tables. `update` is 1 if only W_V and W_O are trained; d_vo
is then the rank of the update. `search` is the number of the search that a row belongs to, or -1.
"""

RESULTS: Mapping[str, str] = {
    "values_used": "int32",
    "bits_by_query": "float32",
    "loss": "float32",
    "right": "int32",
    "right_tau": "int32",
    "margin": "float32",
    **{f"loss_{look}": "float32" for look in LOOKS},
    **{f"right_{look}": "int32" for look in LOOKS},
}
"""Columns of results; `right` counts facts recalled by argmax, `right_tau` with a probability of at least TAU."""

ALL_PARTS, UPDATE_PARTS = 0b111111, 0b011000
"""The masks of a whole layer and of W_V and W_O alone, in the order of the layer's parts."""


def n_rows(rows: AtlasRows) -> int:
    """Return the number of rows."""
    return len(rows["kind"])


def take_rows(rows: AtlasRows, places: Any) -> dict[str, Any]:
    """Return some of the rows."""
    return {name: column[places] for name, column in rows.items()}


def join_rows(parts: Sequence[AtlasRows]) -> dict[str, Any]:
    """Return all rows of several parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def each(rows: AtlasRows) -> Iterable[dict[str, Any]]:
    """Return the rows one by one, as dictionaries of plain numbers."""
    lists = [column.tolist() for column in rows.values()]
    return (dict(zip(rows, cells, strict=True)) for cells in zip(*lists, strict=True))


def sizes_of_rows(rows: AtlasRows) -> Any:
    """Return the seven sizes of each layer, as kernels read them."""
    names = ("n_keys", "n_queries", "n_values", "d_model", "n_heads", "d_qk", "d_vo")
    return np.stack([np.asarray(rows[name], dtype=np.int64) for name in names], axis=1)


def trained_masks(rows: AtlasRows) -> Any:
    """Return the masks of the trained parts, as kernels read them."""
    return np.where(np.asarray(rows["update"]) == 1, UPDATE_PARTS, ALL_PARTS).astype(np.int64)


def row_parameters(rows: AtlasRows) -> Any:
    """Return the number of parameters of each layer."""
    tokens = np.asarray(rows["n_keys"], dtype=np.int64) + rows["n_queries"] + rows["n_values"]
    return rows["d_model"] * (tokens + 2 * rows["n_heads"] * (rows["d_qk"] + rows["d_vo"]))


def products_of(rows: AtlasRows) -> Any:
    """Return about how many multiplications a forward pass of each layer takes (`attention_work.products`)."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes_of_rows(rows).T
    tokens = n_keys + n_queries
    tables = n_heads * d_vo * n_values * (d_model + tokens) + n_queries * d_model * n_values
    facts = np.asarray(rows["n_facts"], dtype=np.int64) * n_heads * (d_qk + n_values)
    return tokens * d_model * n_heads * (2 * d_qk + d_vo) + tables + facts
