"""Evaluate the layer's own forward pass on every fact, in its own precision, one block of pairs at a time.

Each block uses a layer with the embedding rows of its keys and queries only, so the work grows with the number of facts
rather than blocks times tokens. A block is a list of pairs or, if that is much less work (many heads and a dense
table), all pairs of some keys and some queries; then the output of heads is unembedded once per token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.certificates import RowBlock
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.nn import on_device
from factrank.readouts import BLOCK_CELLS, cells_per_pair, margins

CONFIDENT = 0.95
"""Probability above which the answer to a missing entry is a hallucination."""

MOST_SILENT_CELLS = 2**31
"""Most numbers to compute for missing entries: about ten seconds."""

GRID_CELLS = 2**25
"""Size of the largest array if all pairs of some keys and queries are evaluated."""

GRID_GAIN = 4
"""Factor by which a grid must reduce the work per pair."""


class Pairs(NamedTuple):
    """Some (key, query) pairs, key by key, evaluated in lists or as rectangles of size `grid`."""

    layer: AnyLayer
    keys: Int[np.ndarray, " pairs"]
    queries: Int[np.ndarray, " pairs"]
    grid: tuple[int, int] | None

    @classmethod
    def of(cls, layer: AnyLayer, numbers: Int[np.ndarray, " pairs"]) -> Pairs:
        """Return the pairs with these numbers, counted key by key."""
        keys, queries = np.divmod(numbers, layer.n_queries)
        return cls(layer, keys, queries, _grid(layer, keys, queries) if len(keys) else None)

    def blocks(self, more_cells: int = 0) -> Iterator[RowBlock]:
        """Yield all pairs in blocks, padded to powers of two to limit the number of compiled shapes."""
        rows_of = _lists(self.layer, len(self.keys), more_cells)
        if self.grid is not None:
            rows_of = _rectangles(self.keys, self.queries, self.grid)
        for rows in rows_of:
            yield RowBlock(rows, _filled(rows))


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """The layer's own forward pass on blocks of pairs; created and used inside `evaluation`."""

    layer: AnyLayer

    @cached_property
    def _whole(self) -> AnyLayer:
        return on_device(self.layer)

    @cached_property
    def _embedding(self) -> Float[np.ndarray, "tokens d_model"]:
        return np.asarray(self.layer.embedding)

    def margins(self, pairs: Pairs, block: RowBlock, fibers: Int[np.ndarray, "facts m"]) -> Float[np.ndarray, " rows"]:
        """Return the margins of the fibers of a block."""
        part, codes = self._block(pairs, block)
        found = _margins(part, *codes, jnp.asarray(fibers[block.padded]), pairs.grid is not None)
        return np.asarray(found)[: len(block.rows)].astype(np.float64)

    def probabilities(
        self, pairs: Pairs, block: RowBlock, fibers: Int[np.ndarray, "facts m"]
    ) -> Float[np.ndarray, " rows"]:
        """Return the probability of the values of each fiber of a block together."""
        part, codes = self._block(pairs, block)
        found = _probabilities(part, *codes, jnp.asarray(fibers[block.padded]), pairs.grid is not None)
        return np.asarray(found)[: len(block.rows)].astype(np.float64)

    def largest_probabilities(self, pairs: Pairs, block: RowBlock, most: int) -> Float[np.ndarray, " rows"]:
        """Return the probability of the `most` best values of each pair of a block together."""
        part, codes = self._block(pairs, block)
        found = _largest(part, *codes, most, pairs.grid is not None)
        return np.asarray(found)[: len(block.rows)].astype(np.float64)

    def silent_answers(self, pairs: Pairs, reserved: int | None = None) -> tuple[int, int]:
        """Count the pairs without a fact that have a unique best value, and those with a confident one.

        The reserved value answers that there is no fact: it is neither.
        """
        answered = hallucinations = 0
        for block in pairs.blocks():
            part, codes = self._block(pairs, block)
            found = _leads(part, *codes, pairs.grid is not None)
            leads, probabilities, best = (np.asarray(each)[: len(block.rows)] for each in found)
            counts = np.ones(len(best), dtype=bool) if reserved is None else best != reserved
            answered += int((counts & (leads > 0)).sum())
            hallucinations += int((counts & (probabilities.astype(np.float64) >= CONFIDENT)).sum())
        return answered, hallucinations

    def _block(self, pairs: Pairs, block: RowBlock) -> tuple[AnyLayer, tuple[Array, Array]]:
        """Return the layer of a block, and its pairs in the codes of that layer."""
        used_keys, key_at = np.unique(pairs.keys[block.padded], return_inverse=True)
        used_queries, query_at = np.unique(pairs.queries[block.padded], return_inverse=True)
        part = _with_tokens(self._whole, self._embedding, _filled(used_keys), _filled(used_queries))
        return part, (jnp.asarray(key_at, jnp.int32), jnp.asarray(query_at, jnp.int32))


def too_many_silent(layer: AnyLayer, n_silent: int) -> bool:
    """Return whether evaluating this many pairs without a fact would take too long."""
    return n_silent * cells_per_pair(layer) > MOST_SILENT_CELLS


def _grid(
    layer: AnyLayer, keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"]
) -> tuple[int, int] | None:
    """Return the number of keys and queries in a rectangle of pairs; None if lists of pairs are about as cheap."""
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
    height = max(BLOCK_CELLS // (cells_per_pair(layer) + more_cells), 1)
    height = 1 << height.bit_length() - 1
    for start in range(0, n_pairs, height):
        yield np.arange(start, min(start + height, n_pairs))


def _rectangles(
    keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"], size: tuple[int, int]
) -> Iterator[Int[np.ndarray, " rows"]]:
    """Yield the rows of the pairs of some keys and some queries at a time; keys are sorted."""
    starts = np.unique(keys)[:: size[0]]
    for rows in np.split(np.arange(len(keys)), np.searchsorted(keys, starts[1:])):
        for first in range(0, int(queries.max()) + 1, size[1]):
            chosen = rows[(queries[rows] >= first) & (queries[rows] < first + size[1])]
            if len(chosen):
                yield chosen


def _filled(rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """Pad the rows to the next power of two by repeating the last one."""
    length = 1 << max(len(rows) - 1, 0).bit_length()
    return np.concatenate([rows, np.full(length - len(rows), rows[-1])])


def _with_tokens(
    layer: AnyLayer,
    embedding: Float[np.ndarray, "tokens d_model"],
    keys: Int[np.ndarray, " keys"],
    queries: Int[np.ndarray, " queries"],
) -> AnyLayer:
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
) -> tuple[Float[Array, " n"], Float[Array, " n"], Int[Array, " n"]]:
    logits = _logits(layer, keys, queries, grid)
    best = logits.argmax(axis=1)
    probability = jnp.exp(logits.max(axis=1) - jax.nn.logsumexp(logits, axis=1))
    return margins(logits, best[:, None]), probability, best


@eqx.filter_jit
def _probabilities(
    layer: AnyLayer, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], grid: bool
) -> Float[Array, " n"]:
    found = _softmax(_logits(layer, keys, queries, grid))
    belongs = (fibers[:, :, None] == jnp.arange(found.shape[1])).any(axis=1)
    return jnp.where(belongs, found, 0).sum(axis=1)


@eqx.filter_jit
def _largest(
    layer: AnyLayer, keys: Int[Array, " n"], queries: Int[Array, " n"], most: int, grid: bool
) -> Float[Array, " n"]:
    return jax.lax.top_k(_softmax(_logits(layer, keys, queries, grid)), most)[0].sum(axis=1)


def _softmax(logits: Float[Array, "n values"]) -> Float[Array, "n values"]:
    return jax.nn.softmax(logits.astype(jnp.promote_types(logits.dtype, jnp.float32)), axis=1)
