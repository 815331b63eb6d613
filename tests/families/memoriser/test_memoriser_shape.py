"""The sizes of a memoriser: those that are counted are those of its weights, which come back bit for bit."""

from math import sqrt

import jax
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.memoriser.family import FAMILY
from factrank.families.memoriser.memoriser import draw_memoriser
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.nn.part_arrays import to_arrays

SHAPES = {
    "authors": (MemoriserShape(), (64, 100)),
    "narrow": (MemoriserShape(3, 8, 2, 4, positions=False, scaled_by="d_qk"), (5, 1)),
    "without embedding": (MemoriserShape(2, 6, 3, embedded=False), (6, 7)),
}


def drawn(name, dtype="float32"):
    shape, sizes = SHAPES[name]
    return draw_memoriser(shape, *sizes, rng=np.random.default_rng(0), dtype=dtype)


@pytest.mark.parametrize("name", SHAPES)
def test_parts_have_the_sizes_that_are_counted(name):
    shape, sizes = SHAPES[name]
    arrays = to_arrays(drawn(name))
    assert {part: array.shape for part, array in arrays.items()} == shape.part_sizes(*sizes)
    assert {part: array.size for part, array in arrays.items()} == shape.parameters_by_part(*sizes)
    heads = 2 * shape.n_heads * shape.d_model * (shape.d_qk + shape.d_vo)
    embedding = (sizes[0] + 1) * shape.d_model if shape.embedded else 0
    assert shape.parameters(*sizes) == embedding + heads + (shape.d_model + 1) * sizes[1] == drawn(name).parameters


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back(name, dtype):
    model, (shape, sizes) = drawn(name, dtype), SHAPES[name]
    again = FAMILY.from_parts(shape, sizes, to_arrays(model))
    assert jax.tree.structure(again) == jax.tree.structure(model)
    for part, other in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        assert part.dtype == other.dtype
        np.testing.assert_array_equal(part, other)


def test_what_does_not_fit_is_refused():
    shape, sizes = SHAPES["narrow"]
    parts = to_arrays(drawn("narrow"))
    without = {name: part for name, part in parts.items() if name != "w_o"}
    for changed, message in (
        (without, "missing 'w_o', unknown none"),
        (parts | {"bias": parts["w_o"]}, "missing none, unknown 'bias'"),
        (parts | {"w_q": parts["w_q"][:2]}, r"w_q must be .* of shape \[3, 8, 2\]; got float32 of shape \[2, 8, 2\]"),
        (parts | {"w_q": parts["w_q"].astype(int)}, "w_q must be"),
    ):
        with pytest.raises(InputError, match=message):
            FAMILY.from_parts(shape, sizes, changed)
    with pytest.raises(InputError, match="without an embedding, vectors must have d_model = 6 dimensions; got 5"):
        SHAPES["without embedding"][0].parameters(5, 2)
    with pytest.raises(InputError, match="n_outputs must be"):
        shape.parameters(5, 0)


def test_scores_are_divided_by_the_root_of_the_size_that_is_named():
    assert MemoriserShape(d_model=16, d_qk=9).score_divisor == 4
    assert MemoriserShape(d_model=16, d_qk=9, scaled_by="d_qk").score_divisor == 3
    assert MemoriserShape(d_qk=5, scaled_by="d_qk").score_divisor == sqrt(5)


@pytest.mark.parametrize("name", ["n_heads", "d_model", "d_qk", "d_vo"])
def test_sizes_are_at_least_one(name):
    with pytest.raises(InputError, match=f"{name} must be an integer of at least 1; got 0"):
        MemoriserShape(**{name: 0})
