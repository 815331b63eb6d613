"""Many layers and their facts as a few long arrays, and their results.

The tables are functional: a (key, query) pair has one value. Layer i is row i of the short arrays, and
entries starts[i] to starts[i + 1] of the long ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int, Int64

from factrank.families.attention.attention_layer import PARTS

ALL_PARTS = (1 << len(PARTS)) - 1
"""Mask of a layer all of whose parts are trained."""


@dataclass(frozen=True, eq=False)
class BulkLayers:
    """Layers to train, with plain Adam on all facts.

    `sizes` are n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo. Facts are sorted by (key, query). `trained`
    has a bit for each trained part, in the order of PARTS. Loss and recall are recorded before the epochs of `looks`
    and at the end.
    """

    sizes: Int64[np.ndarray, "layers 7"]
    fact_starts: Int64[np.ndarray, " ends"]
    keys: Int[np.ndarray, " facts"]
    queries: Int[np.ndarray, " facts"]
    values: Int[np.ndarray, " facts"]
    weight_starts: Int64[np.ndarray, " ends"]
    weights: Float32[np.ndarray, " weights"]
    epochs: Int64[np.ndarray, " layers"]
    learning_rates: Float[np.ndarray, " layers"]
    trained: Int64[np.ndarray, " layers"]
    looks: tuple[int, ...] = ()
    tau: float = 0.95

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_facts(self) -> Int64[np.ndarray, " layers"]:
        """Return the number of facts of each layer."""
        return np.diff(self.fact_starts)

    @property
    def scales(self) -> Float[np.ndarray, " layers"]:
        """Return the factors of the attention scores."""
        return np.asarray(1 / np.sqrt(self.sizes[:, 5]))


@dataclass(frozen=True, eq=False)
class BulkResults:
    """Results of each layer; curves have a column per evaluation, NaN or -1 if the run was shorter."""

    loss: Float[np.ndarray, " layers"]
    right: Int64[np.ndarray, " layers"]
    right_tau: Int64[np.ndarray, " layers"]
    margin: Float[np.ndarray, " layers"]
    curve_loss: Float[np.ndarray, "layers looks"]
    curve_right: Int64[np.ndarray, "layers looks"]
    weights: Float32[np.ndarray, " weights"]


def weight_counts(sizes: Int64[np.ndarray, "layers 7"]) -> Int64[np.ndarray, " layers"]:
    """Return the number of parameters of each layer."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes.T
    return np.asarray((n_keys + n_queries + n_values) * d_model + 2 * n_heads * d_model * (d_qk + d_vo))


def starts_of(counts: Any) -> Int64[np.ndarray, " ends"]:
    """Return the start of each of several concatenated lists, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def first_weights(
    sizes: Int64[np.ndarray, "layers 7"], seeds: Int[np.ndarray, " layers"]
) -> tuple[Int64[np.ndarray, " ends"], Float32[np.ndarray, " weights"]]:
    """Return the weights that `draw_layer` draws from each seed, concatenated, and the start of each layer."""
    starts = starts_of(weight_counts(sizes))
    weights = np.empty(starts[-1], dtype=np.float32)
    for place, (size, seed) in enumerate(zip(sizes.tolist(), seeds.tolist(), strict=True)):
        n_keys, n_queries, n_values, d_model, n_heads, _, d_vo = size
        drawn = np.random.default_rng(seed).standard_normal(starts[place + 1] - starts[place])
        first = (n_keys + n_queries) * d_model
        last, inner, output = len(drawn) - d_model * n_values, n_heads * d_model * d_vo, d_model**-0.5
        drawn[first : last - inner] *= output
        drawn[last - inner : last] *= (n_heads * d_vo) ** -0.5
        drawn[last:] *= output
        weights[starts[place] : starts[place + 1]] = drawn
    return starts, weights
