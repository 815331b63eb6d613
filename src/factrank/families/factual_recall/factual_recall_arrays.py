"""Models of sequences as plain arrays by name: the sizes of their parts, and the model of given arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Shaped

from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallOneHot, FactualRecallTransformer
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.nn import PartSizes, require_same_parts, require_sizes, to_jax


def part_sizes(shape: FactualRecallShape | FactualRecallOneHotShape, sizes: tuple[int, int, int]) -> PartSizes:
    """The size of every part of a model of this shape, for (n_keys, n_queries, n_values)."""
    n_keys, n_queries, n_values = sizes
    require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    layout = FactualRecallLayout.of(shape, *sizes)
    if isinstance(shape, FactualRecallOneHotShape):
        scores = shape.n_heads, layout.n_tokens
        return {"scores": scores, "values": (*scores, layout.n_outputs)}
    d_model, heads, width = shape.d_model, shape.n_heads, shape.mlp_width
    query_key = heads, d_model, shape.d_qk
    return {
        "embedding": (layout.n_tokens, d_model),
        "w_q": query_key,
        "w_k": query_key,
        "w_v": (heads, d_model, shape.d_vo),
        "w_o": (heads, shape.d_vo, d_model),
        "w_in": (d_model, width),
        "b_in": (width,),
        "w_out": (width, d_model),
        "unembedding": (d_model, layout.n_outputs),
    }


def model_from_arrays(
    shape: FactualRecallShape | FactualRecallOneHotShape,
    sizes: tuple[int, int, int],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
) -> FactualRecallTransformer | FactualRecallOneHot:
    """The model of this shape and these parts, with an `InputError` where one does not fit; float64 stays float64."""
    require_same_parts(part_sizes(shape, sizes), parts)
    layout = FactualRecallLayout.of(shape, *sizes)
    kind = FactualRecallOneHot if isinstance(shape, FactualRecallOneHotShape) else FactualRecallTransformer
    return kind(layout=layout, linear=shape.linear, **to_jax(parts))


def spec_of(model: object) -> FactualRecallShape | FactualRecallOneHotShape | None:
    """The shape of a model of sequences, None of anything else; it does not know the length of its sequences."""
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
