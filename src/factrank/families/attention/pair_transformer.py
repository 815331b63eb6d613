"""PairTransformer: the attention layer with additional options.

It reads [key, query] with causal attention and predicts the value at the last position. The options are learned
positions, several layers, layer norm (before each block and before the unembedding), an MLP after each attention,
linear attention, and tokens shared between keys and queries. With all options off it is the `AttentionLayer`, with the
same weights.

Position k attends only to itself, so its stream is a table with one row per key. The stream of position q is a table
with one row per query before the first attention, and one vector per pair after it. Index letters keep track of this
(see `attention`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer, draw_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.layer_tensor import Heads, LayerTensor, decompose
from factrank.nn import (
    AnyArray,
    AttentionKind,
    Codes,
    Pairing,
    PairReader,
    RandomKey,
    attend,
    attention_scores,
    constant,
    draw,
    generator_of,
    on_device,
    require_sizes,
)

NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of a `LayerShape`, and the options of a `PairTransformer`; `mlp_width` 0 means no MLP."""

    d_model: int
    n_heads: int
    d_qk: int
    d_vo: int
    n_layers: int = 1
    mlp_width: int = 0
    positions: bool = False
    layer_norm: bool = False
    attention: AttentionKind = "softmax"
    share_tokens: bool = False

    def __post_init__(self) -> None:
        require_sizes({**asdict(self.layer), "n_layers": self.n_layers})
        require_sizes({"mlp_width": self.mlp_width}, least=0)
        for name in ("positions", "layer_norm", "share_tokens"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.attention not in get_args(AttentionKind):
            raise InputError(f"attention must be one of {', '.join(get_args(AttentionKind))}; got {self.attention!r}")

    @property
    def layer(self) -> LayerShape:
        """Shape of each attention layer."""
        return LayerShape(self.d_model, self.n_heads, self.d_qk, self.d_vo)

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int, n_shared: int = 0) -> dict[str, int]:
        """Return the number of stored scalars of each part; `n_shared` queries share an embedding row with a key."""
        parts = self.layer.parameters_by_part(n_keys, n_queries - (n_shared if self.share_tokens else 0), n_values)
        heads = {name: size * self.n_layers for name, size in parts.items() if name.startswith("w_")}
        norms = (1 + (2 if self.mlp_width else 1) * self.n_layers) * 2 * self.d_model if self.layer_norm else 0
        mlp = self.n_layers * (2 * self.d_model * self.mlp_width + self.mlp_width + self.d_model)
        return {
            **parts,
            **heads,
            "positions": 2 * self.d_model if self.positions else 0,
            "norms": norms,
            "mlp": mlp if self.mlp_width else 0,
        }

    def parameters(self, n_keys: int, n_queries: int, n_values: int, n_shared: int = 0) -> int:
        """Return the number of stored scalars."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values, n_shared).values())

    def in_words(self) -> str:
        """Return the sizes and the enabled options in one line.

        >>> TransformerShape(8, 2, 4, 4, n_layers=3, mlp_width=32, attention="linear").in_words()
        'transformer: d_model 8, 2 heads, d_qk 4, d_vo 4, 3 layers, MLP 32, linear attention'
        """
        words = [*self.layer.size_words(), f"{self.n_layers} layer{'s' if self.n_layers > 1 else ''}"]
        words.append(f"MLP {self.mlp_width}" if self.mlp_width else "no MLP")
        words.append(f"{self.attention} attention")
        options = {"positions": self.positions, "layer norm": self.layer_norm, "shared tokens": self.share_tokens}
        return f"transformer: {', '.join(words + [name for name, is_on in options.items() if is_on])}"


class Norm(eqx.Module):
    """Layer norm: (x - mean) / sqrt(variance + 1e-5) * scale + bias."""

    scale: Float[AnyArray, " d_model"]
    bias: Float[AnyArray, " d_model"]

    def __call__(self, x: Float[Array, "*at d_model"]) -> Float[Array, "*at d_model"]:
        """Return the normalised vectors."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + NORM_EPSILON) * self.scale + self.bias


class Mlp(eqx.Module):
    """Two-layer MLP with GELU: gelu(x W_in + b_in) W_out + b_out."""

    w_in: Float[AnyArray, "d_model width"]
    b_in: Float[AnyArray, " width"]
    w_out: Float[AnyArray, "width d_model"]
    b_out: Float[AnyArray, " d_model"]

    def __call__(self, x: Float[Array, "*at d_model"]) -> Float[Array, "*at d_model"]:
        """Return the output of the MLP, which is added to the stream."""
        return jax.nn.gelu(x @ self.w_in + self.b_in, approximate=False) @ self.w_out + self.b_out


class Block(eqx.Module):
    """One attention layer with optional norms and MLP."""

    w_q: Float[AnyArray, "heads d_model d_qk"]
    w_k: Float[AnyArray, "heads d_model d_qk"]
    w_v: Float[AnyArray, "heads d_model d_vo"]
    w_o: Float[AnyArray, "heads d_vo d_model"]
    attention_norm: Norm | None
    mlp_norm: Norm | None
    mlp: Mlp | None
    attention: AttentionKind = eqx.field(static=True)

    def __call__(
        self, at_key: Float[Array, "*key d_model"], at_query: Float[Array, "*query d_model"], pairing: Pairing
    ) -> tuple[Float[Array, "*key d_model"], Float[Array, "*pair d_model"]]:
        """Return the streams of both positions after this block."""
        key_in, query_in = (self.attention_norm(x) if self.attention_norm else x for x in (at_key, at_query))
        keys_at_key, keys_at_query = (jnp.einsum("...d,hde->...he", x, self.w_k) for x in (key_in, query_in))
        out_at_key, out_at_query = (
            jnp.einsum("...he,hed->...hd", jnp.einsum("...d,hde->...he", x, self.w_v), self.w_o)
            for x in (key_in, query_in)
        )
        scores = attention_scores(
            jnp.einsum("...d,hde->...he", query_in, self.w_q), keys_at_key, keys_at_query, pairing
        )
        at_pair = attend(scores, out_at_key, out_at_query, at_query, pairing, self.attention)
        at_key = at_key + self._on_itself(key_in, keys_at_key, out_at_key)
        if self.mlp is not None:
            at_key, at_pair = (x + self.mlp(self.mlp_norm(x) if self.mlp_norm else x) for x in (at_key, at_pair))
        return at_key, at_pair

    def _on_itself(
        self,
        key_in: Float[Array, "*key d_model"],
        keys: Float[Array, "*key heads d_qk"],
        out: Float[Array, "*key heads d_model"],
    ) -> Float[Array, "*key d_model"]:
        """Return the output at position k, which attends to itself: weight 1, or its score if attention is linear."""
        if self.attention != "linear":
            return out.sum(axis=-2)
        queries = jnp.einsum("...d,hde->...he", key_in, self.w_q) * (self.w_q.shape[-1] ** -0.5)
        return jnp.einsum("...h,...hd->...d", (queries * keys).sum(axis=-1), out)


class PairTransformer(PairReader):
    """Blocks between an embedding and an unembedding, with the interface of `AttentionLayer`.

    Embedding rows are the keys, then the queries that are not keys. `query_rows` is the row of each query.
    """

    embedding: Float[AnyArray, "tokens d_model"]
    query_rows: Int[AnyArray, " queries"]
    positions: Float[AnyArray, "2 d_model"] | None
    blocks: tuple[Block, ...]
    final_norm: Norm | None
    unembedding: Float[AnyArray, "d_model values"]
    shape: TransformerShape = eqx.field(static=True)

    @property
    def n_queries(self) -> int:
        """Number of query tokens."""
        return self.query_rows.shape[0]

    @property
    def n_values(self) -> int:
        """Number of values."""
        return self.unembedding.shape[1]

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array)))

    def scaled_scores(self, scale: Float[Array, ""] | float) -> PairTransformer:
        """Return a model whose attention scores are multiplied by `scale`."""
        w_q = [(block.w_q * scale).astype(block.w_q.dtype) for block in self.blocks]
        scaled: PairTransformer = eqx.tree_at(lambda model: [block.w_q for block in model.blocks], self, w_q)
        return scaled

    def parts(self) -> LayerTensor:
        """Return direct path, attention and circuits.

        Raises:
            InputError: the tensor is not such a sum, because of layer norm, an MLP or several layers.
        """
        reasons = {
            "several layers": self.shape.n_layers > 1,
            "layer norm": self.shape.layer_norm,
            "an MLP": self.shape.mlp_width > 0,
        }
        if any(reasons.values()):
            raise InputError(f"no circuits: {' and '.join(why for why, holds in reasons.items() if holds)}")
        model = on_device(self)
        block = model.blocks[0]
        heads = Heads(block.w_q, block.w_k, block.w_v, block.w_o)
        return decompose(*model._tokens(), heads, model.unembedding, self.shape.attention)

    def _tokens(self) -> tuple[Float[Array, "keys d_model"], Float[Array, "queries d_model"]]:
        first, last = (0.0, 0.0) if self.positions is None else (self.positions[0], self.positions[1])
        return self.embedding[: self.n_keys] + first, self.embedding[self.query_rows] + last

    def _read(self, pairing: Pairing, keys: Codes, queries: Codes) -> Float[Array, "*pair values"]:
        key_tokens, query_tokens = self._tokens()
        at_key, at_query = key_tokens[keys], query_tokens[queries]
        for block in self.blocks:
            at_key, at_query = block(at_key, at_query, pairing)
            pairing = Pairing(pairing.key, pairing.pair, pairing.pair)
        return (self.final_norm(at_query) if self.final_norm else at_query) @ self.unembedding


AnyLayer = AttentionLayer | PairTransformer
"""A model of this family."""


def init_transformer(
    shape: TransformerShape,
    n_keys: int,
    n_queries: int,
    n_values: int,
    *,
    key: RandomKey,
    dtype: str = "float32",
    query_rows: Sequence[int] | None = None,
) -> PairTransformer:
    """Initialise a model like `init_layer`, with the same weights for the same key; norms start as the identity.

    `query_rows` (see `shared_rows`) is required for `share_tokens` and must be None otherwise.
    """
    sizes = n_keys, n_queries, n_values
    return on_device(draw_transformer(shape, sizes, rng=generator_of(key), dtype=dtype, query_rows=query_rows))


def draw_transformer(
    shape: TransformerShape,
    sizes: tuple[int, int, int],
    *,
    rng: np.random.Generator,
    dtype: str = "float32",
    query_rows: Sequence[int] | None = None,
) -> PairTransformer:
    """Initialise a model like `init_transformer`, with the weights on the host."""
    if shape.share_tokens != (query_rows is not None):
        raise InputError("query_rows requires share_tokens, and vice versa")
    n_keys, n_queries, _ = sizes
    # JAX would silently clamp an invalid row.
    if query_rows is not None and (
        len(query_rows) != n_queries or min(query_rows) < 0 or max(query_rows) >= n_keys + n_queries
    ):
        raise InputError(
            f"query_rows must be {n_queries} integers from 0 to {n_keys + n_queries - 1}; got {list(query_rows)}"
        )
    first = draw_layer(shape.layer, *sizes, rng=rng, dtype=dtype)
    later = [draw_layer(shape.layer, 1, 1, 1, rng=rng, dtype=dtype) for _ in range(1, shape.n_layers)]
    rows: Any = np.asarray(range(n_keys, n_keys + n_queries) if query_rows is None else query_rows, dtype=np.int32)
    # Queries that share a key's row need no row.
    n_tokens = max(n_keys, int(rows.max()) + 1)
    return PairTransformer(
        embedding=first.embedding[:n_tokens],
        query_rows=rows,
        positions=draw(rng, (2, shape.d_model), 1, dtype) if shape.positions else None,
        blocks=tuple(_init_block(shape, layer, rng, dtype) for layer in (first, *later)),
        final_norm=_init_norm(shape, dtype),
        unembedding=first.unembedding,
        n_keys=n_keys,
        shape=shape,
    )


def _init_block(shape: TransformerShape, layer: AttentionLayer, rng: np.random.Generator, dtype: str) -> Block:
    return Block(
        layer.w_q,
        layer.w_k,
        layer.w_v,
        layer.w_o,
        attention_norm=_init_norm(shape, dtype),
        mlp_norm=_init_norm(shape, dtype) if shape.mlp_width else None,
        mlp=_init_mlp(shape, rng, dtype) if shape.mlp_width else None,
        attention=shape.attention,
    )


def _init_norm(shape: TransformerShape, dtype: str) -> Norm | None:
    return Norm(constant(1.0, shape.d_model, dtype), constant(0.0, shape.d_model, dtype)) if shape.layer_norm else None


def _init_mlp(shape: TransformerShape, rng: np.random.Generator, dtype: str) -> Mlp:
    width = shape.mlp_width
    return Mlp(
        draw(rng, (shape.d_model, width), shape.d_model, dtype),
        constant(0.0, width, dtype),
        draw(rng, (width, shape.d_model), width, dtype),
        constant(0.0, shape.d_model, dtype),
    )


def shared_rows(keys: tuple[str, ...], queries: tuple[str, ...]) -> list[int]:
    """Return the embedding row of each query, if queries that are also keys share a row.

    >>> shared_rows(("Astrid", "mother"), ("born_in", "mother"))
    [2, 1]
    """
    row_of = {name: row for row, name in enumerate(keys)}
    return [row_of.setdefault(name, len(row_of)) for name in queries]
