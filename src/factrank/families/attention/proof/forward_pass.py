"""The forward pass on every fact: the layer's own, in its own precision, a block of pairs at a time.

The layer of a block has the embedding rows of the block's keys and queries alone, so that the work goes with the facts
and not with blocks times tokens. A block is a list of pairs, or, where that is much less work (many heads, and a table
with few gaps), all pairs of some keys and some queries: then what heads write is unembedded once per token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.nn import on_device
from factrank.readouts import BLOCK_CELLS, cells_per_pair, fibers_of, full_precision, margins

CONFIDENT = 0.95
"""The probability from which an answer where the database says nothing is an artifact."""

MOST_SILENT_CELLS = 2**31
"""Numbers that are computed for silent fibers at most: some ten seconds."""

GRID_CELLS = 2**25
"""Numbers in the largest array where all pairs of some keys and queries are evaluated."""

GRID_GAIN = 4
"""How much less work per pair that must be."""


class Forward(NamedTuple):
    """What the forward pass gives: the margin of every fact; of silent fibers, how many are answered, and surely so."""

    margins: Float[np.ndarray, " facts"]
    silent_fibers: int
    answered: int | None
    artifacts: int | None


def evaluate(layer: AnyLayer, database: Database) -> Forward:
    """The forward pass on every fact and, where they are not too many, on every silent fiber."""
    triples, fibers = database.triples, fibers_of(database)
    found = np.empty(len(triples))
    pairs = triples[:, 0].astype(np.int64) * database.n_queries + triples[:, 1]
    for rows, margin in _in_blocks(layer, pairs, fibers):
        found[rows] = margin[0]
    silent = np.ones(0, np.int64)
    n_silent = database.n_keys * database.n_queries - database.n_fibers
    if n_silent * cells_per_pair(layer) > MOST_SILENT_CELLS:
        return Forward(found, n_silent, None, None)
    if n_silent:
        unsaid = np.ones(database.n_keys * database.n_queries, dtype=bool)
        unsaid[pairs] = False
        silent = np.flatnonzero(unsaid)
    answered = artifacts = 0
    for _, (leads, probabilities) in _in_blocks(layer, silent, None):
        answered += int((leads > 0).sum())
        artifacts += int((probabilities.astype(np.float64) >= CONFIDENT).sum())
    return Forward(found, n_silent, answered, artifacts)


def _in_blocks(
    layer: AnyLayer, pairs: Int[np.ndarray, " pairs"], fibers: Int[np.ndarray, "pairs m"] | None
) -> Iterator[tuple[Int[np.ndarray, " rows"], tuple[np.ndarray, ...]]]:
    """Margins of the fibers, or leads and probabilities of the best values, for pairs numbered key by key.

    Blocks, their keys and their queries are padded to powers of two, so that few shapes are compiled.
    """
    if not len(pairs):
        return
    keys, queries = np.divmod(pairs, layer.n_queries)
    grid = _grid(layer, keys, queries)
    more = 0 if fibers is None else layer.n_values * (fibers.shape[1] - 1)
    blocks = _lists(layer, len(pairs), more) if grid is None else _rectangles(keys, queries, grid)
    with full_precision(layer):
        whole, embedding = on_device(layer), np.asarray(layer.embedding)
        for rows in blocks:
            filled = _filled(rows)
            used_keys, key_at = np.unique(keys[filled], return_inverse=True)
            used_queries, query_at = np.unique(queries[filled], return_inverse=True)
            part = _with_tokens(whole, embedding, _filled(used_keys), _filled(used_queries))
            codes = jnp.asarray(key_at, jnp.int32), jnp.asarray(query_at, jnp.int32)
            results: tuple[Array, ...]
            if fibers is None:
                results = _leads(part, *codes, grid is not None)
            else:
                results = (_margins(part, *codes, jnp.asarray(fibers[filled]), grid is not None),)
            yield rows, tuple(np.asarray(result)[: len(rows)] for result in results)


def _grid(
    layer: AnyLayer, keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"]
) -> tuple[int, int] | None:
    """How many keys and queries make a rectangle of pairs; None where lists of pairs are about as cheap."""
    n_heads, n_values, d_model = layer.shape.n_heads, layer.n_values, layer.shape.d_model
    n_keys, n_queries = (len(np.unique(codes)) for codes in (keys, queries))
    written = max(min(n_values, d_model), d_model if not isinstance(layer, AttentionLayer) else 0)
    per_pair = n_heads + n_values + written
    if GRID_GAIN * per_pair * n_keys * n_queries > cells_per_pair(layer) * len(keys):
        return None
    most_tokens = max(GRID_CELLS // (n_heads * max(written, n_values)), 1)
    some_queries = min(n_queries, most_tokens)
    return min(n_keys, most_tokens, max(GRID_CELLS // (some_queries * per_pair), 1)), some_queries


def _lists(layer: AnyLayer, n_pairs: int, more_cells: int) -> Iterator[Int[np.ndarray, " rows"]]:
    """The rows of all pairs in order, a block at a time."""
    height = max(BLOCK_CELLS // (cells_per_pair(layer) + more_cells), 1)
    height = 1 << height.bit_length() - 1
    for start in range(0, n_pairs, height):
        yield np.arange(start, min(start + height, n_pairs))


def _rectangles(
    keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"], size: tuple[int, int]
) -> Iterator[Int[np.ndarray, " rows"]]:
    """The rows of the pairs of some keys and some queries at a time; keys are in order."""
    starts = np.unique(keys)[:: size[0]]
    for rows in np.split(np.arange(len(keys)), np.searchsorted(keys, starts[1:])):
        for first in range(0, int(queries.max()) + 1, size[1]):
            chosen = rows[(queries[rows] >= first) & (queries[rows] < first + size[1])]
            if len(chosen):
                yield chosen


def _filled(rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """The rows with the last one repeated, up to the next power of two."""
    length = 1 << max(len(rows) - 1, 0).bit_length()
    return np.concatenate([rows, np.full(length - len(rows), rows[-1])])


def _with_tokens(
    layer: AnyLayer,
    embedding: Float[np.ndarray, "tokens d_model"],
    keys: Int[np.ndarray, " keys"],
    queries: Int[np.ndarray, " queries"],
) -> AnyLayer:
    """The layer for these keys and queries alone, in this order."""
    rows = queries + layer.n_keys if isinstance(layer, AttentionLayer) else np.asarray(layer.query_rows)[queries]
    changes: dict[str, Any] = {"embedding": jnp.asarray(embedding[np.concatenate([keys, rows])])}
    if not isinstance(layer, AttentionLayer):
        changes["query_rows"] = jnp.arange(len(keys), len(keys) + len(rows))
    return replace(layer, n_keys=len(keys), **changes)


def _logits(layer: AnyLayer, keys: Int[Array, " n"], queries: Int[Array, " n"], grid: bool) -> Float[Array, "n values"]:
    return layer.tensor()[keys, queries] if grid else layer.logits(keys, queries)


@eqx.filter_jit
def _margins(
    layer: AnyLayer, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], grid: bool
) -> Float[Array, " n"]:
    return margins(_logits(layer, keys, queries, grid), fibers)


@eqx.filter_jit
def _leads(
    layer: AnyLayer, keys: Int[Array, " n"], queries: Int[Array, " n"], grid: bool
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """By how much the best value leads all others, and its probability."""
    logits = _logits(layer, keys, queries, grid)
    best = logits.argmax(axis=1)
    probability = jnp.exp(logits.max(axis=1) - jax.nn.logsumexp(logits, axis=1))
    return margins(logits, best[:, None]), probability
