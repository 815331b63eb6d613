r"""FactualRecallTransformer: one layer of attention and an MLP over a sequence (Nichani, Lee and Bietti 2025).

arXiv 2412.06538, section 4. Only the last token attends (the *reader*: the end token, or a cue), and the answer is
predicted from the pooled values. As in the paper there is no residual stream: the reader's own embedding does not
bypass the attention. With x_t the embedding of token t, r the reader and c_t the count of t in the sequence,

$$s^h_t = (x_r W_Q^h)\cdot(x_t W_K^h)/\sqrt{d_{qk}}, \qquad
  z = \sum_h \frac{\sum_t c_t\, e^{s^h_t}\, x_t W_V^h}{\sum_t c_t\, e^{s^h_t}}\, W_O^h, \qquad
  \mathrm{logits} = \bigl(z + \mathrm{relu}(z W_{in} + b_{in})\, W_{out}\bigr)\, U.$$

Linear attention uses the scores as weights, $z = \sum_h \sum_t c_t\, s^h_t\, x_t W_V^h W_O^h$.

Without positions, a sequence is determined by its counts, and for a given reader a score depends only on the token. All
sequences of a batch are therefore pooled by one matrix product: counts [batch, tokens] times a table
[tokens, H (d_vo + 1)] of weighted values and weights. Every token is projected once per step, without gathers in the
forward pass or scatters in the backward pass. Because all sequences share the weights, these are normalised by the
largest weight in the vocabulary and clipped below at e^-150; a sequence of tokens that are all below this attends to
them uniformly.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout, count_tokens
from factrank.nn import AnyArray, RandomKey, ShownModel, constant, draw, generator_of, on_device

HALF_RANGE = 75.0
"""Weights are between e^-75 and e^75, so sums and their inverses are in the range of float32 and bfloat16."""

EMBEDDINGS = ("embedding", "unembedding")

ReaderToken = int | Int[Array, ""]
"""The token at the end of a sequence, at which the answer is predicted."""


class FactualRecallTransformer(ShownModel, eqx.Module):
    """Weights of the layer; without an MLP, `w_in`, `b_in` and `w_out` are empty."""

    embedding: Float[AnyArray, "tokens d_model"]
    w_q: Float[AnyArray, "heads d_model d_qk"]
    w_k: Float[AnyArray, "heads d_model d_qk"]
    w_v: Float[AnyArray, "heads d_model d_vo"]
    w_o: Float[AnyArray, "heads d_vo d_model"]
    w_in: Float[AnyArray, "d_model width"]
    b_in: Float[AnyArray, " width"]
    w_out: Float[AnyArray, "width d_model"]
    unembedding: Float[AnyArray, "d_model outputs"]
    layout: FactualRecallLayout = eqx.field(static=True)
    linear: bool = eqx.field(static=True, default=False)

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return sum(int(leaf.size) for leaf in jax.tree.leaves(self))

    def scaled_scores(self, scale: Float[Array, ""] | float) -> FactualRecallTransformer:
        """Return a model whose attention scores are multiplied by `scale`, by scaling W_Q."""
        w_q = (self.w_q * scale).astype(self.w_q.dtype)
        scaled: FactualRecallTransformer = eqx.tree_at(lambda model: model.w_q, self, w_q)
        return scaled

    def scores(self, reader: ReaderToken | None = None) -> Float[Array, "heads tokens"]:
        """Return the score of every token for a reader: the end token by default, or a cue."""
        asking = self.embedding[self.layout.end if reader is None else reader]
        questions = jnp.einsum("d,hde->he", asking, self.w_q) * (self.w_q.shape[-1] ** -0.5)
        # x_t W_K . question = x_t . (W_K question): d products per token and head instead of d d_qk
        return jnp.einsum("hde,he,td->ht", self.w_k, questions, self.embedding, optimize=[(0, 1), (0, 1)])

    def collected(
        self, counts: Float[Array, "batch tokens"], reader: ReaderToken | None = None
    ) -> Float[Array, "batch d"]:
        """Return the output z of the attention."""
        values = jnp.einsum("td,hde->the", self.embedding, self.w_v)
        n_heads, d_vo, d_model = self.w_o.shape
        outward = self.w_o.reshape(n_heads * d_vo, d_model)
        if self.linear:
            weighted = (self.scores(reader).T[:, :, None] * values).reshape(-1, n_heads * d_vo)
            return counts.astype(weighted.dtype) @ (weighted @ outward)
        return _pooled(counts, self.scores(reader), values).reshape(-1, n_heads * d_vo) @ outward

    def mlp(self, collected: Float[Array, "batch d"]) -> Float[Array, "batch d"]:
        """Return the output of the MLP, zeros if there is none."""
        return jax.nn.relu(collected @ self.w_in + self.b_in) @ self.w_out

    def logits(
        self, counts: Float[Array, "batch tokens"], reader: ReaderToken | None = None
    ) -> Float[Array, "batch outputs"]:
        """Return the logits of sequences given by their token counts, which include the reader."""
        collected = self.collected(counts, reader)
        return (collected + self.mlp(collected) if self.w_in.shape[1] else collected) @ self.unembedding

    def __call__(self, sequence: Int[AnyArray, " length"]) -> Float[Array, " outputs"]:
        """Return the logits after one sequence of tokens; the last token is the reader."""
        tokens = jnp.asarray(sequence)
        return on_device(self).logits(count_tokens(tokens[None], self.layout.n_tokens), tokens[-1])[0]


class FactualRecallOneHot(ShownModel, eqx.Module):
    r"""A model without an MLP on one-hot embeddings, with separate tables of scores and values.

    $$\mathrm{logits} = \sum_h \sum_t c_t\, s^h_t\, V^h_t \quad\text{(linear)}, \qquad
      \sum_h \frac{\sum_t c_t\, e^{s^h_t}\, V^h_t}{\sum_t c_t\, e^{s^h_t}} \quad\text{(softmax).}$$
    """

    scores: Float[AnyArray, "heads tokens"]
    values: Float[AnyArray, "heads tokens outputs"]
    layout: FactualRecallLayout = eqx.field(static=True)
    linear: bool = eqx.field(static=True, default=True)

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return int(self.scores.size + self.values.size)

    def scaled_scores(self, scale: Float[Array, ""] | float) -> FactualRecallOneHot:
        """Return a model whose attention scores are multiplied by `scale`."""
        scores = (self.scores * scale).astype(self.scores.dtype)
        scaled: FactualRecallOneHot = eqx.tree_at(lambda model: model.scores, self, scores)
        return scaled

    def logits(
        self,
        counts: Float[Array, "batch tokens"],
        reader: ReaderToken | None = None,  # noqa: ARG002 - same signature as FactualRecallTransformer
    ) -> Float[Array, "batch outputs"]:
        """Return the logits of sequences given by their token counts; the reader is always the end token."""
        if self.linear:
            return counts.astype(self.values.dtype) @ jnp.einsum("ht,htv->tv", self.scores, self.values)
        return _pooled(counts, self.scores, self.values.transpose(1, 0, 2)).sum(axis=1)

    def __call__(self, sequence: Int[AnyArray, " length"]) -> Float[Array, " outputs"]:
        """Return the logits after one sequence of tokens."""
        tokens = jnp.asarray(sequence)
        return on_device(self).logits(count_tokens(tokens[None], self.layout.n_tokens), tokens[-1])[0]


FactualRecallModel = FactualRecallTransformer | FactualRecallOneHot


def _pooled(
    counts: Float[Array, "batch tokens"],
    scores: Float[Array, "heads tokens"],
    values: Float[Array, "tokens heads width"],
) -> Float[Array, "batch heads width"]:
    """Return the mean of the values under the softmax of each head, by one matrix product.

    The sums of a sequence may be anywhere in the range of the weights. Dividing numerator and denominator by the size
    of the denominator first avoids its square in the backward pass, which would overflow or underflow.
    """
    n_tokens, n_heads, width = values.shape
    relative = scores - jax.lax.stop_gradient(scores.max(axis=1, keepdims=True))
    weights = jnp.exp(jnp.maximum(relative + HALF_RANGE, -HALF_RANGE)).T
    weighted = (weights[:, :, None] * values).reshape(n_tokens, n_heads * width)
    sums = counts.astype(values.dtype) @ jnp.concatenate([weighted, weights], axis=1)
    totals = sums[:, n_heads * width :, None]
    size = jax.lax.stop_gradient(1 / totals)
    return (sums[:, : n_heads * width].reshape(-1, n_heads, width) * size) / (totals * size)


# -------------------------------------------------------------------- random weights


def init_factual_recall(
    shape: FactualRecallShape | FactualRecallOneHotShape,
    n_keys: int,
    n_queries: int,
    n_values: int,
    *,
    key: RandomKey,
    dtype: str = "float32",
) -> FactualRecallModel:
    """Initialise a model with the variances of the authors' scripts.

    Weights are normal. Variances are 1/d for embeddings, unembeddings, W_O and W_in, 1/(head size) for W_Q, W_K and
    W_V, and 1/width for W_out; b_in is 0. One-hot models start at `start_scale`; see `FactualRecallOneHotShape`.
    """
    sizes = n_keys, n_queries, n_values
    return on_device(draw_factual_recall(shape, sizes, rng=generator_of(key), dtype=dtype))


def draw_factual_recall(
    shape: FactualRecallShape | FactualRecallOneHotShape,
    sizes: tuple[int, int, int],
    *,
    rng: np.random.Generator,
    dtype: str = "float32",
) -> FactualRecallModel:
    """Initialise a model like `init_factual_recall`, with the weights on the host."""
    layout = FactualRecallLayout.of(shape, *sizes)
    if isinstance(shape, FactualRecallOneHotShape):
        return _draw_one_hot(shape, layout, rng, dtype)
    d_model, n_heads, width = shape.d_model, shape.n_heads, shape.mlp_width
    return FactualRecallTransformer(
        embedding=draw(rng, (layout.n_tokens, d_model), d_model, dtype),
        w_q=draw(rng, (n_heads, d_model, shape.d_qk), shape.d_qk, dtype),
        w_k=draw(rng, (n_heads, d_model, shape.d_qk), shape.d_qk, dtype),
        w_v=draw(rng, (n_heads, d_model, shape.d_vo), shape.d_vo, dtype),
        w_o=draw(rng, (n_heads, shape.d_vo, d_model), d_model, dtype),
        w_in=draw(rng, (d_model, width), d_model, dtype),
        b_in=constant(0.0, width, dtype),
        w_out=draw(rng, (width, d_model), max(width, 1), dtype),
        unembedding=draw(rng, (d_model, layout.n_outputs), d_model, dtype),
        layout=layout,
        linear=shape.linear,
    )


def _draw_one_hot(
    shape: FactualRecallOneHotShape, layout: FactualRecallLayout, rng: np.random.Generator, dtype: str
) -> FactualRecallOneHot:
    sizes = (shape.n_heads, layout.n_tokens), (shape.n_heads, layout.n_tokens, layout.n_outputs)
    drawn: list[Any] = [rng.standard_normal(size) if shape.n_heads > 1 else np.ones(size) for size in sizes]
    scores, values = ((shape.start_scale * table).astype(dtype) for table in drawn)
    return FactualRecallOneHot(scores, values, layout, shape.linear)


# -------------------------------------------------------------------- padding


def widened(model: FactualRecallModel, layout: FactualRecallLayout) -> FactualRecallModel:
    """Return the same model, on the host, in a layout with larger ranges.

    New tokens repeat the row of the end token, so no weight exceeds the largest; new outputs are 0. The logits of
    sequences without new tokens do not change.
    """
    tokens, outputs = model.layout.token_places(layout), model.layout.output_places(layout)
    rows = np.full(layout.n_tokens, model.layout.end)
    rows[tokens] = np.arange(len(tokens))
    if isinstance(model, FactualRecallOneHot):
        values: Any = _spread(np.asarray(model.values)[:, rows], outputs, layout.n_outputs)
        scores: Any = np.asarray(model.scores)[:, rows]
        return FactualRecallOneHot(scores, values, layout, model.linear)
    unembedding = _spread(np.asarray(model.unembedding), outputs, layout.n_outputs)
    return _with(model, np.asarray(model.embedding)[rows], unembedding, layout)


def narrowed(model: FactualRecallModel, layout: FactualRecallLayout) -> FactualRecallModel:
    """Return the model, on the host, restricted to the tokens and outputs of a smaller layout; inverts `widened`."""
    tokens, outputs = layout.token_places(model.layout), layout.output_places(model.layout)
    if isinstance(model, FactualRecallOneHot):
        scores: Any = np.asarray(model.scores)[:, tokens]
        values: Any = np.asarray(model.values)[:, tokens][:, :, outputs]
        return FactualRecallOneHot(scores, values, layout, model.linear)
    return _with(model, np.asarray(model.embedding)[tokens], np.asarray(model.unembedding)[:, outputs], layout)


def _spread(
    columns: Float[np.ndarray, "*rows few"], places: Int[np.ndarray, " few"], width: int
) -> Float[np.ndarray, "*rows {width}"]:
    """Return an array with the columns at the given places and zeros elsewhere."""
    spread = np.zeros((*columns.shape[:-1], width), columns.dtype)
    spread[..., places] = columns
    return spread


def _with(
    model: FactualRecallTransformer, embedding: Any, unembedding: Any, layout: FactualRecallLayout
) -> FactualRecallTransformer:
    inner = model.w_q, model.w_k, model.w_v, model.w_o, model.w_in, model.b_in, model.w_out
    return FactualRecallTransformer(embedding, *inner, unembedding, layout, model.linear)


def model_of(
    shape: FactualRecallShape | FactualRecallOneHotShape, sizes: tuple[int, ...], parts: dict[str, Any]
) -> FactualRecallModel:
    """Build a model from its parts, for (n_keys, n_queries, n_values)."""
    n_keys, n_queries, n_values = sizes
    layout = FactualRecallLayout.of(shape, n_keys, n_queries, n_values)
    kind = FactualRecallOneHot if isinstance(shape, FactualRecallOneHotShape) else FactualRecallTransformer
    return kind(layout=layout, linear=shape.linear, **parts)


def spec_of(model: object) -> FactualRecallShape | FactualRecallOneHotShape | None:
    """Return the shape of a model, or None for other objects; models do not know the length of their sequences."""
    if isinstance(model, FactualRecallOneHot):
        heads = model.scores.shape[0]
        return FactualRecallOneHotShape(n_heads=heads, linear=model.linear, n_noise=model.layout.n_noise)
    if not isinstance(model, FactualRecallTransformer):
        return None
    (heads, d_model, d_qk), d_vo, layout = model.w_q.shape, model.w_v.shape[2], model.layout
    return FactualRecallShape(
        d_model=d_model,
        n_heads=heads,
        d_qk=d_qk,
        d_vo=d_vo,
        mlp_width=model.w_in.shape[1],
        n_noise=layout.n_noise,
        linear=model.linear,
        copy_groups=layout.copy_groups,
        copy_size=layout.copy_size,
    )
