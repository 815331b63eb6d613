"""The weights of a layer with one block, as the plain layer has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Shaped

from factrank.errors import InputError
from factrank.families.attention.attention_layer import PARTS, AttentionLayer
from factrank.families.attention.pair_transformer import PairTransformer


def folded_parts(layer: Any) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the weights of a layer whose logits are a sum over paths, with positions and shared rows folded in.

    Raises:
        InputError: If this is no attention layer, or its logits are not a sum over paths.
    """
    if isinstance(layer, AttentionLayer):
        return {name: np.asarray(getattr(layer, name)) for name in PARTS}
    if not isinstance(layer, PairTransformer):
        raise InputError(f"expected an attention layer; got a {type(layer).__name__}")
    shape = layer.shape
    reasons = {"several layers": shape.n_layers > 1, "layer norm": shape.layer_norm, "an MLP": shape.mlp_width > 0}
    found = [why for why, holds in reasons.items() if holds]
    if found:
        raise InputError(f"expected a layer whose logits are a sum over paths; this one has {' and '.join(found)}")
    block, rows = layer.blocks[0], np.asarray(layer.embedding)
    tokens = [rows[: layer.n_keys], rows[np.asarray(layer.query_rows)]]
    if layer.positions is not None:
        tokens = [token + position for token, position in zip(tokens, np.asarray(layer.positions), strict=True)]
    heads = {name: np.asarray(getattr(block, name)) for name in ("w_q", "w_k", "w_v", "w_o")}
    return {"embedding": np.concatenate(tokens), **heads, "unembedding": np.asarray(layer.unembedding)}
