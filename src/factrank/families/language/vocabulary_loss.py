r"""Cross-entropies over a vocabulary, computed in chunks: the logits of a batch are never in memory all at once.

With last states h_i, output vectors u_v and targets t_i, the loss is
$\sum_i w_i (\log \sum_v e^{h_i u_v} - h_i u_{t_i})$. Its gradients are products of $G_{iv} = w_i (p_{iv} - [v = t_i])$:
$\partial h = G U$ and $\partial U = G^T h$. They are computed together with the loss, chunk by chunk, so the backward
pass neither keeps nor recomputes a logit.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

CHUNK_LOGITS = 2**20
"""Largest number of logits of one model that are in memory at a time."""


@jax.custom_vjp
def total_cross_entropy(
    states: Float[Array, "n d"], outputs: Float[Array, "v d"], targets: Int[Array, " n"], weights: Float[Array, " n"]
) -> Float[Array, ""]:
    """Return the weighted sum of cross-entropies in nats, in at least float32; weights and targets have no gradient."""
    rows = _chunks(states, targets, weights, len(outputs))

    def of_chunk(chunk: tuple[Array, Array, Array]) -> Float[Array, ""]:
        own, wanted, counted = chunk
        _, log_sums, at_target = _logits(own, outputs, wanted)
        return (counted * (log_sums - at_target)).sum()

    total: Float[Array, ""] = jax.lax.map(of_chunk, rows).sum()
    return total


Residuals = tuple[Float[Array, "n d"], Float[Array, "v d"]]


def _forward(
    states: Float[Array, "n d"], outputs: Float[Array, "v d"], targets: Int[Array, " n"], weights: Float[Array, " n"]
) -> tuple[Float[Array, ""], Residuals]:
    """Return the loss and its gradients."""
    wide = jnp.promote_types(states.dtype, jnp.float32)

    def of_chunk(
        sums: tuple[Float[Array, ""], Float[Array, "v d"]], chunk: tuple[Array, Array, Array]
    ) -> tuple[tuple[Float[Array, ""], Float[Array, "v d"]], Float[Array, "rows d"]]:
        own, wanted, counted = chunk
        logits, log_sums, at_target = _logits(own, outputs, wanted)
        right = jnp.arange(len(outputs)) == wanted[:, None]
        slopes = (counted[:, None] * (jnp.exp(logits - log_sums[:, None]) - right)).astype(states.dtype)
        of_outputs = jnp.einsum("nv,nd->vd", slopes, own, preferred_element_type=wide)
        return (sums[0] + (counted * (log_sums - at_target)).sum(), sums[1] + of_outputs), slopes @ outputs

    start = jnp.zeros((), wide), jnp.zeros(outputs.shape, wide)
    (loss, of_outputs), of_states = jax.lax.scan(of_chunk, start, _chunks(states, targets, weights, len(outputs)))
    return loss, (of_states.reshape(-1, states.shape[1])[: len(states)], of_outputs)


def _backward(kept: Residuals, slope: Float[Array, ""]) -> tuple[Array, Array, None, None]:
    of_states, of_outputs = kept
    narrow = of_states.dtype
    return (slope * of_states).astype(narrow), (slope * of_outputs).astype(narrow), None, None


total_cross_entropy.defvjp(_forward, _backward)


@jax.custom_vjp
def embedded(embedding: Float[Array, "v d"], tokens: Int[Array, " n"]) -> Float[Array, "n d"]:
    """Return the rows of these tokens.

    The gradient of a row is the sum over the places of its token. It is computed as a product with a 0/1 matrix, also
    in chunks: a scatter would add in an order that changes from run to run on a GPU.
    """
    return embedding[tokens]


def _look_up(
    embedding: Float[Array, "v d"], tokens: Int[Array, " n"]
) -> tuple[Float[Array, "n d"], tuple[Float[Array, "v 0"], Int[Array, " n"]]]:
    return embedding[tokens], (embedding[:, :0], tokens)


def _spread(kept: tuple[Float[Array, "v 0"], Int[Array, " n"]], slopes: Float[Array, "n d"]) -> tuple[Array, None]:
    like, tokens = kept
    wide = jnp.promote_types(slopes.dtype, jnp.float32)

    def of_chunk(total: Float[Array, "v d"], chunk: tuple[Array, Array, Array]) -> tuple[Float[Array, "v d"], None]:
        own, at, counted = chunk
        where = ((jnp.arange(len(like)) == at[:, None]) & (counted[:, None] > 0)).astype(own.dtype)
        return total + jnp.einsum("nv,nd->vd", where, own, preferred_element_type=wide), None

    rows = _chunks(slopes, tokens, jnp.ones(len(tokens)), len(like))
    total, _ = jax.lax.scan(of_chunk, jnp.zeros((len(like), slopes.shape[1]), wide), rows)
    return total.astype(slopes.dtype), None


embedded.defvjp(_look_up, _spread)


class NextTokens(NamedTuple):
    """How a model predicts each of several tokens."""

    losses: Float[Array, " n"]
    right: Bool[Array, " n"]
    margins: Float[Array, " n"]


def next_tokens(states: Float[Array, "n d"], outputs: Float[Array, "v d"], targets: Int[Array, " n"]) -> NextTokens:
    """Return the cross-entropy of each target in nats, whether its logit is the largest, and by how much."""

    def of_chunk(chunk: tuple[Array, Array, Array]) -> NextTokens:
        own, wanted, _ = chunk
        logits, log_sums, at_target = _logits(own, outputs, wanted)
        others = jnp.where(jnp.arange(len(outputs)) == wanted[:, None], -jnp.inf, logits).max(axis=1)
        return NextTokens(log_sums - at_target, at_target > others, at_target - others)

    asked = jax.lax.map(of_chunk, _chunks(states, targets, jnp.zeros(len(states)), len(outputs)))
    return NextTokens(*(part.reshape(-1)[: len(states)] for part in asked))


def _logits(
    states: Float[Array, "rows d"], outputs: Float[Array, "v d"], targets: Int[Array, " rows"]
) -> tuple[Float[Array, "rows v"], Float[Array, " rows"], Float[Array, " rows"]]:
    """Return logits, the logarithms of their exponential sums, and the logits of the targets."""
    wide = jnp.promote_types(states.dtype, jnp.float32)
    logits = jnp.einsum("nd,vd->nv", states, outputs, preferred_element_type=wide)
    at_target = jnp.where(jnp.arange(len(outputs)) == targets[:, None], logits, 0).sum(axis=1)
    return logits, jax.nn.logsumexp(logits, axis=1), at_target


def _chunks(
    states: Float[Array, "n d"], targets: Int[Array, " n"], weights: Float[Array, " n"], n_tokens: int
) -> tuple[Array, Array, Array]:
    """Split the rows into equal chunks, padded with rows of weight 0."""
    n_rows = len(states)
    n_chunks = -(-n_rows * n_tokens // CHUNK_LOGITS)
    size = -(-n_rows // n_chunks)
    short = n_chunks * size - n_rows
    return (
        jnp.pad(states, ((0, short), (0, 0))).reshape(n_chunks, size, -1),
        jnp.pad(targets, (0, short)).reshape(n_chunks, size),
        jnp.pad(weights, (0, short)).reshape(n_chunks, size),
    )
