"""The parts of a model's tensor, where it has them: direct path, attention, circuits, in full precision."""

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
    """A model of heads; `parts` may still raise an `InputError`, for a transformer whose tensor is not their sum."""

    @property
    def shape(self) -> LayerShape | TransformerShape:
        """The sizes."""

    def parts(self) -> LayerTensor:
        """Direct path, attention and circuits."""


def has_parts(model: ReadsFacts) -> TypeGuard[Layer]:
    """Whether the model's tensor is the sum of a direct path and heads."""
    if not isinstance(model, Layer):
        return False
    try:
        with full_precision(model):
            eqx.filter_eval_shape(_parts, model)
    except InputError:
        return False
    return True


def has_shares(model: ReadsFacts) -> TypeGuard[Layer]:
    """Whether moreover its attention weights are shares, in [0, 1] with sum 1: not so for linear attention."""
    return has_parts(model) and getattr(model.shape, "attention", "softmax") == "softmax"


def parts_of(model: ReadsFacts) -> LayerTensor:
    """Direct path, attention and circuits, or an `InputError` that says why there are none."""
    if not isinstance(model, Layer):
        raise InputError(f"{type(model).__name__} has no parts: its tensor is not direct path plus heads")
    with full_precision(model):
        parts: LayerTensor = _parts(model)
    return parts


@eqx.filter_jit
def _parts(layer: Layer) -> LayerTensor:
    return layer.parts()
