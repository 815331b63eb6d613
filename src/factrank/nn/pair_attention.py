r"""Multi-head attention over the context [k, q], read out at q; used by all attention models.

$$A^h[k,q] = \sigma\bigl((x_q W_Q^h)\cdot(x_k W_K^h - x_q W_K^h)/\sqrt{d_{qk}}\bigr), \qquad
  \mathrm{out}[k,q] = \sum_h A^h[k,q]\, o^h[k] + (1 - A^h[k,q])\, o^h[q].$$

A softmax over two positions is a logistic function. Models are evaluated on one pair (k, q), on every pair or on a list
of facts; index letters in `einsum` select which: token tables carry the letters of their side, results the letters of
the pair. One formula covers all cases, and per-token work is done once per token rather than once per pair.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

AttentionKind = Literal["softmax", "linear", "affine"]
"""Attention weights: softmax; linear, the scores themselves; affine, z and 1 - z with z the score difference."""


class Pairing(NamedTuple):
    """Index letters of key tables, query tables and per-pair results."""

    key: str
    query: str
    pair: str


ONE = Pairing("", "", "")
GRID = Pairing("k", "q", "kq")
FACTS = Pairing("n", "n", "n")


FEW_HEADS = 8
"""Up to this many heads a sum of products is faster than a matrix product, especially on a GPU."""


class Scores(NamedTuple):
    """Scores of position k (per pair) and of position q (per query), divided by sqrt(d_qk)."""

    on_key: Float[Array, "*pair heads"]
    on_query: Float[Array, "*query heads"]


def attention_scores(
    queries: Float[Array, "*query heads d_qk"],
    keys_at_key: Float[Array, "*key heads d_qk"],
    keys_at_query: Float[Array, "*query heads d_qk"],
    pairing: Pairing,
) -> Scores:
    """Return (x_q W_Q).(x_k W_K) / sqrt(d_qk) per pair, and (x_q W_Q).(x_q W_K) / sqrt(d_qk) per query."""
    key, query, pair = pairing
    scaled = queries * (queries.shape[-1] ** -0.5)
    on_key = jnp.einsum(f"{query}he,{key}he->{pair}h", scaled, keys_at_key)
    return Scores(on_key, jnp.einsum(f"{query}he,{query}he->{query}h", scaled, keys_at_query))


def attention_weights(
    scores: Scores, pairing: Pairing, kind: AttentionKind = "softmax"
) -> tuple[Float[Array, "*pair heads"], Float[Array, "*pair heads"]]:
    """Return the weights on positions k and q."""
    on_query = spread(scores.on_query, pairing.query, pairing.pair)
    if kind == "linear":
        return scores.on_key, jnp.broadcast_to(on_query, scores.on_key.shape)
    difference = scores.on_key - on_query
    weight = jax.nn.sigmoid(difference) if kind == "softmax" else difference
    return weight, 1 - weight


def attend(
    scores: Scores,
    at_key: Float[Array, "*key heads width"],
    at_query: Float[Array, "*query heads width"],
    stream: Float[Array, "*query width"],
    pairing: Pairing,
    kind: AttentionKind = "softmax",
) -> Float[Array, "*pair width"]:
    """Return the query's stream plus the sum over heads of (weight on k) at_key + (weight on q) at_query.

    Weights that sum to one need one product per head, weight (at_key - at_query) + at_query, and the terms that depend
    only on the query are added before pairs are formed. Few heads are summed as products, which XLA fuses with the
    operations that follow; many heads use a matrix product.
    """
    key, query, pair = pairing
    on_key, on_query = attention_weights(scores, pairing, kind)
    n_heads = on_key.shape[-1]
    if kind == "linear" or n_heads > FEW_HEADS:
        from_key = jnp.einsum(f"{pair}h,{key}hw->{pair}w", on_key, at_key)
        from_query = jnp.einsum(f"{pair}h,{query}hw->{pair}w", on_query, at_query)
        return spread(stream, query, pair) + from_key + from_query
    alike = spread(stream + at_query.sum(axis=-2), query, pair)
    if n_heads == 1:
        return alike + on_key * (spread(at_key[..., 0, :], key, pair) - spread(at_query[..., 0, :], query, pair))
    return alike + (on_key[..., None] * (spread(at_key, key, pair) - spread(at_query, query, pair))).sum(axis=-2)


def spread(table: Float[Array, "..."], letters: str, pair: str) -> Float[Array, "..."]:
    """Insert an axis of length one for every letter of the pair that the table does not have."""
    return jnp.expand_dims(table, [at for at, letter in enumerate(pair) if letter not in letters])
