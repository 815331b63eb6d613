r"""Decomposition of a layer's tensor into direct path, attention and circuits.

$$L[k,q,:] = \mathrm{direct}[q] + \sum_h \bigl( A^h[k,q,0]\, V^h[k] + A^h[k,q,1]\, V^h[q] \bigr)$$

The papers write E, A^h and V^h. One layer of a `PairTransformer` without norm and MLP decomposes in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from factrank.nn import GRID, AttentionKind, attention_scores, attention_weights


class LayerTensor(NamedTuple):
    """Direct path, attention and circuits; `total()` sums them. Row t of `circuits` is key t or query t - n_keys."""

    direct: Float[Array, "queries values"]
    attention: Float[Array, "heads keys queries 2"]
    circuits: Float[Array, "heads tokens values"]

    def total(self) -> Float[Array, "keys queries values"]:
        """Return L, the logits of every (key, query)."""
        return self.direct + self.by_head().sum(axis=0)

    def by_head(self) -> Float[Array, "heads keys queries values"]:
        """Return the contribution of each head to the logits of every (key, query)."""
        n_keys = self.attention.shape[1]
        from_key = self.attention[..., 0, None] * self.circuits[:, :n_keys, None]
        return from_key + self.attention[..., 1, None] * self.circuits[:, None, n_keys:]


class Heads(NamedTuple):
    """Head weights of an `AttentionLayer` or a transformer block."""

    w_q: Float[Array, "heads d_model d_qk"]
    w_k: Float[Array, "heads d_model d_qk"]
    w_v: Float[Array, "heads d_model d_vo"]
    w_o: Float[Array, "heads d_vo d_model"]


def decompose(
    key_tokens: Float[Array, "keys d_model"],
    query_tokens: Float[Array, "queries d_model"],
    heads: Heads,
    unembedding: Float[Array, "d_model values"],
    kind: AttentionKind = "softmax",
) -> LayerTensor:
    """Decompose the tensor of one attention layer between an embedding and an unembedding."""
    tokens = jnp.concatenate([key_tokens, query_tokens])
    scores = attention_scores(
        jnp.einsum("td,hde->the", query_tokens, heads.w_q),
        jnp.einsum("td,hde->the", key_tokens, heads.w_k),
        jnp.einsum("td,hde->the", query_tokens, heads.w_k),
        GRID,
    )
    attention = jnp.stack(attention_weights(scores, GRID, kind), axis=-1)
    # Two steps: einsum might otherwise form W_V W_O U first, and no certificate covers its rounding.
    values = jnp.einsum("td,hde->the", tokens, heads.w_v)
    circuits = jnp.einsum("the,hew->htw", values, heads.w_o @ unembedding)
    return LayerTensor(query_tokens @ unembedding, jnp.moveaxis(attention, 2, 0), circuits)
