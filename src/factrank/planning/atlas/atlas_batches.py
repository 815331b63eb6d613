"""From rows to batches that a backend trains, and from its results back to rows.

Drawing a batch takes about 0.1 ms per row and needs no device, so other processes do it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from factrank.families.attention.fused.bulk import (
    BulkLayers,
    BulkResults,
    PackedLayers,
    first_weights,
    pack,
    plans_of,
)
from factrank.planning.atlas.atlas_rows import (
    LOOKS,
    RESULTS,
    TAU,
    AtlasRows,
    each,
    products_of,
    sizes_of_rows,
    trained_masks,
)
from factrank.planning.atlas.atlas_tables import facts_of_row

BATCH = 2048
"""Layers of a batch, at most."""

BATCH_PRODUCTS = 2**38
"""Multiplications of all epochs of a batch, about, at most: two seconds of an H200."""


def layers_of(rows: AtlasRows) -> BulkLayers:
    """Return the layers of rows, with their facts and first weights."""
    tables = [facts_of_row(row) for row in each(rows)]
    counts = [len(pairs) for pairs, _ in tables]
    n_queries = np.repeat(np.asarray(rows["n_queries"], dtype=np.int64), counts)
    pairs, values = (np.concatenate(part) for part in zip(*tables, strict=True))
    sizes = sizes_of_rows(rows)
    weight_starts, weights = first_weights(sizes, np.asarray(rows["seed"]))
    return BulkLayers(
        sizes=sizes,
        fact_starts=np.concatenate([[0], np.cumsum(counts)]),
        keys=(pairs // n_queries).astype(np.int32),
        queries=(pairs % n_queries).astype(np.int32),
        values=values.astype(np.int32),
        weight_starts=weight_starts,
        weights=weights,
        epochs=np.asarray(rows["epochs"], dtype=np.int64),
        learning_rates=np.asarray(rows["learning_rate"], dtype=float),
        trained=trained_masks(rows),
        looks=LOOKS,
        tau=TAU,
    )


def packed_batch(rows: AtlasRows, room: int) -> tuple[dict[str, Any], PackedLayers]:
    """Return counts of the tables of rows of one class, and the rows as the GPU reads them."""
    layers = layers_of(rows)
    return known_of_tables(layers), pack(layers, room)


def known_of_tables(layers: BulkLayers) -> dict[str, Any]:
    """Return the number of values in use, and the sum over queries of n_q log2 |V_q|."""
    owner = np.repeat(np.arange(len(layers)), layers.n_facts)
    n_queries, n_values = int(layers.sizes[:, 1].max()), int(layers.sizes[:, 2].max())
    queries = owner * n_queries + layers.queries
    answers = np.unique(queries * n_values + layers.values)
    ranges = np.bincount(answers // n_values, minlength=len(layers) * n_queries)
    bits = np.bincount(queries, minlength=len(ranges)) * np.log2(np.maximum(ranges, 1))
    used = np.unique(owner * n_values + layers.values) // n_values
    return {
        "values_used": np.bincount(used, minlength=len(layers)),
        "bits_by_query": bits.reshape(len(layers), n_queries).sum(axis=1),
    }


def batches_of(rows: AtlasRows, room: int) -> list[Any]:
    """Return the places of the rows of each batch: one class each, the longest first."""
    plans = plans_of(sizes_of_rows(rows), np.asarray(rows["n_facts"]), room)
    kinds: dict[Any, list[int]] = {}
    for place, plan in enumerate(plans):
        kinds.setdefault(plan.kind, []).append(place)
    work = products_of(rows).astype(float) * rows["epochs"]
    batches = []
    for places in kinds.values():
        ordered = np.array(places)[np.argsort(-work[places], kind="stable")]
        filled = np.maximum(np.arange(len(ordered)) / BATCH, np.cumsum(work[ordered]) / BATCH_PRODUCTS).astype(int)
        batches += np.split(ordered, np.flatnonzero(np.diff(filled)) + 1)
    return sorted(batches, key=lambda places: -float(work[places].sum()))


def finished(rows: AtlasRows, known: AtlasRows, results: BulkResults) -> dict[str, Any]:
    """Return the rows with their results."""
    columns = {
        **known,
        "loss": results.loss,
        "right": results.right,
        "right_tau": results.right_tau,
        "margin": results.margin,
        **{f"loss_{look}": results.curve_loss[:, place] for place, look in enumerate(LOOKS)},
        **{f"right_{look}": results.curve_right[:, place] for place, look in enumerate(LOOKS)},
    }
    return {**rows, **{name: np.asarray(columns[name]).astype(kind) for name, kind in RESULTS.items()}}


def trained_here(rows: AtlasRows) -> dict[str, Any]:
    """Train a few rows on this processor."""
    from factrank.families.attention.fused.bulk import train_on_threads  # noqa: PLC0415 - loads the compiler

    layers = layers_of(rows)
    return finished(rows, known_of_tables(layers), train_on_threads(layers))
