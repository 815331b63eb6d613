"""Memorisers as plain arrays by name: the sizes of their parts, and the memoriser of given arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Shaped

from factrank.families.memoriser.memoriser import Memoriser, memoriser_of
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.nn import PartSizes, require_same_parts, to_jax


def part_sizes(shape: MemoriserShape, sizes: tuple[int, int]) -> PartSizes:
    """The size of every part of a memoriser of this shape, for (d_input, n_outputs)."""
    return shape.part_sizes(*sizes)


def model_from_arrays(
    shape: MemoriserShape, sizes: tuple[int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> Memoriser:
    """The memoriser of these parts, with an `InputError` where one does not fit; float64 stays float64."""
    require_same_parts(part_sizes(shape, sizes), parts)
    return memoriser_of(shape, to_jax(parts))
