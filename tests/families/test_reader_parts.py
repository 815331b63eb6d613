"""Memories and models of sequences as arrays by name: bit for bit back, and what does not fit is refused."""

import jax
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.factual_recall import family as factual_recall_family
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import draw_factual_recall
from factrank.families.memory import family as memory_family
from factrank.families.memory.associative_memory import draw_memory
from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn.part_arrays import to_arrays

SIZES = (6, 3, 12)
SHAPES = {
    "linear": MemoryShape(4),
    "mlp": MemoryShape(4, width=5),
    "attention": FactualRecallShape(4, 2, 1, 3),
    "everything": FactualRecallShape(4, 2, 1, 3, 7, 9, 5, linear=True, copy_groups=2, copy_size=3),
    "one-hot": FactualRecallOneHotShape(2, linear=False, n_noise=5),
}


def family_of(shape):
    return memory_family.FAMILY if isinstance(shape, MemoryShape) else factual_recall_family.FAMILY


def drawn(shape, dtype="float32"):
    rng = np.random.default_rng(0)
    if isinstance(shape, MemoryShape):
        return draw_memory(shape, SIZES[0], SIZES[2], rng=rng, dtype=dtype)
    return draw_factual_recall(shape, SIZES, rng=rng, dtype=dtype)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back(name, dtype):
    model = drawn(SHAPES[name], dtype)
    parts = to_arrays(model)
    again = family_of(SHAPES[name]).from_parts(SHAPES[name], SIZES, parts)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    for part, other in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        assert part.dtype == other.dtype
        np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("name", SHAPES)
def test_parts_have_the_sizes_that_are_counted(name):
    shape = SHAPES[name]
    counted = {part: int(np.prod(size)) for part, size in shape.part_sizes(*SIZES).items()}
    assert counted == {part: int(array.size) for part, array in to_arrays(drawn(shape)).items()}
    assert counted == shape.parameters_by_part(*SIZES)
    assert shape.parameters(*SIZES) == sum(counted.values()) == drawn(shape).parameters


def test_what_the_papers_count():
    assert MemoryShape(8).memory_parameters == 64
    assert MemoryShape(8, width=3).memory_parameters == 2 * 3 * 8
    parts = SHAPES["everything"].parameters_by_part(*SIZES)
    counted = ("w_q", "w_k", "w_v", "w_o", "w_in", "w_out")
    assert SHAPES["everything"].counted_parameters == sum(parts[part] for part in counted)
    assert FactualRecallShape(32, 8, 4, 4, 64).counted_parameters == 4 * 8 * 4 * 32 + 2 * 64 * 32


@pytest.mark.parametrize("name", SHAPES)
def test_arrays_that_do_not_fit_are_named(name):
    shape, parts = SHAPES[name], to_arrays(drawn(SHAPES[name]))
    first = next(iter(parts))
    for wrong, message in (
        ({part: array for part, array in parts.items() if part != first}, f"missing '{first}'"),
        (parts | {"w_z": parts[first]}, "unknown 'w_z'"),
        (parts | {first: parts[first][:-1]}, f"{first} must be"),
        (parts | {first: parts[first].astype(np.int32)}, f"{first} must be"),
    ):
        with pytest.raises(InputError, match=message):
            family_of(shape).from_parts(shape, SIZES, wrong)
