"""Layers in bulk on the CPU: the compiled loop of trials, one layer after the other."""

from __future__ import annotations

import numpy as np

from factrank.families.attention.fused.bulk.bulk_layers import BulkLayers, BulkResults
from factrank.families.attention.fused.fused_run import ADAM, LOSS, RIGHT
from factrank.families.attention.fused.fused_threads import kernel


def train_on_threads(layers: BulkLayers) -> BulkResults:
    """Train the layers in this thread."""
    compiled, n_layers, n_looks = kernel(), len(layers), len(layers.looks)
    loss, margin = np.empty(n_layers), np.empty(n_layers)
    right, right_tau = np.empty(n_layers, dtype=np.int64), np.empty(n_layers, dtype=np.int64)
    curve_loss, curve_right = np.full((n_layers, n_looks), np.nan), np.full((n_layers, n_looks), -1)
    weights, taus = layers.weights.copy(), np.array([layers.tau])
    for place in range(n_layers):
        facts = slice(layers.fact_starts[place], layers.fact_starts[place + 1])
        n_facts = facts.stop - facts.start
        columns = (np.ascontiguousarray(part[facts], dtype=np.int64) for part in _facts(layers))
        fibers = np.arange(n_facts + 1), *columns
        size = tuple(layers.sizes[place].tolist())
        numbers = layers.scales[place], layers.learning_rates[place], 0.0, ADAM["b1"], ADAM["b2"], ADAM["eps"]
        own = weights[layers.weight_starts[place] : layers.weight_starts[place + 1]]
        n_epochs = int(layers.epochs[place])
        looks = np.array([look for look in layers.looks if look < n_epochs], dtype=np.int64)
        noted = np.zeros((len(looks) + 1, RIGHT + 2))
        trained = _trained_ranges(size, int(layers.trained[place]))
        state = own, np.zeros_like(own), np.zeros_like(own)
        compiled.run_epochs(state, fibers, size, (numbers, 0, taus), trained, (0, n_epochs), looks, noted)
        margins, probabilities = np.empty(n_facts), np.empty(n_facts)
        loss[place] = compiled.evaluate(own, fibers, size, numbers[0], margins, probabilities)
        right[place], right_tau[place] = (margins > 0).sum(), (probabilities >= layers.tau).sum()
        margin[place] = margins.min()
        curve_loss[place, : len(looks)] = noted[: len(looks), LOSS]
        curve_right[place, : len(looks)] = noted[: len(looks), RIGHT]
    return BulkResults(loss, right, right_tau, margin, curve_loss, curve_right, weights)


def _facts(layers: BulkLayers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return layers.keys, layers.queries, layers.values


def _trained_ranges(size: tuple[int, ...], mask: int) -> np.ndarray:
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = size
    inner = n_heads * d_model
    counts = (n_keys + n_queries) * d_model, inner * d_qk, inner * d_qk, inner * d_vo, inner * d_vo, d_model * n_values
    ends = np.concatenate([[0], np.cumsum(counts)])
    ranges = [(ends[part], ends[part + 1]) for part in range(len(counts)) if mask >> part & 1]
    return np.array(ranges, dtype=np.int64).reshape(-1, 2)
