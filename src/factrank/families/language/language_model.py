r"""LanguageModel: a small pre-norm decoder with independent query-key and value-output widths (`LanguageShape`).

Weights of all layers are stacked, so a part such as `w_q` is one array and can be frozen by one name. Rotary positions
rotate the pairs (i, i + d_qk / 2) by $t\, b^{-2i/d_{qk}}$ at position t, as Llama does. The model computes in the type
of its weights; norms, scores and softmax are in float32 even if the weights are bfloat16.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.language.language_shape import LanguageShape
from factrank.families.language.vocabulary_loss import embedded
from factrank.nn import AnyArray, RandomKey, ShownModel, draw, generator_of, on_device

NORM_EPSILON = 1e-6
"""Added to the mean square in RMSNorm."""

Removed = Collection[tuple[str, int]]
"""Parts whose output is left out: ("attention", layer) or ("mlp", layer)."""


class LanguageModel(ShownModel, eqx.Module):
    """Weights of a decoder; parts that its shape does not have are None."""

    embedding: Float[AnyArray, "tokens d_model"]
    positions: Float[AnyArray, "context d_model"] | None
    attention_norm: Float[AnyArray, "layers d_model"]
    w_q: Float[AnyArray, "layers heads d_model d_qk"]
    w_k: Float[AnyArray, "layers heads d_model d_qk"]
    w_v: Float[AnyArray, "layers heads d_model d_vo"]
    w_o: Float[AnyArray, "layers heads d_vo d_model"]
    mlp_norm: Float[AnyArray, "layers d_model"] | None
    w_gate: Float[AnyArray, "layers d_model width"] | None
    w_up: Float[AnyArray, "layers d_model width"] | None
    w_down: Float[AnyArray, "layers width d_model"] | None
    final_norm: Float[AnyArray, " d_model"]
    unembedding: Float[AnyArray, "tokens d_model"] | None
    shape: LanguageShape = eqx.field(static=True)

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return self.embedding.shape[0]

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return sum(int(leaf.size) for leaf in jax.tree.leaves(self))

    @property
    def outputs(self) -> Float[AnyArray, "tokens d_model"]:
        """Vectors with which the last state is multiplied: the unembedding, or the embedding if it is tied."""
        return self.embedding if self.unembedding is None else self.unembedding

    def scaled_scores(self, scale: Float[Array, ""] | float) -> LanguageModel:
        """Return a model whose attention scores are multiplied by `scale`, by scaling W_Q."""
        scaled: LanguageModel = eqx.tree_at(lambda model: model.w_q, self, (self.w_q * scale).astype(self.w_q.dtype))
        return scaled

    def states(self, tokens: Int[Array, "batch length"], removed: Removed = ()) -> Float[Array, "batch length d_model"]:
        """Return the normalised last states, whose products with `outputs` are the logits of the next token."""
        stream = embedded(self.embedding, tokens.reshape(-1)).reshape(*tokens.shape, self.shape.d_model)
        if self.positions is not None:
            stream = stream + self.positions[: tokens.shape[1]]
        for layer in range(self.shape.n_layers):
            if ("attention", layer) not in removed:
                stream = stream + self._attention(layer, rms_norm(stream, self.attention_norm[layer]))
            if self.mlp_norm is not None and ("mlp", layer) not in removed:
                stream = stream + self._mlp(layer, rms_norm(stream, self.mlp_norm[layer]))
        return rms_norm(stream, self.final_norm)

    def logits(self, tokens: Int[Array, "batch length"]) -> Float[Array, "batch length tokens"]:
        """Return the logits of the token after each token, in at least float32."""
        wide = jnp.promote_types(self.embedding.dtype, jnp.float32)
        return jnp.einsum("btd,vd->btv", self.states(tokens), self.outputs, preferred_element_type=wide)

    def __call__(self, tokens: Int[AnyArray, " length"]) -> Float[Array, "length tokens"]:
        """Return the logits of one sequence, at full matrix-product precision."""
        with jax.default_matmul_precision("highest"):
            return on_device(self).logits(jnp.asarray(tokens)[None])[0]

    def _attention(self, layer: int, states: Float[Array, "batch length d"]) -> Float[Array, "batch length d"]:
        """Return what the heads of a layer add: causal softmax attention."""
        queries, keys, values = (
            jnp.einsum("btd,hde->bhte", states, weights[layer]) for weights in (self.w_q, self.w_k, self.w_v)
        )
        if self.shape.positions == "rope":
            queries, keys = (rotated(part, self.shape.rope_base) for part in (queries, keys))
        wide, length = jnp.promote_types(states.dtype, jnp.float32), states.shape[1]
        scores = jnp.einsum("bhqe,bhke->bhqk", queries, keys, preferred_element_type=wide) * self.shape.d_qk**-0.5
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1).astype(states.dtype)
        pooled = jnp.einsum("bhqk,bhke->bhqe", weights, values)
        return jnp.einsum("bhqe,hed->bqd", pooled, self.w_o[layer])

    def _mlp(self, layer: int, states: Float[Array, "batch length d"]) -> Float[Array, "batch length d"]:
        """Return what the MLP of a layer adds."""
        assert self.w_gate is not None  # noqa: S101 - for mypy: an MLP has all of its parts
        assert self.w_up is not None  # noqa: S101
        assert self.w_down is not None  # noqa: S101
        gates = jax.nn.silu(states @ self.w_gate[layer])
        return (gates * (states @ self.w_up[layer])) @ self.w_down[layer]


def rms_norm(states: Float[Array, "*batch d"], gain: Float[Array, " d"]) -> Float[Array, "*batch d"]:
    """Return gain * states / sqrt(mean square + epsilon), in the type of the states."""
    wide = states.astype(jnp.promote_types(states.dtype, jnp.float32))
    size = jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return gain * (wide * size).astype(states.dtype)


def rotated(vectors: Float[Array, "*batch length width"], base: float) -> Float[Array, "*batch length width"]:
    """Return the vectors at positions 0, 1, ... with their pairs (i, i + width / 2) rotated."""
    length, width = vectors.shape[-2:]
    angles = np.arange(length)[:, None] * base ** (-2 * np.arange(width // 2) / width)
    wide = jnp.promote_types(vectors.dtype, jnp.float32)
    cosine, sine = jnp.asarray(np.cos(angles), wide), jnp.asarray(np.sin(angles), wide)
    first, second = jnp.split(vectors.astype(wide), 2, axis=-1)
    turned = jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return turned.astype(vectors.dtype)


# -------------------------------------------------------------------- random weights


def init_language_model(
    shape: LanguageShape, n_tokens: int, *, key: RandomKey, dtype: str = "float32"
) -> LanguageModel:
    """Initialise a model: gains are 1, weights are normal.

    Variances are 1/d_model for embeddings, positions, unembeddings, W_Q, W_K, W_V, W_gate and W_up; 1/(2 L H d_vo) for
    W_O and 1/(2 L width) for W_down, because 2 L of them are added to one residual stream.
    """
    return on_device(draw_language_model(shape, n_tokens, rng=generator_of(key), dtype=dtype))


def draw_language_model(
    shape: LanguageShape, n_tokens: int, *, rng: np.random.Generator, dtype: str = "float32"
) -> LanguageModel:
    """Initialise a model like `init_language_model`, with the weights on the host."""
    added = 2 * shape.n_layers
    fan_in = {"w_o": added * shape.n_heads * shape.d_vo, "w_down": added * shape.mlp_width}
    parts: dict[str, Any] = {
        name: np.ones(size, dtype) if name.endswith("norm") else draw(rng, size, fan_in.get(name, shape.d_model), dtype)
        for name, size in shape.part_sizes(n_tokens).items()
    }
    return language_model_of(shape, parts)


def language_model_of(shape: LanguageShape, parts: Mapping[str, Any]) -> LanguageModel:
    """Build a model from its named parts."""
    optional = "positions", "mlp_norm", "w_gate", "w_up", "w_down", "unembedding"
    return LanguageModel(**{**dict.fromkeys(optional), **parts}, shape=shape)
