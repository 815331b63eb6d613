"""Tensors that are already in memory: a state dict of NumPy arrays or of PyTorch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from factrank.checkpoints.readers.stored_tensor import StoredTensor, Tensors
from factrank.errors import InputError

BITS: dict[str, int] = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of the significands."""
KINDS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def read_state_dict(arrays: Mapping[str, Any], place: str = "state dict") -> Tensors:
    """Return the floating-point tensors of a state dict; others, such as masks, are skipped.

    Arguments:
        arrays: Arrays by name: NumPy arrays, or tensors of PyTorch, which are copied to the CPU one at a time.
        place: What messages call the state dict.
    """
    kinds = {name: str(getattr(array, "dtype", None)).removeprefix("torch.") for name, array in arrays.items()}
    if not any(kind in BITS for kind in kinds.values()):
        raise InputError(f"{place}: expected arrays of {', '.join(BITS)} by name")
    return {name: _tensor(name, array, kinds[name], place) for name, array in arrays.items() if kinds[name] in BITS}


def _tensor(name: str, array: Any, kind: str, place: str) -> StoredTensor:
    bits = float(KINDS[kind].strip("BF"))
    return StoredTensor(name, tuple(array.shape), KINDS[kind], place, 2.0 ** -BITS[kind], bits, partial(_rows, array))


def _rows(array: Any, start: int, stop: int) -> np.ndarray:
    rows = array[start:stop] if array.shape else array
    if hasattr(rows, "detach"):  # a tensor of PyTorch, which NumPy reads as float32 or float64 only
        rows = rows.detach().cpu()
        rows = rows if str(rows.dtype) == "torch.float64" else rows.float()
    numbers = np.asarray(rows)
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float32)
