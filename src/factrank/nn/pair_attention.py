r"""One attention head bundle over the context [k, q], read at q: the formula that all models here share.

$$A^h[k,q] = \sigma\bigl((x_q W_Q^h)\cdot(x_k W_K^h - x_q W_K^h)/\sqrt{d_{qk}}\bigr), \qquad
  \mathrm{out}[k,q] = \sum_h A^h[k,q]\, o^h[k] + (1 - A^h[k,q])\, o^h[q].$$

A softmax over two positions is one logistic function. What varies is which pairs (k, q) are wanted: one pair, every
pair, a list of facts. Einstein summation expresses that as index letters: a token table carries the letters of its
side, and the result those of the pair. So one formula serves all, and per-token work is done once per token, not once
per pair.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

AttentionKind = Literal["softmax", "linear", "affine"]
"""softmax; linear: the scores are the weights; affine: weights z and 1 - z with z the difference of the scores."""


class Pairing(NamedTuple):
    """The index letters of key tables, of query tables, and of what is computed per pair."""

    key: str
    query: str
    pair: str


ONE = Pairing("", "", "")
GRID = Pairing("k", "q", "kq")
FACTS = Pairing("n", "n", "n")


FEW_HEADS = 8
"""Up to so many heads a sum of products is faster than a matrix product, most of all on a GPU."""


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
    """(x_q W_Q).(x_k W_K) / sqrt(d_qk) for every pair, and (x_q W_Q).(x_q W_K) / sqrt(d_qk) for every query."""
    key, query, pair = pairing
    scaled = queries * (queries.shape[-1] ** -0.5)
    on_key = jnp.einsum(f"{query}he,{key}he->{pair}h", scaled, keys_at_key)
    return Scores(on_key, jnp.einsum(f"{query}he,{query}he->{query}h", scaled, keys_at_query))


def attention_weights(
    scores: Scores, pairing: Pairing, kind: AttentionKind = "softmax"
) -> tuple[Float[Array, "*pair heads"], Float[Array, "*pair heads"]]:
    """The weights on positions k and q."""
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
    """The stream of the query plus the sum over heads of (weight on k) at_key + (weight on q) at_query.

    Weights that add up to one need one product per head, weight (at_key - at_query) + at_query, and what depends on the
    query alone is added before pairs are formed. Few heads are summed as products, which fuse with what follows; many
    are a matrix product.
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
    """The table with an axis of length one for every letter of the pair that it lacks."""
    return jnp.expand_dims(table, [at for at, letter in enumerate(pair) if letter not in letters])
