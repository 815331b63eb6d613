r"""Memoriser: one attention layer that reads a query vector and its context (Mahdavi, Liao and Thrampoulidis 2024).

arXiv 2306.02010. Let e be the query, $E_1 \dots E_n$ the context, $p_0 \dots p_n$ sinusoidal positions, and s either
d_model or d_qk. Then

$$x_0 = e W_e + b + p_0, \quad x_j = E_j W_e + b + p_j, \quad
  \alpha^h = \mathrm{softmax}_{j \ge 1}\bigl( x_0 W_Q^h (x_j W_K^h)^T / \sqrt{s} \bigr), \quad
  \mathrm{outputs} = \Bigl( \sum_{h,j} \alpha^h_j\, x_j W_V^h W_O^h \Bigr) D + c.$$

The authors compute attention at every position and use the first one. We compute only the query's row, and multiply the
weights with each other first, so the context never has to be embedded:

$$x_0 W_Q^h (x_j W_K^h)^T = \bigl( x_0\, W_Q^h (W_e W_K^h)^T \bigr) \cdot E_j + x_0\, W_Q^h ((b + p_j) W_K^h)^T, \qquad
  x_j W_V^h = E_j\, W_e W_V^h + (b + p_j) W_V^h.$$

When all queries share one context, it is embedded once, and the scores of a batch are a single product with a table.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.nn import AnyArray, RandomKey, ShownModel, generator_of, on_device

WAVELENGTH = 10_000.0
"""Wavelength of the slowest position, in units of 2 pi."""


class Memoriser(ShownModel, eqx.Module):
    """Weights of a memoriser; without an embedding, `embedding` and `embedding_bias` are None.

    Calling the model computes in the precision of its weights. The methods `attention`, `outputs` and `read` are meant
    to be compiled; with float64 weights they compute in float64 only inside `with jax.enable_x64(True):`, otherwise in
    float32.
    """

    embedding: Float[AnyArray, "d_input d_model"] | None
    embedding_bias: Float[AnyArray, " d_model"] | None
    w_q: Float[AnyArray, "heads d_model d_qk"]
    w_k: Float[AnyArray, "heads d_model d_qk"]
    w_v: Float[AnyArray, "heads d_model d_vo"]
    w_o: Float[AnyArray, "heads d_vo d_model"]
    decoder: Float[AnyArray, "d_model outputs"]
    decoder_bias: Float[AnyArray, " outputs"]
    shape: MemoriserShape = eqx.field(static=True)

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return sum(int(leaf.size) for leaf in jax.tree.leaves(self))

    @property
    def d_input(self) -> int:
        """Dimension of the input vectors."""
        return self.shape.d_model if self.embedding is None else self.embedding.shape[0]

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for a real label."""
        return self.decoder.shape[1]

    def scaled_scores(self, scale: Float[Array, ""] | float) -> Memoriser:
        """Return a model whose attention scores are multiplied by `scale`, by scaling W_Q."""
        w_q = (self.w_q * scale).astype(self.w_q.dtype)
        scaled: Memoriser = eqx.tree_at(lambda model: model.w_q, self, w_q)
        return scaled

    def attention(
        self, queries: Float[Array, "batch d_input"], contexts: Float[Array, "*own context d_input"]
    ) -> Float[Array, "batch heads context"]:
        """Return the attention weights of the queries on the tokens of their contexts, or of a shared context."""
        return self.read(queries, contexts)[0]

    def outputs(
        self,
        queries: Float[Array, "batch d_input"],
        contexts: Float[Array, "*own context d_input"],
        n_tokens: Int[Array, ""] | None = None,
    ) -> Float[Array, "batch outputs"]:
        """Return class logits or the predicted label; contexts are [batch, n, d_input], or [n, d_input] if shared."""
        return self.read(queries, contexts, n_tokens)[1]

    def read(
        self,
        queries: Float[Array, "batch d_input"],
        contexts: Float[Array, "*own context d_input"],
        n_tokens: Int[Array, ""] | None = None,
    ) -> tuple[Float[Array, "batch heads context"], Float[Array, "batch outputs"]]:
        """Return attention weights and outputs, computed in the dtype of the weights.

        If `n_tokens` is given, only the first `n_tokens` tokens of each context are attended to.
        """
        real = self.w_q.dtype
        queries, contexts = queries.astype(real), contexts.astype(real)
        embedding = jnp.eye(self.d_input, dtype=real) if self.embedding is None else self.embedding
        places = self._places(contexts.shape[-2])
        asking = queries @ embedding + places[0]
        if contexts.ndim == 2:
            rows = contexts @ embedding + places[1:]
            weights = _softmax(self._scores(asking, rows), n_tokens)
            pooled = jnp.einsum("bhn,nhe->bhe", weights, self._values(rows))
        else:
            asked, at_places = self._scores(asking, embedding), self._scores(asking, places[1:])
            values = self._values(embedding), self._values(places[1:])
            weights, pooled = pooled_values(asked, at_places, contexts, *values, n_tokens)
        return weights, self._decoded(pooled)

    def __call__(
        self, query: Float[AnyArray, " d_input"], context: Float[AnyArray, "context d_input"]
    ) -> Float[Array, " outputs"]:
        """Return the outputs of one example, in the precision of the weights and at full matrix-product precision."""
        placed = on_device(self)
        wide = jax.enable_x64(True) if placed.w_q.dtype == jnp.float64 else nullcontext()
        with wide, jax.default_matmul_precision("highest"):
            return placed.outputs(jnp.asarray(query)[None], jnp.asarray(context))[0]

    # ---------------------------------------------------------------- parts

    def _places(self, context_size: int) -> Float[Array, "places d_model"]:
        """Return the offsets of the embedded query and of each embedded context token: positions plus bias."""
        places = jnp.zeros((context_size + 1, self.shape.d_model), self.w_q.dtype)
        if self.shape.positions:
            places += jnp.asarray(sinusoids(context_size + 1, self.shape.d_model), self.w_q.dtype)
        return places if self.embedding_bias is None else places + self.embedding_bias

    def _scores(
        self, asking: Float[Array, "batch d_model"], rows: Float[Array, "rows d_model"]
    ) -> Float[Array, "batch heads rows"]:
        """Return the scores x W_Q (row W_K)^T / sqrt(s), multiplied in the cheaper order."""
        batch, (heads, d_model, d_qk), n_rows = len(asking), self.w_q.shape, len(rows)
        keys = jnp.einsum("rd,hdk->hrk", rows, self.w_k) / self.shape.score_divisor
        if d_model * n_rows * (d_qk + batch) <= batch * d_qk * (d_model + n_rows):
            table = jnp.einsum("hdk,hrk->dhr", self.w_q, keys)
            return (asking @ table.reshape(d_model, heads * n_rows)).reshape(batch, heads, n_rows)
        return jnp.einsum("bd,hdk,hrk->bhr", asking, self.w_q, keys, optimize=[(0, 1), (0, 1)])

    def _values(self, rows: Float[Array, "rows d_model"]) -> Float[Array, "rows heads d_vo"]:
        return jnp.einsum("rd,hde->rhe", rows, self.w_v)

    def _decoded(self, pooled: Float[Array, "batch heads d_vo"]) -> Float[Array, "batch outputs"]:
        """Return pooled values times W_O D plus the bias, multiplied in the cheaper order."""
        (batch, heads, d_vo), (d_model, n_outputs) = pooled.shape, self.decoder.shape
        width, outward = heads * d_vo, self.w_o.reshape(heads * d_vo, d_model)
        flat = pooled.reshape(batch, width)
        if width * n_outputs * (d_model + batch) <= batch * d_model * (width + n_outputs):
            return flat @ (outward @ self.decoder) + self.decoder_bias
        return (flat @ outward) @ self.decoder + self.decoder_bias


def pooled_values(
    asked: Float[Array, "batch heads d_input"],
    at_places: Float[Array, "batch heads context"],
    contexts: Float[Array, "batch context d_input"],
    values: Float[Array, "d_input heads d_vo"],
    values_at_places: Float[Array, "context heads d_vo"],
    n_tokens: Int[Array, ""] | None = None,
) -> tuple[Float[Array, "batch heads context"], Float[Array, "batch heads d_vo"]]:
    """Return the attention on contexts that are not embedded, and the mean of their values under it.

    The score of a token is its inner product with `asked` plus the score of its position. The value of a token is its
    image under `values` plus the value of its position.
    """
    (batch, size, d_input), (_, heads, d_vo) = contexts.shape, values.shape
    weights = _softmax(jnp.einsum("bhi,bni->bhn", asked, contexts) + at_places, n_tokens)
    images = contexts.reshape(batch * size, d_input) @ values.reshape(d_input, heads * d_vo)
    of_tokens = images.reshape(batch, size, heads, d_vo) + values_at_places
    return weights, jnp.einsum("bhn,bnhe->bhe", weights, of_tokens)


def _softmax(
    scores: Float[Array, "batch heads context"], n_tokens: Int[Array, ""] | None
) -> Float[Array, "batch heads context"]:
    """Return the attention weights, which are 0 after the first `n_tokens` tokens."""
    if n_tokens is not None:
        scores = jnp.where(jnp.arange(scores.shape[-1]) < n_tokens, scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1)


def sinusoids(n_positions: int, d_model: int) -> Float64[np.ndarray, "n_positions d_model"]:
    r"""Return sinusoidal positions: $\sin(t \omega_i)$ and $\cos(t \omega_i)$ alternating, $\omega_i = 10000^{-2i/d}$.

    >>> sinusoids(2, 4).round(4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0]]
    """
    columns = np.arange(d_model)
    angles = np.arange(n_positions)[:, None] * WAVELENGTH ** (-(columns - columns % 2) / d_model)
    return np.where(columns % 2, np.cos(angles), np.sin(angles))


# -------------------------------------------------------------------- other sizes


def with_d_qk(model: Memoriser, shape: MemoriserShape) -> Memoriser:
    """Return the model with the d_qk of `shape`, by adding zero columns to W_Q and W_K or removing their last columns.

    Zero columns do not change the scores, and their gradients are 0. The weights must be on the host.
    """
    d_qk, found = shape.d_qk, model.w_q.shape[2]
    parts = {name: getattr(model, name) for name in ("w_q", "w_k")}
    if d_qk < found:
        changed = {name: part[:, :, :d_qk] for name, part in parts.items()}
    else:
        changed = {name: np.pad(part, ((0, 0), (0, 0), (0, d_qk - found))) for name, part in parts.items()}
    return replace(model, **changed, shape=shape)


# -------------------------------------------------------------------- random weights


def init_memoriser(
    shape: MemoriserShape, d_input: int, n_outputs: int, *, key: RandomKey, dtype: str = "float32"
) -> Memoriser:
    """Initialise a memoriser as the authors' scripts do.

    W_Q, W_K and W_V of each head and W_O of all heads together are uniform within sqrt(6 / (rows + columns)). The
    embedding, the decoder and their biases are uniform within 1 / sqrt(inputs).
    """
    return on_device(draw_memoriser(shape, d_input, n_outputs, rng=generator_of(key), dtype=dtype))


def draw_memoriser(
    shape: MemoriserShape, d_input: int, n_outputs: int, *, rng: np.random.Generator, dtype: str = "float32"
) -> Memoriser:
    """Initialise a memoriser like `init_memoriser`, with the weights on the host."""
    heads, d_model, d_qk, d_vo = shape.n_heads, shape.d_model, shape.d_qk, shape.d_vo
    limits = {
        "embedding": 1 / sqrt(d_input),
        "embedding_bias": 1 / sqrt(d_input),
        "w_q": sqrt(6 / (d_model + d_qk)),
        "w_k": sqrt(6 / (d_model + d_qk)),
        "w_v": sqrt(6 / (d_model + d_vo)),
        "w_o": sqrt(6 / (heads * d_vo + d_model)),
        "decoder": 1 / sqrt(d_model),
        "decoder_bias": 1 / sqrt(d_model),
    }
    drawn = {
        name: rng.uniform(-limits[name], limits[name], size).astype(dtype)
        for name, size in shape.part_sizes(d_input, n_outputs).items()
    }
    return memoriser_of(shape, drawn)


def memoriser_of(shape: MemoriserShape, parts: dict[str, Any]) -> Memoriser:
    """Build a memoriser from its named parts."""
    without_embedding: dict[str, Any] = {"embedding": None, "embedding_bias": None}
    return Memoriser(**(without_embedding | parts), shape=shape)
