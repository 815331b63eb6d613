r"""The single attention layer of Wong 2025 (arXiv 2502.05076, section 3).

It reads [key, query] and predicts the value at the last position. If $x_t$ is the embedding of token t,

$$L[k,q,:] = x_q U + \sum_h \bigl( A^h[k,q]\, V^h[k,:] + (1 - A^h[k,q])\, V^h[q,:] \bigr), \qquad
  V^h[t,:] = x_t W_V^h W_O^h U.$$

There are no positions, no layer norm and no MLP. Keys and queries have separate embedding rows, keys first.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from factrank.errors import InputError
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.layer_tensor import Heads, LayerTensor, decompose
from factrank.nn import (
    GRID,
    REAL,
    AnyArray,
    Codes,
    Pairing,
    PairReader,
    RandomKey,
    attend,
    attention_scores,
    draw,
    generator_of,
    on_device,
    require_sizes,
)

PARTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding")


class AttentionLayer(PairReader):
    """A single attention layer. `layer(k, q)` returns the logits of one pair, `tensor()` the logits of all pairs.

    The first `n_keys` rows of the embedding are keys, the others queries.
    """

    embedding: Float[AnyArray, "tokens d_model"]
    w_q: Float[AnyArray, "heads d_model d_qk"]
    w_k: Float[AnyArray, "heads d_model d_qk"]
    w_v: Float[AnyArray, "heads d_model d_vo"]
    w_o: Float[AnyArray, "heads d_vo d_model"]
    unembedding: Float[AnyArray, "d_model values"]

    @property
    def shape(self) -> LayerShape:
        """Return the four sizes."""
        return LayerShape(self.w_q.shape[1], self.w_q.shape[0], self.w_q.shape[2], self.w_v.shape[2])

    @property
    def n_queries(self) -> int:
        """Return the number of query tokens."""
        return self.embedding.shape[0] - self.n_keys

    @property
    def n_values(self) -> int:
        """Return the number of values."""
        return self.unembedding.shape[1]

    @property
    def parameters(self) -> int:
        """Return the number of stored scalars."""
        return self.shape.parameters(self.n_keys, self.n_queries, self.n_values)

    def scaled_scores(self, scale: Float[Array, ""] | float) -> AttentionLayer:
        """Return a layer with its attention scores multiplied by `scale`, which is folded into W_Q."""
        scaled: AttentionLayer = eqx.tree_at(lambda layer: layer.w_q, self, (self.w_q * scale).astype(self.w_q.dtype))
        return scaled

    def parts(self) -> LayerTensor:
        """Decompose the tensor into direct path, attention and circuits."""
        layer = on_device(self)
        tokens = layer.embedding[: self.n_keys], layer.embedding[self.n_keys :]
        return decompose(*tokens, Heads(layer.w_q, layer.w_k, layer.w_v, layer.w_o), layer.unembedding)

    def _read(self, pairing: Pairing, keys: Codes, queries: Codes) -> Float[Array, "*pair values"]:
        """Compute logits from per-token tables.

        On the full grid, unembedding the tables first (H V products per pair) is cheaper than unembedding the residual
        stream (H d_model + d_model V products), unless there are many heads. For a list of facts, the tables of all
        tokens may cost more than the facts.
        """
        key_tokens, query_tokens = self.embedding[: self.n_keys], self.embedding[self.n_keys :]
        n_heads, d_model, n_values = self.w_o.shape[0], self.w_o.shape[2], self.n_values
        unembed_first = pairing == GRID and n_heads * n_values <= n_heads * d_model + d_model * n_values
        direct = query_tokens @ self.unembedding if unembed_first else query_tokens
        outputs = self.w_o @ self.unembedding if unembed_first else self.w_o
        out_at_key, out_at_query = (
            jnp.einsum("the,hew->thw", jnp.einsum("td,hde->the", tokens, self.w_v), outputs)
            for tokens in (key_tokens, query_tokens)
        )
        scores = attention_scores(
            jnp.einsum("td,hde->the", query_tokens, self.w_q)[queries],
            jnp.einsum("td,hde->the", key_tokens, self.w_k)[keys],
            jnp.einsum("td,hde->the", query_tokens, self.w_k)[queries],
            pairing,
        )
        stream = attend(scores, out_at_key[keys], out_at_query[queries], direct[queries], pairing)
        return stream if unembed_first else stream @ self.unembedding


def init_layer(
    shape: LayerShape, n_keys: int, n_queries: int, n_values: int, *, key: RandomKey, dtype: str = "float32"
) -> AttentionLayer:
    """Initialise a layer with random weights.

    Embeddings have unit variance; every matrix is normal with variance 1 / fan-in, where the fan-in of W_O is
    H d_vo because it sums over heads. NumPy draws the numbers in float64, so a key gives the same weights on every
    device and, up to rounding, in every precision.

    >>> layer = init_layer(LayerShape(d_model=8, n_heads=2, d_qk=2, d_vo=2), 20, 5, 10, key=0)
    >>> layer.parameters, layer.tensor().shape
    (408, (20, 5, 10))
    """
    return on_device(draw_layer(shape, n_keys, n_queries, n_values, rng=generator_of(key), dtype=dtype))


def draw_layer(
    shape: LayerShape, n_keys: int, n_queries: int, n_values: int, *, rng: np.random.Generator, dtype: str = "float32"
) -> AttentionLayer:
    """Initialise a layer like `init_layer`, but keep the weights on the host."""
    require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    parts = part_sizes(shape, n_keys, n_queries, n_values)
    drawn = {name: draw(rng, size, fan_in, dtype) for name, (size, fan_in) in parts.items()}
    return AttentionLayer(n_keys=n_keys, **drawn)


def part_sizes(shape: LayerShape, n_keys: int, n_queries: int, n_values: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return the shape and fan-in of each part, in field order, which is also the order of drawing."""
    d_model, n_heads, d_qk, d_vo = asdict(shape).values()
    return {
        "embedding": ((n_keys + n_queries, d_model), 1),
        "w_q": ((n_heads, d_model, d_qk), d_model),
        "w_k": ((n_heads, d_model, d_qk), d_model),
        "w_v": ((n_heads, d_model, d_vo), d_model),
        "w_o": ((n_heads, d_vo, d_model), n_heads * d_vo),
        "unembedding": ((d_model, n_values), d_model),
    }


def layer_from_arrays(n_keys: int, **parts: object) -> AttentionLayer:
    """Build a layer from arrays, or anything that NumPy converts to arrays.

    Raises:
        InputError: parts are missing or unknown, shapes do not match, or `n_keys` is out of range.

    >>> layer = init_layer(LayerShape(d_model=8, n_heads=2, d_qk=2, d_vo=2), 20, 5, 10, key=0)
    >>> names = "embedding", "w_q", "w_k", "w_v", "w_o", "unembedding"
    >>> again = layer_from_arrays(20, **{name: getattr(layer, name) for name in names})
    >>> bool((again.tensor() == layer.tensor()).all())
    True
    """
    missing, unknown = set(PARTS) - set(parts), set(parts) - set(PARTS)
    if missing or unknown:
        raise InputError(f"expected the parts {', '.join(PARTS)}; missing {sorted(missing)}, unknown {sorted(unknown)}")
    arrays: dict[str, Any] = {name: np.array(part) for name, part in parts.items()}
    for name, array in arrays.items():
        dimensions = 2 if "embedding" in name else 3
        if array.ndim != dimensions or array.dtype.name not in REAL:
            raise InputError(f"{name} must be {dimensions}-dimensional and real; got {array.dtype}{list(array.shape)}")
    (n_tokens, d_model), (n_heads, _, d_qk) = arrays["embedding"].shape, arrays["w_q"].shape
    shape, n_values = LayerShape(d_model, n_heads, d_qk, arrays["w_v"].shape[2]), arrays["unembedding"].shape[1]
    for name, (size, _) in part_sizes(shape, 0, n_tokens, n_values).items():
        got = list(arrays[name].shape)
        if got != list(size):
            raise InputError(f"{name} must have shape {list(size)} to match the other parts; got {got}")
    if isinstance(n_keys, bool) or not isinstance(n_keys, int) or not 0 < n_keys < n_tokens:
        raise InputError(
            f"n_keys must be between 1 and {n_tokens - 1}: there are {n_tokens} embedding rows; got {n_keys}"
        )
    return on_device(AttentionLayer(n_keys=n_keys, **arrays))
