"""Parts of associative memories and of models of sequences: their sizes, and the model of given arrays.

What `part_arrays` is for attention layers; it calls this for the other models.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array

from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallOneHot, FactualRecallTransformer
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.memory.associative_memory import AssociativeMemory, LinearMemory, MlpMemory
from factrank.families.memory.memory_shape import MemoryShape

Reader = AssociativeMemory | FactualRecallTransformer | FactualRecallOneHot
ReaderShape = MemoryShape | FactualRecallShape | FactualRecallOneHotShape


def reader_part_sizes(shape: ReaderShape, sizes: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
    """The size of every part of a model of this shape, for (n_keys, n_queries, n_values)."""
    if isinstance(shape, MemoryShape):
        return _memory_sizes(shape, sizes)
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


def reader_from_arrays(shape: ReaderShape, sizes: tuple[int, int, int], arrays: Mapping[str, Array]) -> Reader:
    """The model of these parts, which are of the right sizes."""
    if isinstance(shape, MemoryShape):
        return LinearMemory(**arrays) if shape.width is None else MlpMemory(**arrays)
    layout = FactualRecallLayout.of(shape, *sizes)
    if isinstance(shape, FactualRecallOneHotShape):
        return FactualRecallOneHot(layout=layout, linear=shape.linear, **arrays)
    return FactualRecallTransformer(layout=layout, linear=shape.linear, **arrays)


def _memory_sizes(shape: MemoryShape, sizes: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
    n_keys, _, n_values = sizes
    d_model, width = shape.d_model, shape.width
    embeddings = {"inputs": (n_keys, d_model), "outputs": (n_values, d_model)}
    if width is None:
        return {**embeddings, "weights": (d_model, d_model)}
    return {**embeddings, "w_in": (d_model, width), "w_out": (width, d_model)}
