"""Decompose the tensor of a model into direct path, attention and circuits in full precision, if possible."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import equinox as eqx

from factrank.errors import InputError
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.layer_tensor import LayerTensor
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.readouts import ReadsFacts, full_precision


@runtime_checkable
class Layer(ReadsFacts, Protocol):
    """A model with heads; `parts` raises an `InputError` if the tensor of a transformer is not a sum of paths."""

    @property
    def shape(self) -> LayerShape | TransformerShape:
        """Return the sizes."""

    def parts(self) -> LayerTensor:
        """Return direct path, attention and circuits."""


def has_parts(model: ReadsFacts) -> TypeGuard[Layer]:
    """Return whether the model's tensor is the sum of a direct path and heads."""
    if not isinstance(model, Layer):
        return False
    try:
        with full_precision(model):
            eqx.filter_eval_shape(_parts, model)
    except InputError:
        return False
    return True


def has_shares(model: ReadsFacts) -> TypeGuard[Layer]:
    """Return whether the model has parts and softmax attention, whose weights are in [0, 1] and sum to 1."""
    return has_parts(model) and getattr(model.shape, "attention", "softmax") == "softmax"


def parts_of(model: ReadsFacts) -> LayerTensor:
    """Return direct path, attention and circuits.

    Raises:
        InputError: the model's tensor is not the sum of a direct path and heads.
    """
    if not isinstance(model, Layer):
        raise InputError(f"the tensor of a {type(model).__name__} is not a sum of a direct path and heads")
    with full_precision(model):
        parts: LayerTensor = _parts(model)
    return parts


@eqx.filter_jit
def _parts(layer: Layer) -> LayerTensor:
    return layer.parts()
