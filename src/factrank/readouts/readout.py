r"""The 0/1 tensor that a model predicts over all (key, query) pairs under softmax>=tau, and logits of some pairs.

The tensor has every value with probability at least tau, and therefore at most $1/\tau$ values per fiber. For
$\tau > 1/2$ this is the readout of Wong 2025 (arXiv 2502.05076, section 3); smaller $\tau$ is allowed because m values
of a fiber cannot all exceed 1/m.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.errors import InputError
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_pairs
from factrank.tensors.core import ZeroOneTensor


def threshold_tensor(layer: ReadsFacts, tau: float) -> ZeroOneTensor:
    """Return the 0/1 tensor of all (key, query, value) with probability at least tau."""
    require_threshold(tau)
    most = min(int(1 / tau) + 1, layer.n_values)
    at, found = pairs(layer), [np.empty((0, 3), dtype=np.int64)]
    n_pairs = layer.n_keys * layer.n_queries
    for rows, (values, scores) in in_blocks(_most_probable, layer, n_pairs, at, cells_per_pair(layer), most):
        row, place = np.nonzero(scores.astype(np.float64) >= tau)
        keys, queries = at(row + rows.start)
        found.append(np.column_stack([keys, queries, values[row, place]]).astype(np.int64))
    return ZeroOneTensor(np.concatenate(found), (layer.n_keys, layer.n_queries, layer.n_values))


def logits_at(
    layer: ReadsFacts, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n values"]:
    """Return the logits of the given (key, query) pairs."""
    return _rows(layer, logits_of, keys, queries)


def softmax_at(
    layer: ReadsFacts, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n values"]:
    """Return the probabilities of all values at the given (key, query) pairs."""
    return _rows(layer, _softmax, keys, queries)


def require_threshold(tau: float) -> None:
    """Raise `InputError` unless 0 < tau < 1."""
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau must be between 0 and 1, such as 0.95; got {tau!r}")


def _most_probable(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], most: int
) -> tuple[Int[Array, "n most"], Float[Array, "n most"]]:
    logits = layer.logits(keys, queries)
    largest, values = jax.lax.top_k(logits, most)
    return values, jnp.exp(largest - jax.nn.logsumexp(logits, axis=1)[:, None])


def _rows(
    layer: ReadsFacts,
    compute: Callable[..., tuple[Array, ...]],
    keys: Int[np.ndarray, " n"],
    queries: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "n values"]:
    require_pairs(layer, keys, queries)
    blocks = in_blocks(compute, layer, len(keys), lambda rows: (keys[rows], queries[rows]), cells_per_pair(layer))
    return np.concatenate([np.empty((0, layer.n_values)), *(block.astype(np.float64) for _, (block,) in blocks)])


def logits_of(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, "n values"]]:
    """Return the logits of a block of pairs, for `in_blocks`."""
    return (layer.logits(keys, queries),)


def _softmax(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, "n values"]]:
    return (jax.nn.softmax(layer.logits(keys, queries), axis=1),)
