r"""What one attention layer does with single tokens: the tensor L of its path from embedding to unembedding.

A context has a key token k and a query token q, the last. Every token enters as its embedding $e$, normalised as the
layer normalises its input. Without the other layers, and up to the positive factor of the final norm, the logits are

$$L[k, q] = \text{direct}[q] + \sum_h A^h V^h[k] + (1 - A^h) V^h[q], \qquad A^h = \sigma(S^h_1[q, k] - S^h_0[q, q])$$

with the scores $S_t$ at distance t, $V^h[k] = \hat e_k W_V W_O U^T$ and $\text{direct}[q] = (e_q + b_O) U^T$, where U
contains the gain of the final norm. These are skip trigrams (key ... query -> value). The **copying score** of a head
is $\sum_i \lambda_i / \sum_i |\lambda_i|$ over the eigenvalues of $W_O U^T \hat E W_V$ (as small as a head), which are
those of the map from tokens to logits; it is 1 if all are positive. Positions other than rotary ones, MLPs, and the
shift of the final norm are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer
from scipy.special import expit

from factrank.checkpoints.heads import AttentionFactors, AttentionModel
from factrank.errors import InputError

BLOCK = 2**24
"""Most logits in memory at a time."""


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """Circuits of a layer restricted to some tokens.

    Arguments:
        layer: Number of the layer.
        weights: Attention A [heads, keys, queries].
        values: V [heads, tokens, values] of keys and queries: rows 0 to K - 1 are keys, the others queries.
        direct: Direct path [queries, values].
        copying: Copying score of each head over all tokens.
    """

    layer: int
    weights: Float[np.ndarray, "heads keys queries"]
    values: Float[np.ndarray, "heads tokens values"]
    direct: Float[np.ndarray, "queries values"]
    copying: tuple[float, ...]

    @property
    def n_keys(self) -> int:
        """Number of key tokens."""
        return int(self.weights.shape[1])

    def head_logits(self, head: int, keys: slice) -> Float[np.ndarray, "keys queries values"]:
        """Return A V[k] + (1 - A) V[q] of one head for some keys and all queries."""
        attention = self.weights[head, keys, :, None]
        own = self.values[head, self.n_keys :]
        return np.asarray(own + attention * (self.values[head, : self.n_keys][keys, None] - own))

    def blocks(self) -> Iterator[slice]:
        """Return slices of keys whose logits fit into memory."""
        n_values, n_queries = self.values.shape[2], self.weights.shape[2]
        step = max(1, BLOCK // max(1, n_queries * n_values))
        return (slice(start, min(start + step, self.n_keys)) for start in range(0, self.n_keys, step))

    def logits(self, keys: slice) -> Float[np.ndarray, "keys queries values"]:
        """Return L for some keys and all queries and values."""
        total = np.broadcast_to(self.direct, (keys.stop - keys.start, *self.direct.shape)).copy()
        for head in range(len(self.weights)):
            total += self.head_logits(head, keys)
        return total


def token_circuits(
    model: AttentionModel, layer: int, keys: Sequence[int], queries: Sequence[int], values: Sequence[int]
) -> TokenCircuits:
    """Return the circuits of a layer restricted to key, query and value tokens.

    Raises:
        InputError: If the model has no embedding of tokens, or normalises after the residual sum, or has latent
            attention, for which the path of a single layer is not of this form.
    """
    _require_path(model)
    factors = model.layer(layer, fold=True, head_gains=False)
    tokens = (*keys, *queries)
    rows = token_rows(model, tokens)
    inputs = _normalised(model, rows, layer)
    if factors.has_bias:
        inputs = np.column_stack([inputs, np.ones(len(inputs))])
    unembedding = _unembedding(model, values)
    n_keys = len(keys)
    heads = range(factors.n_heads)
    weights = np.stack([_attention(model, factors, head, inputs[:n_keys], inputs[n_keys:]) for head in heads])
    passed = [inputs @ factors.value.values[head // factors.group_size] for head in heads]
    moved = np.stack([passed[head] @ (factors.output.values[head] @ unembedding.T) for head in heads])
    first = list({token: place for place, token in reversed(list(enumerate(tokens)))}.items())
    same = _unembedding(model, [token for token, _ in first])
    places = [place for _, place in first]
    copying = tuple(_copying(factors.output.values[head] @ same.T @ passed[head][places]) for head in heads)
    stream = rows[n_keys:] + (0 if factors.output_bias is None else factors.output_bias)
    return TokenCircuits(layer, weights, moved, stream @ unembedding.T, copying)


def token_rows(model: AttentionModel, tokens: Sequence[int]) -> Float[np.ndarray, "tokens width"]:
    """Return the embeddings of tokens as the residual stream has them."""
    embedding = model.tensor(model.layout.embedding)
    outside = [token for token in tokens if not 0 <= token < embedding.shape[0]]
    if outside or embedding.shape[1:] != (model.sizes.width,):
        raise InputError(f"{model.place}: token {outside[:1]}: the embedding has shape {embedding.shape}")
    known = {token: embedding.rows(token, token + 1)[0] for token in set(tokens)}
    rows = np.stack([known[token] for token in tokens]).astype(np.float64)
    rows = rows * model.sizes.width**0.5 if model.layout.embedding_scaled else rows
    norm = model.norm(model.layout.embedding_norm)
    if norm is not None:
        shift = 0 if norm.bias is None else norm.bias.rows()
        rows = _divided(rows, model) * norm.gain.values + shift
    return np.asarray(rows)


def _require_path(model: AttentionModel) -> None:
    if not model.layout.embedding or model.layout.first_norm is not None or model.layout.latent:
        raise InputError(
            f"{model.place}: {model.layout.title} has no path of single tokens through one layer; expected a language "
            "model that normalises before attention, without latent attention"
        )


def _divided(rows: Float[np.ndarray, "tokens width"], model: AttentionModel) -> Float[np.ndarray, "tokens width"]:
    """Normalise rows before gain and shift."""
    centred = rows - rows.mean(axis=-1, keepdims=True) if model.layout.norm_kind == "layer" else rows
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _epsilon(model)))


def _epsilon(model: AttentionModel) -> float:
    """Return the epsilon of the model's norms; by default that of its kind in `transformers`."""
    given = [model.settings.entries.get(name) for name in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")]
    default = 1e-5 if model.layout.norm_kind == "layer" else 1e-6
    return next((value for value in given if isinstance(value, float) and 0 <= value < 1), default)


def _normalised(model: AttentionModel, rows: Float[np.ndarray, "tokens width"], layer: int) -> np.ndarray:
    return rows if model.input_norm(layer) is None else _divided(rows, model)


def _unembedding(model: AttentionModel, tokens: Sequence[int]) -> Float[np.ndarray, "values width"]:
    """Return the rows of the unembedding with the gain of the final norm."""
    stored = model.optional(model.layout.unembedding) or model.tensor(model.layout.embedding)
    if stored.shape[1:] != (model.sizes.width,):
        raise InputError(
            f"{stored.place}: the tensor {stored.name!r} has shape {stored.shape}; expected rows of {model.sizes.width}"
        )
    rows = np.stack([stored.rows(token, token + 1)[0] for token in tokens]).astype(np.float64)
    norm = model.norm(model.layout.final_norm)
    if norm is not None:
        norm.weight.require_shape((model.sizes.width,), "the width of the model")
    rows = rows if norm is None else rows * norm.gain.values
    return np.asarray(rows - rows.mean(axis=-1, keepdims=True) if model.layout.norm_kind == "layer" else rows)


def _attention(
    model: AttentionModel, factors: AttentionFactors, head: int, keys: np.ndarray, queries: np.ndarray
) -> Float[np.ndarray, "keys queries"]:
    """Return A: how much the query attends to a key right before it, rather than to itself."""
    maps = (factors.query.values[head], factors.key.values[head // factors.group_size])
    asked, offered, own = queries @ maps[0], keys @ maps[1], queries @ maps[1]
    if model.layout.head_norms is not None:
        gains = [gain.values for gain in model.head_gains(factors.layer)]
        epsilon = _epsilon(model)
        asked = _headed(asked, gains[0], epsilon)
        offered, own = _headed(offered, gains[1], epsilon), _headed(own, gains[1], epsilon)
    turns = [np.eye(asked.shape[1])] * 2
    if factors.rotation is not None:
        turns = [factors.rotation.matrix(distance, asked.shape[1]) for distance in (0, 1)]
    to_itself = factors.scale * ((asked @ turns[0]) * own).sum(axis=-1)
    to_keys = factors.scale * offered @ (asked @ turns[1]).T
    cap = model.settings.entries.get("attn_logit_softcapping")
    if isinstance(cap, int | float) and cap > 0:
        to_itself, to_keys = cap * np.tanh(to_itself / cap), cap * np.tanh(to_keys / cap)
    return np.asarray(expit(to_keys - to_itself))


def _headed(
    rows: Float[np.ndarray, "tokens d"], gain: Float[np.ndarray, " d"], epsilon: float
) -> Float[np.ndarray, "tokens d"]:
    return np.asarray(rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon) * gain)


def _copying(core: Float[np.ndarray, "d d"]) -> float:
    """Return the sum of the eigenvalues over the sum of their absolute values; 0 if all are 0."""
    eigenvalues = np.linalg.eigvals(core)
    whole = np.abs(eigenvalues).sum()
    return float(eigenvalues.sum().real / whole) if whole else 0.0


def strongest_moves(circuits: TokenCircuits, head: int, n: int) -> list[tuple[int, int, int, float]]:
    """Return the strongest entries (key, query, value, lead) of a head.

    The lead is $V^h[k, v]$ above its mean over the values. The query is the one that attends most to the key.
    """
    moved = circuits.values[head, : circuits.n_keys]
    lead = moved - moved.mean(axis=1, keepdims=True)
    best: Integer[np.ndarray, " n"] = np.argsort(lead, axis=None)[::-1][:n]
    keys, values = np.unravel_index(best, lead.shape)
    queries = circuits.weights[head].argmax(axis=1)
    return [(int(k), int(queries[k]), int(v), float(lead[k, v])) for k, v in zip(keys, values, strict=True)]
