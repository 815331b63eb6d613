"""Sizes and parameter counts: the formulas against stored scalars, mistakes named."""

from dataclasses import FrozenInstanceError

import equinox as eqx
import jax
import pytest
from hypothesis import given

from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from slow_layers import layer_sizes


@given(layer_sizes())
def test_parameters_are_the_stored_scalars(drawn):
    sizes, vocabulary, seed = drawn
    shape = LayerShape(*sizes)
    layer = init_layer(shape, *vocabulary, key=seed)
    stored = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(layer, eqx.is_array)))
    by_part = shape.parameters_by_part(*vocabulary)
    assert layer.shape == shape
    assert stored == layer.parameters == shape.parameters(*vocabulary) == sum(by_part.values())
    assert {part: getattr(layer, part).size for part in by_part} == by_part


def test_parameters_formula():
    """(K + Q + V) d_model + 2 H d_model (d_qk + d_vo)."""
    shape = LayerShape(d_model=7, n_heads=3, d_qk=2, d_vo=5)
    assert shape.parameters(11, 4, 13) == (11 + 4 + 13) * 7 + 2 * 3 * 7 * (2 + 5)
    assert shape.parameters(0, 0, 0) == 2 * 3 * 7 * (2 + 5)


@pytest.mark.parametrize("name", ["d_model", "n_heads", "d_qk", "d_vo"])
@pytest.mark.parametrize("size", [0, -1, True])
def test_bad_sizes_are_named(name, size):
    with pytest.raises(InputError, match=f"{name} must be an integer of at least 1; got {size!r}"):
        LayerShape(**{"d_model": 4, "n_heads": 2, "d_qk": 2, "d_vo": 2, name: size})


def test_bad_vocabularies_are_named():
    shape = LayerShape(4, 1, 2, 2)
    with pytest.raises(InputError, match="n_queries must be an integer of at least 0; got -2"):
        shape.parameters(3, -2, 5)
    with pytest.raises(InputError, match="n_values must be an integer of at least 1; got 0"):
        init_layer(shape, 3, 2, 0, key=0)


def test_it_is_frozen_and_hashable():
    shape = LayerShape(4, 1, 2, 2)
    assert {shape: 1}[LayerShape(4, 1, 2, 2)] == 1
    with pytest.raises(FrozenInstanceError):
        shape.d_model = 5
