"""Weights of a layer in float64, which represents every supported precision exactly, as used in proofs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from factrank.certificates import ARITHMETIC
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.pair_transformer import AnyLayer, Block, PairTransformer
from factrank.nn import to_arrays


class PlainWeights(NamedTuple):
    """Embedding rows of keys and queries, head weights, and unembedding."""

    keys: Float[np.ndarray, "keys d_model"]
    queries: Float[np.ndarray, "queries d_model"]
    w_q: Float[np.ndarray, "heads d_model d_qk"]
    w_k: Float[np.ndarray, "heads d_model d_qk"]
    w_v: Float[np.ndarray, "heads d_model d_vo"]
    w_o: Float[np.ndarray, "heads d_vo d_model"]
    unembedding: Float[np.ndarray, "d_model values"]


def why_not_plain(layer: AnyLayer) -> str | None:
    """Return why a model is not a plain attention layer; None if it is one.

    A transformer is judged by the parts that it contains, not only by its shape.
    """
    if type(layer) is AttentionLayer:
        return None
    if type(layer) is not PairTransformer:  # a subclass may compute something else
        return f"no proof is known for a layer of the class {type(layer).__name__}"
    shape, blocks = layer.shape, layer.blocks
    strange = next((block for block in blocks if type(block) is not Block), None)
    if strange is not None:
        return f"no proof is known for a block of the class {type(strange).__name__}"
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
    """Return the matrices of a layer for which `why_not_plain` returns None."""
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


def _wide(part: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return part.astype(np.float64) if part.dtype.name in ARITHMETIC else np.empty(0)
