"""Plain weights: a layer as the matrices that its proof speaks of, in float64, which holds every precision exactly."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.pair_transformer import PairTransformer
from factrank.families.attention.part_arrays import AnyModel, to_arrays
from factrank.nn.precision import Precision

AnyLayer = AttentionLayer | PairTransformer


class PlainWeights(NamedTuple):
    """The embedding rows of keys and queries, the heads, the unembedding."""

    keys: Float[np.ndarray, "keys d_model"]
    queries: Float[np.ndarray, "queries d_model"]
    w_q: Float[np.ndarray, "heads d_model d_qk"]
    w_k: Float[np.ndarray, "heads d_model d_qk"]
    w_v: Float[np.ndarray, "heads d_model d_vo"]
    w_o: Float[np.ndarray, "heads d_vo d_model"]
    unembedding: Float[np.ndarray, "d_model values"]


def precision_of(model: AnyModel) -> Precision:
    """The precision of the weights, one for all."""
    names = {leaf.dtype.name for leaf in jax.tree.leaves(model) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(names) != 1 or not names <= ARITHMETIC.keys():
        raise InputError(f"all weights must be of one precision among {', '.join(ARITHMETIC)}; got {sorted(names)}")
    return cast("Precision", names.pop())


def why_not_plain(layer: AnyLayer) -> str | None:
    """What keeps a model from being one pure attention layer, None where it is one.

    A transformer is judged by the parts that it has, whatever its shape says of them.
    """
    if type(layer) is AttentionLayer:
        return None
    if type(layer) is not PairTransformer:  # a subclass may compute something else
        return f"no proof is known for a layer of the class {type(layer).__name__}"
    shape, blocks = layer.shape, layer.blocks
    norms = [layer.final_norm, *(norm for block in blocks for norm in (block.attention_norm, block.mlp_norm))]
    kinds = {shape.attention, *(block.attention for block in blocks)}
    obstacles = {
        "several layers": shape.n_layers > 1 or len(blocks) > 1,
        "layer norm": shape.layer_norm or any(norm is not None for norm in norms),
        "an MLP": shape.mlp_width > 0 or any(block.mlp is not None for block in blocks),
        "positions": shape.positions or layer.positions is not None,
        f"{' and '.join(sorted(kinds))} attention": kinds != {"softmax"},
    }
    found = [name for name, present in obstacles.items() if present]
    return f"no proof is known for a transformer with {' and '.join(found)}" if found else None


def plain_weights(layer: AnyLayer) -> PlainWeights:
    """The matrices of a layer for which `why_not_plain` finds nothing."""
    wide = {name: _wide(part) for name, part in to_arrays(layer).items()}
    embedding, prefix, rows = wide["embedding"], "", np.arange(layer.n_keys, layer.n_keys + layer.n_queries)
    if isinstance(layer, PairTransformer):
        prefix, rows = "blocks.0.", np.asarray(layer.query_rows)
    return PlainWeights(
        keys=embedding[: layer.n_keys],
        queries=embedding[rows],
        w_q=wide[f"{prefix}w_q"],
        w_k=wide[f"{prefix}w_k"],
        w_v=wide[f"{prefix}w_v"],
        w_o=wide[f"{prefix}w_o"],
        unembedding=wide["unembedding"],
    )


def fingerprint_of(model: AnyModel) -> str:
    """SHA-256 of the names, types, sizes and bytes of all weights."""
    digest = hashlib.sha256(b"factrank weights 1")
    for name, part in sorted(to_arrays(model).items()):
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _wide(part: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return part.astype(np.float64) if part.dtype.name in ARITHMETIC else np.empty(0)
