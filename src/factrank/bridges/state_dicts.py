"""Tensors of a state dict as NumPy arrays in one precision; torch is imported only if a tensor or module needs it.

Nothing is unpickled: a state dict is a mapping from names to tensors or arrays that are already in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from factrank.errors import InputError
from factrank.foreign_text import few, quoted
from factrank.nn import REAL

AnyTensor = Shaped[np.ndarray, "..."]
Tensors = dict[str, AnyTensor]


def torch_library() -> Any:
    """Import torch, or raise an `InputError` that explains how to install it."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(f"this requires PyTorch ({error}): pip install 'factrank[torch]'") from None


def is_module(given: object) -> bool:
    """Return whether an object is a `torch.nn.Module`, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


def state_dict_of(given: Any) -> Mapping[str, Any]:
    """Return the state dict of a module, or a state dict itself.

    Raises:
        InputError: the object is neither.
    """
    state = given.state_dict() if is_module(given) else given
    if not isinstance(state, Mapping):
        raise InputError(
            f"expected a torch.nn.Module or a state dict (tensors by name); got {type(given).__name__}. A .safetensors "
            "file becomes a state dict with safetensors.numpy.load_file"
        )
    if not state:
        raise InputError("the state dict is empty")
    wrong = [name for name in state if not isinstance(name, str)]
    if wrong:
        raise InputError(f"the names in a state dict must be strings; got {few(wrong)}")
    return state


def to_array(name: str, tensor: Any) -> AnyTensor:
    """Copy a tensor or array to NumPy in its own precision; bfloat16 is copied as bits.

    Raises:
        InputError: it is no dense tensor or array in memory, or its type is not supported.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        kind = str(tensor.dtype).removeprefix("torch.")
        if tensor.is_meta or tensor.is_quantized or tensor.layout != torch.strided:
            state = "meta" if tensor.is_meta else "quantised" if tensor.is_quantized else str(tensor.layout)
            raise InputError(f"{quoted(name)} must be a dense tensor in memory; got a {state} tensor of {kind}")
        plain = tensor.detach().cpu().contiguous()
        bits = plain.view(torch.int16) if tensor.dtype == torch.bfloat16 else plain
        array = np.array(bits.numpy()) if kind in (*REAL, "float16", "bool", "int64", "int32") else None
        if array is None:
            raise InputError(f"{quoted(name)} has the type {kind}; expected {', '.join(REAL)}")
        return array.view(jnp.bfloat16) if bits is not plain else array
    if isinstance(tensor, np.ndarray | jnp.ndarray):
        return np.array(tensor)
    raise InputError(f"{quoted(name)} must be a tensor or an array; got {type(tensor).__name__}")


def require_weights(tensors: Mapping[str, AnyTensor]) -> None:
    """Raise an `InputError` if a tensor is not an array of finite real weights in a supported precision."""
    for name, array in tensors.items():
        if not array.ndim or not array.size:
            raise InputError(f"{quoted(name)} must not be empty or a single number; got shape {list(array.shape)}")
        if array.dtype.name not in REAL:
            raise InputError(
                f"{quoted(name)} has the type {array.dtype}; expected {', '.join(REAL)}. Convert the model first, for "
                "example with .float(): quantised weights must be dequantised"
            )
        if not np.isfinite(array.astype(np.float64)).all():
            raise InputError(f"{quoted(name)} contains NaN or infinite numbers, as after diverged training")


def in_one_precision(tensors: Mapping[str, AnyTensor]) -> Tensors:
    """Convert all tensors to the widest of their precisions, which changes no value."""
    types = {array.dtype for array in tensors.values()}
    widest = max(types, key=lambda kind: ("bfloat16", "float32", "float64").index(kind.name))
    return {name: array.astype(widest) for name, array in tensors.items()}
