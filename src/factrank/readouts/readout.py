r"""Readouts: the 0/1 tensor that a model predicts over all (key, query) pairs, and that tensor's rank.

argmax: one value per fiber, none where two tie. softmax>=tau: every value of probability at least tau. For
$\tau > 1/2$ that is at most one value per fiber, the readout of Wong 2025 (arXiv 2502.05076, section 3); every $\tau$
in (0, 1) is allowed, because a fiber with m values can only reach 1/m each; at most $1/\tau$ values then come out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.errors import InputError
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_pairs
from factrank.readouts.fiber_margins import margins
from factrank.tensors.bounds import Ledger, RankBounds, rank_bounds
from factrank.tensors.bounds.lower import flattening_ranks
from factrank.tensors.core import AXES, Core, ZeroOneTensor

DEFAULT_BUDGET = 1.0


def argmax_tensor(layer: ReadsFacts) -> ZeroOneTensor:
    """The 0/1 tensor of the value with the strictly largest logit at every (key, query)."""
    return _predicted(layer, _winner, 1, lambda margin: margin > 0)


def threshold_tensor(layer: ReadsFacts, tau: float) -> ZeroOneTensor:
    """The 0/1 tensor of all (key, query, value) with probability at least tau."""
    require_threshold(tau)
    most = min(int(1 / tau) + 1, layer.n_values)
    return _predicted(layer, _most_probable, most, lambda probability: probability.astype(np.float64) >= tau)


def logits_at(
    layer: ReadsFacts, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n values"]:
    """The logits of some (key, query) pairs."""
    return _rows(layer, _logits, keys, queries)


def softmax_at(
    layer: ReadsFacts, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n values"]:
    """The probabilities of all values at some (key, query) pairs."""
    return _rows(layer, _softmax, keys, queries)


def require_threshold(tau: float) -> None:
    """An `InputError` unless tau lies strictly between 0 and 1."""
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau must lie between 0 and 1, such as 0.95; got {tau!r}")


# -------------------------------------------------------------------- its rank


@dataclass(frozen=True, eq=False)
class ReadoutRanks:
    """What is known of the rank of a predicted 0/1 tensor.

    Arguments:
        flattenings: the ranks of the key, query and value flattening (modular where large: then from below).
        bounds: certified bracket of the tensor rank.
    """

    flattenings: tuple[int, int, int]
    bounds: RankBounds

    @property
    def largest_flattening(self) -> int:
        """The largest of the three: a certified lower bound."""
        return max(self.flattenings)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"flattenings": list(self.flattenings), **self.bounds.to_dict()}


def readout_ranks(tensor: ZeroOneTensor, budget: float = DEFAULT_BUDGET) -> ReadoutRanks:
    """The flattening ranks and the certified bracket of the rank of a 0/1 tensor, within some seconds.

    >>> corners = ZeroOneTensor(np.array([[0, 0, 0], [1, 1, 1]]), (2, 2, 2))
    >>> readout_ranks(corners).largest_flattening, readout_ranks(corners).bounds.bracket
    (2, '2')
    """
    core = Core.of(tensor)
    key, query, value = (int(flattening_ranks(core, axis)[0].sum()) for axis in AXES)
    return ReadoutRanks((key, query, value), rank_bounds(core, Ledger(float(budget), lambda _: None)))


# -------------------------------------------------------------------- blocks of pairs

Chooser = Callable[[Float[np.ndarray, "*block"]], np.ndarray]


def _predicted(
    layer: ReadsFacts, compute: Callable[..., tuple[Array, ...]], most: int, chosen: Chooser
) -> ZeroOneTensor:
    """The tensor of the values that `compute` proposes, `most` per pair, and whose score is `chosen`."""
    at, found = pairs(layer), [np.empty((0, 3), dtype=np.int64)]
    n_pairs = layer.n_keys * layer.n_queries
    for rows, (values, scores) in in_blocks(compute, layer, n_pairs, at, cells_per_pair(layer), most):
        row, place = np.nonzero(chosen(scores))
        keys, queries = at(row + rows.start)
        found.append(np.column_stack([keys, queries, values[row, place]]).astype(np.int64))
    return ZeroOneTensor(np.concatenate(found), (layer.n_keys, layer.n_queries, layer.n_values))


def _winner(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _most: int
) -> tuple[Int[Array, "n 1"], Float[Array, "n 1"]]:
    logits = layer.logits(keys, queries)
    best = logits.argmax(axis=1)[:, None]
    return best, margins(logits, best)[:, None]


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


def _logits(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, "n values"]]:
    return (layer.logits(keys, queries),)


def _softmax(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, "n values"]]:
    return (jax.nn.softmax(layer.logits(keys, queries), axis=1),)
