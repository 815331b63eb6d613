"""Plain arrays: the same weights bit for bit, and clear errors."""

import jax
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.attention.attention_arrays import model_from_arrays, part_sizes
from factrank.families.attention.attention_layer import init_layer, layer_from_arrays
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.nn.part_arrays import to_arrays

SIZES = (3, 2, 5)
SHAPES = [
    TransformerShape(4, 2, 3, 2, n_layers=layers, mlp_width=width, positions=positions, layer_norm=norm)
    for layers in (1, 3)
    for width in (0, 6)
    for positions in (False, True)
    for norm in (False, True)
]


def same(one, other):
    """Equal structure, types and bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_parts_of_every_transformer_have_the_sizes_that_its_shape_says(shape):
    model = init_transformer(shape, *SIZES, key=0)
    parts = to_arrays(model)
    assert {name: part.shape for name, part in parts.items()} == part_sizes(shape, SIZES)
    assert sum(part.size for name, part in parts.items() if name != "query_rows") == shape.parameters(*SIZES)
    same(model_from_arrays(shape, SIZES, parts), model)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_layer_from_its_own_arrays(dtype):
    with jax.enable_x64(dtype == "float64"):
        layer = init_layer(LayerShape(4, 2, 3, 1), *SIZES, key=0, dtype=dtype)
        same(layer_from_arrays(layer.n_keys, **to_arrays(layer)), layer)
    same(model_from_arrays(layer.shape, SIZES, to_arrays(layer)), layer)
    assert layer.w_q.dtype == dtype


def test_a_model_keeps_no_view_of_the_arrays_it_came_from():
    layer = init_layer(LayerShape(4, 2, 3, 1), *SIZES, key=0)
    parts = {name: part.copy() for name, part in to_arrays(layer).items()}
    model = model_from_arrays(layer.shape, SIZES, parts)
    for part in parts.values():
        part[:] = 7
    same(model, layer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts.pop("final_norm.bias"), "missing 'final_norm.bias', unknown none"),
        (lambda parts: parts.update({"x" * 1000: np.zeros(1)}), "missing none, unknown 'x{40}\\.\\.\\.'"),
        (
            lambda parts: parts.update(unembedding=np.zeros((4, 6))),
            r"bfloat16 of shape \[4, 5\]; got float64 of shape \[4",
        ),
        (
            lambda parts: parts.update(positions=np.zeros((2, 4), np.float16)),
            "positions must be float32, float64 or bfloat16",
        ),
        (lambda parts: parts.update(query_rows=np.zeros(2)), "query_rows must be int32 or int64"),
        (lambda parts: parts.update(query_rows=np.array([3, 5])), "query_rows must index 5 embedding rows"),
        (lambda parts: parts.update(query_rows=np.array([-1, 4])), "query_rows must index 5 embedding rows"),
        (lambda parts: [parts.pop(name) for name in list(parts)[2:]], "parts of 3 layers; got only 2 arrays"),
    ],
)
def test_parts_that_do_not_fit_are_named(change, message):
    parts = to_arrays(init_transformer(SHAPES[-1], *SIZES, key=0))
    change(parts)
    with pytest.raises(InputError, match=message):
        model_from_arrays(SHAPES[-1], SIZES, parts)
