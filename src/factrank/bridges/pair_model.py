r"""`PairModel`: one attention layer as other libraries store it, with every bias, on the prompt [key, query].

With $x_t$ the embedding of a token plus the embedding of its position, the logits at the last position are

$$L[k,q] = \Bigl( x_q + b_O + \sum_h \sum_{t \in \{k,q\}} A^h_t\, (x_t W_V^h + b_V^h)\, W_O^h \Bigr) U + b_U, \qquad
  A^h = \operatorname{softmax}_t \bigl( (x_q W_Q^h + b_Q^h) \cdot (x_t W_K^h + b_K^h) / s \bigr).$$

Folding. An `AttentionLayer` has no biases, but its keys and queries have separate embeddings, so positions are simply
added. A constant dimension, 1 in every embedding, carries the biases: its rows of W_Q, W_K and W_V are b_Q, b_K and
b_V, its row of U is $b_O U + b_U$, and no head writes to it. All other weights are copied. That row of U is computed in
float64 and rounded once, as are W_Q and b_Q if the scale s is not $\sqrt{d_{head}}$; the self-check covers both. A
model without a residual connection gets d_model more dimensions, which heads write to and only U reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.errors import InputError
from factrank.families.attention import NORM_EPSILON, AnyLayer, LayerShape, TransformerShape, model_from_arrays

Codes = Int[np.ndarray, " n"]
Wide = Float[np.ndarray, "..."]


class NormWeights(NamedTuple):
    """Scale and bias of a layer norm."""

    scale: Float[np.ndarray, " d_model"]
    bias: Float[np.ndarray, " d_model"]

    def __call__(self, x: Wide) -> Wide:
        """Normalise vectors in float64."""
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        return np.asarray(centred / deviation * self.scale.astype(np.float64) + self.bias.astype(np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class PairModel:
    """Weights of one attention layer for the keys, queries and values of a database, all in one precision.

    Arguments:
        keys: embedding of every key at the first position.
        queries: embedding of every query at the second position.
        w_q, w_k, w_v, w_o: projections of every head; vectors are rows.
        b_q, b_k, b_v, b_o: their biases.
        unembedding, b_u: weights and bias of the logits of every value.
        scale: divisor of the attention scores.
        residual: whether the query's embedding is added to the output of the heads.
        norms: layer norms before the heads and before the unembedding, if there are any.
    """

    keys: Float[np.ndarray, "keys d_model"]
    queries: Float[np.ndarray, "queries d_model"]
    w_q: Float[np.ndarray, "heads d_model d_qk"]
    w_k: Float[np.ndarray, "heads d_model d_qk"]
    w_v: Float[np.ndarray, "heads d_model d_vo"]
    w_o: Float[np.ndarray, "heads d_vo d_model"]
    b_q: Float[np.ndarray, "heads d_qk"]
    b_k: Float[np.ndarray, "heads d_qk"]
    b_v: Float[np.ndarray, "heads d_vo"]
    b_o: Float[np.ndarray, " d_model"]
    unembedding: Float[np.ndarray, "d_model values"]
    b_u: Float[np.ndarray, " values"]
    scale: float
    residual: bool = True
    norms: tuple[NormWeights, NormWeights] | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of keys, queries and values."""
        return len(self.keys), len(self.queries), self.unembedding.shape[1]

    @property
    def biases(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Biases by name."""
        return {"b_Q": self.b_q, "b_K": self.b_k, "b_V": self.b_v, "b_O": self.b_o, "b_U": self.b_u}

    def logits(self, keys: Codes, queries: Codes) -> Float[np.ndarray, "n values"]:
        """Return the logits of a list of pairs in float64, by the definition above: no folding is used."""
        x = np.stack([self.keys[keys], self.queries[queries]], axis=1).astype(np.float64)
        read = self.norms[0](x) if self.norms else x
        at_query = np.einsum("nd,hde->nhe", read[:, 1], _wide(self.w_q)) + _wide(self.b_q)
        at_tokens = np.einsum("ntd,hde->nthe", read, _wide(self.w_k)) + _wide(self.b_k)
        values = np.einsum("ntd,hde->nthe", read, _wide(self.w_v)) + _wide(self.b_v)
        scores = np.einsum("nhe,nthe->nth", at_query, at_tokens) / self.scale
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mixed = np.einsum("nth,nthe->nhe", weights, values)
        stream = np.einsum("nhe,hed->nd", mixed, _wide(self.w_o)) + _wide(self.b_o) + (x[:, 1] if self.residual else 0)
        last = self.norms[1](stream) if self.norms else stream
        return np.asarray(last @ _wide(self.unembedding) + _wide(self.b_u))

    def folded(self) -> AnyLayer:
        """Return the layer with the same logits: an `AttentionLayer`, or with norms a `PairTransformer`.

        Raises:
            InputError: the model has norms and biases, which no layer of factrank represents exactly.
        """
        with np.errstate(all="ignore"):  # the self-check compares
            return _with_norms(self, self.norms) if self.norms else _plain(self)


def _wide(array: Float[np.ndarray, "..."]) -> Wide:
    return np.asarray(array, dtype=np.float64)


def _scaled(model: PairModel, weights: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Multiply W_Q or b_Q so that scores divided by sqrt(d_qk) are the scores of the model."""
    width = model.w_q.shape[2]
    return (
        weights if model.scale == sqrt(width) else (_wide(weights) * (sqrt(width) / model.scale)).astype(weights.dtype)
    )


def _plain(model: PairModel) -> AnyLayer:
    biased = any(bias.any() for bias in model.biases.values())
    (n_heads, d_model, d_qk), d_vo, n_values = model.w_q.shape, model.w_v.shape[2], model.sizes[2]
    kind = model.keys.dtype
    n_constant, n_written = int(biased), 0 if model.residual else d_model
    tokens = np.concatenate([model.keys, model.queries])
    constant = np.ones((len(tokens), n_constant), kind)
    unread, unwritten = np.zeros((n_heads, n_written, 1), kind), np.zeros((n_heads, d_vo, d_model + n_constant), kind)
    u_bias = (_wide(model.b_o) @ _wide(model.unembedding) + _wide(model.b_u)).astype(kind)[None]
    parts = {
        "embedding": np.concatenate([tokens, constant, np.zeros((len(tokens), n_written), kind)], axis=1),
        **{
            name: np.concatenate([weights, bias[:, None][:, :n_constant], unread.repeat(weights.shape[2], 2)], axis=1)
            for name, weights, bias in (
                ("w_q", _scaled(model, model.w_q), _scaled(model, model.b_q)),
                ("w_k", model.w_k, model.b_k),
                ("w_v", model.w_v, model.b_v),
            )
        },
    }
    if model.residual:
        parts["w_o"] = np.concatenate([model.w_o, unwritten[..., :n_constant]], axis=2)
        parts["unembedding"] = np.concatenate([model.unembedding, u_bias[:n_constant]])
    else:
        parts["w_o"] = np.concatenate([unwritten, model.w_o], axis=2)
        unused = np.zeros((d_model, n_values), kind)
        parts["unembedding"] = np.concatenate([unused, u_bias[:n_constant], model.unembedding])
    shape = LayerShape(d_model + n_constant + n_written, n_heads, d_qk, d_vo)
    return model_from_arrays(shape, model.sizes, parts)


def _with_norms(model: PairModel, norms: tuple[NormWeights, NormWeights]) -> AnyLayer:
    biased = [name for name, bias in model.biases.items() if bias.any()]
    if biased or not model.residual:
        why = f"its biases {', '.join(biased)} are not zero" if biased else "it has no residual connection"
        raise InputError(
            f"the model has layer norms and {why}: no layer of factrank computes the same logits. Train without norms "
            "(normalization_type=None), or with norms and without biases"
        )
    n_keys, n_queries, _ = model.sizes
    (n_heads, d_model, d_qk), d_vo = model.w_q.shape, model.w_v.shape[2]
    parts = {
        "embedding": np.concatenate([model.keys, model.queries]),
        "query_rows": np.arange(n_keys, n_keys + n_queries, dtype=np.int32),
        "unembedding": model.unembedding,
        "blocks.0.w_q": _scaled(model, model.w_q),
        **{f"blocks.0.{name}": getattr(model, name) for name in ("w_k", "w_v", "w_o")},
    }
    for name, norm in zip(("blocks.0.attention_norm", "final_norm"), norms, strict=True):
        parts |= {f"{name}.scale": norm.scale, f"{name}.bias": norm.bias}
    return model_from_arrays(TransformerShape(d_model, n_heads, d_qk, d_vo, layer_norm=True), model.sizes, parts)
