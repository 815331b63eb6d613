"""Layers and transformers as named arrays: the expected shape of each part, and models built from arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array, Shaped

from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.attention_layer import part_sizes as layer_parts
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import AnyLayer, Block, Mlp, Norm, PairTransformer, TransformerShape
from factrank.nn import PartSizes, require_same_parts, require_sizes, to_jax

QUERY_ROWS = "query_rows"


def model_from_arrays(
    shape: LayerShape | TransformerShape, sizes: tuple[int, int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> AnyLayer:
    """Build the model of a given shape for (n_keys, n_queries, n_values) from named arrays.

    float64 parts stay float64. JAX computes with them in 64 bits only inside `with jax.enable_x64(True):`; outside it
    warns and computes in 32.

    Raises:
        InputError: a part is missing, unknown, or has the wrong shape or type.
    """
    require_parts(shape, sizes, parts)
    arrays = to_jax(parts)
    if isinstance(shape, LayerShape):
        return AttentionLayer(n_keys=sizes[0], **arrays)
    return PairTransformer(
        embedding=arrays["embedding"],
        query_rows=arrays[QUERY_ROWS],
        positions=arrays.get("positions"),
        blocks=tuple(_block(shape, arrays, f"blocks.{layer}.") for layer in range(shape.n_layers)),
        final_norm=_norm(shape, arrays, "final_norm."),
        unembedding=arrays["unembedding"],
        n_keys=sizes[0],
        shape=shape,
    )


def part_sizes(
    shape: LayerShape | TransformerShape, sizes: tuple[int, int, int], n_tokens: int | None = None
) -> PartSizes:
    """Return the shape of every part of a model, for (n_keys, n_queries, n_values).

    The embedding has `n_tokens` rows: by default one per key and query, fewer if tokens are shared.
    """
    n_keys, n_queries, n_values = sizes
    require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    d_model, n_rows = shape.d_model, n_keys + n_queries if n_tokens is None else n_tokens
    heads = shape if isinstance(shape, LayerShape) else shape.layer
    plain = {name: size for name, (size, _) in layer_parts(heads, n_rows, 0, n_values).items()}
    if isinstance(shape, LayerShape):
        return plain
    norm, width = {"scale": (d_model,), "bias": (d_model,)}, shape.mlp_width
    mlp = {"w_in": (d_model, width), "b_in": (width,), "w_out": (width, d_model), "b_out": (d_model,)}
    block, expected = plain, {name: plain.pop(name) for name in ("embedding", "unembedding")}
    if shape.layer_norm:
        block |= _under("attention_norm", norm)
    if shape.mlp_width:
        block |= _under("mlp", mlp) | (_under("mlp_norm", norm) if shape.layer_norm else {})
    for layer in range(shape.n_layers):
        expected |= _under(f"blocks.{layer}", block)
    expected |= {QUERY_ROWS: (n_queries,)}
    expected |= {"positions": (2, d_model)} if shape.positions else {}
    return expected | (_under("final_norm", norm) if shape.layer_norm else {})


def require_parts(
    shape: LayerShape | TransformerShape, sizes: tuple[int, int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> None:
    """Raise an `InputError` naming the first part that is missing, unknown, or of the wrong shape or type."""
    n_layers = 1 if isinstance(shape, LayerShape) else shape.n_layers
    if n_layers > len(parts):  # checked before allocating a list of billions of layers
        raise InputError(f"expected the parts of {n_layers} layers; got only {len(parts)} arrays")
    shared = isinstance(shape, TransformerShape) and shape.share_tokens and np.ndim(parts.get("embedding", 0)) == 2
    n_tokens = len(parts["embedding"]) if shared else sizes[0] + sizes[1]
    require_same_parts(part_sizes(shape, sizes, n_tokens), parts, whole=(QUERY_ROWS,))
    if isinstance(shape, TransformerShape):
        _require_rows(parts[QUERY_ROWS], n_tokens, sizes[0])


def _require_rows(rows: Shaped[np.ndarray, " queries"], n_tokens: int, n_keys: int) -> None:
    if n_tokens < n_keys or rows.min() < 0 or rows.max() >= n_tokens:
        raise InputError(f"{QUERY_ROWS} must index {n_tokens} embedding rows, at least as many as the {n_keys} keys")


def _under(prefix: str, sizes: Mapping[str, tuple[int, ...]]) -> PartSizes:
    return {f"{prefix}.{name}": size for name, size in sizes.items()}


def _block(shape: TransformerShape, arrays: dict[str, Array], prefix: str) -> Block:
    mlp = [arrays[f"{prefix}mlp.{name}"] for name in ("w_in", "b_in", "w_out", "b_out") if shape.mlp_width]
    return Block(
        w_q=arrays[f"{prefix}w_q"],
        w_k=arrays[f"{prefix}w_k"],
        w_v=arrays[f"{prefix}w_v"],
        w_o=arrays[f"{prefix}w_o"],
        attention_norm=_norm(shape, arrays, f"{prefix}attention_norm."),
        mlp_norm=_norm(shape, arrays, f"{prefix}mlp_norm.") if mlp else None,
        mlp=Mlp(*mlp) if mlp else None,
        attention=shape.attention,
    )


def _norm(shape: TransformerShape, arrays: dict[str, Array], prefix: str) -> Norm | None:
    return Norm(arrays[f"{prefix}scale"], arrays[f"{prefix}bias"]) if shape.layer_norm else None
