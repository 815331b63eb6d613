"""Memories as plain arrays by name: the sizes of their parts, and the memory of given arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Shaped

from factrank.families.memory.associative_memory import AssociativeMemory, LinearMemory, MlpMemory
from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn import PartSizes, require_same_parts, require_sizes, to_jax


def part_sizes(shape: MemoryShape, sizes: tuple[int, int, int]) -> PartSizes:
    """The size of every part of a memory of this shape, for (n_keys, n_queries, n_values); the query is not read."""
    n_keys, n_queries, n_values = sizes
    require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    d_model, width = shape.d_model, shape.width
    embeddings = {"inputs": (n_keys, d_model), "outputs": (n_values, d_model)}
    if width is None:
        return {**embeddings, "weights": (d_model, d_model)}
    return {**embeddings, "w_in": (d_model, width), "w_out": (width, d_model)}


def model_from_arrays(
    shape: MemoryShape, sizes: tuple[int, int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> AssociativeMemory:
    """The memory of this shape and these parts, with an `InputError` where one does not fit; float64 stays float64."""
    require_same_parts(part_sizes(shape, sizes), parts)
    return LinearMemory(**to_jax(parts)) if shape.width is None else MlpMemory(**to_jax(parts))
