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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Integer
from scipy.special import expit

from factrank.auditing.layer_inputs import divided, epsilon, of_unit_size, soft_cap
from factrank.checkpoints.heads import AttentionFactors, AttentionModel
from factrank.errors import InputError

Rows = Float[np.ndarray, "rows inner"]
Columns = Float[np.ndarray, "inner columns"]

BLOCK = 2**24
"""Most logits in memory at a time."""


@dataclass(frozen=True, eq=False)
class TokenHead:
    """A head restricted to some tokens, as factors: no matrix of keys and values, or of keys and queries, is stored.

    Arguments:
        asked: Queries, rotated to distance 1 and scaled [queries, d_qk].
        offered: Keys [keys, d_qk].
        to_itself: Score of each query token with itself [queries].
        read: Inputs times W_V [keys, d_vo].
        read_by_queries: The same of the query tokens [queries, d_vo].
        written: W_O times the unembedding [d_vo, values].
        cap: Soft cap of the scores, or None.
        copying: Copying score over all tokens.
    """

    asked: Float[np.ndarray, "queries d_qk"]
    offered: Float[np.ndarray, "keys d_qk"]
    to_itself: Float[np.ndarray, " queries"]
    read: Float[np.ndarray, "keys d_vo"]
    read_by_queries: Float[np.ndarray, "queries d_vo"]
    written: Float[np.ndarray, "d_vo values"]
    cap: float | None
    copying: float

    def attention(self, keys: slice) -> Float[np.ndarray, "keys queries"]:
        """Return A for some keys: how much a query attends to a key right before it, rather than to itself."""
        scores = _capped(self.offered[keys] @ self.asked.T, self.cap)
        return np.asarray(expit(scores - _capped(self.to_itself, self.cap)))

    def attention_of(
        self, keys: Integer[np.ndarray, " n"], queries: Integer[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return A for pairs of a key and a query."""
        scores = _capped((self.offered[keys] * self.asked[queries]).sum(axis=1), self.cap)
        return np.asarray(expit(scores - _capped(self.to_itself, self.cap)[queries]))

    def moved(self, keys: slice) -> Float[np.ndarray, "keys values"]:
        """Return V[k] for some keys."""
        return np.asarray(self.read[keys] @ self.written)

    @cached_property
    def own(self) -> Float[np.ndarray, "queries values"]:
        """V[q] of the queries."""
        return np.asarray(self.read_by_queries @ self.written)

    def logits_of(
        self, keys: Integer[np.ndarray, " n"], queries: Integer[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n values"]:
        """Return A V[k] + (1 - A) V[q] for pairs of a key and a query."""
        attention = self.attention_of(keys, queries)[:, None]
        mixed = attention * self.read[keys] + (1 - attention) * self.read_by_queries[queries]
        return np.asarray(mixed @ self.written)


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """Circuits of a layer restricted to some tokens.

    Arguments:
        layer: Number of the layer.
        sizes: Numbers of keys, queries and values.
        direct: Direct path [queries, values].
        n_heads: Heads.
        head: Returns one head; it is computed when it is asked for.
    """

    layer: int
    sizes: tuple[int, int, int]
    direct: Float[np.ndarray, "queries values"]
    n_heads: int
    head: Callable[[int], TokenHead]

    def head_logits(self, head: int, keys: slice) -> Float[np.ndarray, "keys queries values"]:
        """Return A V[k] + (1 - A) V[q] of one head for some keys and all queries."""
        found = self.head(head)
        attention, own = found.attention(keys)[:, :, None], found.own
        return np.asarray(own + attention * (found.moved(keys)[:, None] - own))

    def logits(self, keys: slice) -> Float[np.ndarray, "keys queries values"]:
        """Return L for some keys and all queries and values."""
        total = np.broadcast_to(self.direct, (keys.stop - keys.start, *self.direct.shape)).copy()
        for head in range(self.n_heads):
            total += self.head_logits(head, keys)
        return total


def blocks(n: int, width: int) -> Iterator[slice]:
    """Return slices of n rows with at most `BLOCK` entries each, if a row has that many."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def token_circuits(
    model: AttentionModel, layer: int, keys: Sequence[int], queries: Sequence[int], values: Sequence[int]
) -> TokenCircuits:
    """Return the circuits of a layer restricted to key, query and value tokens.

    Raises:
        InputError: If the model has no embedding of tokens, or normalises after the residual sum, or has latent
            attention, for which the path of a single layer is not of this form.
    """
    require_path(model)
    factors = model.layer(layer, fold=True, head_gains=False)
    tokens, n_keys = (*keys, *queries), len(keys)
    rows = token_rows(model, tokens)
    inputs = rows if model.input_norm(layer) is None else divided(rows, model)
    if factors.has_bias:
        inputs = np.column_stack([inputs, np.ones(len(inputs))])
    unembedding = _unembedding(model, values)
    first = list({token: place for place, token in reversed(list(enumerate(tokens)))}.items())
    places = [place for _, place in first]
    same = _unembedding(model, [token for token, _ in first])

    def one_head(head: int) -> TokenHead:
        value, output = factors.value.values[head // factors.group_size], factors.output.values[head]
        read = inputs @ value
        asked, offered, own = _scored(model, factors, head, inputs[:n_keys], inputs[n_keys:])
        copying = _copying(output @ same.T @ read[places])
        cap = soft_cap(model)
        return TokenHead(asked, offered, own, read[:n_keys], read[n_keys:], output @ unembedding.T, cap, copying)

    stream = rows[n_keys:] + (0 if factors.output_bias is None else factors.output_bias)
    sizes = (n_keys, len(queries), len(values))
    return TokenCircuits(layer, sizes, stream @ unembedding.T, factors.n_heads, one_head)


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
        rows = divided(rows, model) * norm.gain.values + shift
    return np.asarray(rows)


def require_path(model: AttentionModel) -> None:
    """Raise `InputError` unless the path of a single layer has the form of L."""
    if not model.layout.embedding or model.layout.first_norm is not None or model.layout.latent:
        raise InputError(
            f"{model.place}: {model.layout.title} has no path of single tokens through one layer; expected a language "
            "model that normalises before attention, without latent attention"
        )


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


def _scored(
    model: AttentionModel, factors: AttentionFactors, head: int, keys: np.ndarray, queries: np.ndarray
) -> tuple[Float[np.ndarray, "queries d"], Float[np.ndarray, "keys d"], Float[np.ndarray, " queries"]]:
    """Return queries at distance 1, with the scale; keys; and the score of each query with itself."""
    maps = (factors.query.values[head], factors.key.values[head // factors.group_size])
    asked, offered, own = queries @ maps[0], keys @ maps[1], queries @ maps[1]
    if model.layout.head_norms is not None:
        gains = [gain.values for gain in model.head_gains(factors.layer)]
        small = epsilon(model)
        asked = of_unit_size(asked, gains[0], small)
        offered, own = of_unit_size(offered, gains[1], small), of_unit_size(own, gains[1], small)
    near, far = (asked if factors.rotation is None else factors.rotation.turned(asked, distance) for distance in (0, 1))
    return factors.scale * far, offered, np.asarray(factors.scale * (near * own).sum(axis=-1))


def _capped(scores: Float[np.ndarray, "..."], cap: float | None) -> Float[np.ndarray, "..."]:
    return scores if cap is None else np.asarray(cap * np.tanh(scores / cap))


def _copying(core: Float[np.ndarray, "d d"]) -> float:
    """Return the sum of the eigenvalues over the sum of their absolute values; 0 if all are 0."""
    eigenvalues = np.linalg.eigvals(core)
    whole = np.abs(eigenvalues).sum()
    return float(eigenvalues.sum().real / whole) if whole else 0.0


def strongest_moves(head: TokenHead, n: int) -> list[tuple[int, int, int, float]]:
    """Return the strongest entries (key, query, value, lead) of a head.

    The lead is $V[k, v]$ above its mean over the values. The query is the one that attends most to the key.
    """
    best = strongest(head.read, head.written, n)
    return [(key, int(head.attention(slice(key, key + 1))[0].argmax()), value, lead) for key, value, lead in best]


def direct_path(model: AttentionModel, tokens: Sequence[int]) -> tuple[Rows, Columns]:
    """Return the direct path, from embedding to unembedding, as factors [queries, width] and [width, values].

    The output biases of attention, which are the same for all queries, are left out.
    """
    require_path(model)
    return token_rows(model, tokens), _unembedding(model, tokens).T


def strongest(rows: Rows, columns: Columns, n: int) -> list[tuple[int, int, float]]:
    """Return the n entries of a product that lead the mean of their row most, as (row, column, lead)."""
    mean = rows @ columns.mean(axis=1)
    found: list[tuple[float, int, int]] = []
    for block in blocks(len(rows), columns.shape[1]):
        lead = rows[block] @ columns - mean[block, None]
        most = min(n, lead.size)
        for place in np.argpartition(lead, lead.size - most, axis=None)[lead.size - most :]:
            row, column = divmod(int(place), columns.shape[1])
            found.append((float(lead[row, column]), block.start + row, column))
    best = sorted(found, key=lambda entry: (-entry[0], entry[1:]))[:n]
    return [(row, column, lead) for lead, row, column in best]


def copied(rows: Rows, columns: Columns) -> float:
    """Return the fraction of tokens whose own logit is the largest, if rows and columns are the same tokens."""
    found = blocks(len(rows), columns.shape[1])
    best = [(rows[block] @ columns).argmax(axis=1) == np.arange(block.start, block.stop) for block in found]
    return float(np.concatenate(best).mean())
