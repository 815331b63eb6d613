"""Read vectors, token numbers or images from .npy and .safetensors files, without executing or unpickling anything."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from jaxtyping import Num, Shaped
from safetensors import SafetensorError, safe_open

from factrank.checkpoints import FLOATING
from factrank.errors import InputError
from factrank.foreign_text import few
from factrank.host import require_file
from factrank.nn import require_type, unreadable

MOST_BYTES = 2**34
NUMBERS = (*FLOATING, "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")


def read_vectors(path: Path, name: str | None = None) -> Num[np.ndarray, "..."]:
    """Read finite token vectors of shape [vectors, dimension] or [contexts, tokens, dimension]."""
    array = read_array(path, name)
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(f"{path}: expected [vectors, dimension] or [contexts, tokens, dimension]; got {array.shape}")
    if not np.issubdtype(array.dtype, np.floating) and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{path}: expected real numbers; got type {array.dtype}")
    return array


def read_images(path: Path) -> Num[np.ndarray, "examples channels rows columns"]:
    """Read images of shape [examples, channels, rows, columns], or [examples, rows, columns] for one channel."""
    array = read_array(path)
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise InputError(f"{path}: expected numbers [examples, channels, rows, columns]; got {array.shape}")
    return array


def read_ids(path: Path) -> Num[np.ndarray, "..."]:
    """Read token numbers of shape [examples, tokens], or [tokens] for one text."""
    array = read_array(path)
    if array.ndim not in (1, 2) or 0 in array.shape or array.dtype.kind not in "iu":
        raise InputError(f"{path}: expected integers [examples, tokens] or [tokens]; got {_described(array)}")
    return array.astype(np.int64)


def read_array(path: Path, name: str | None = None) -> Shaped[np.ndarray, "..."]:
    """Read the array in a .npy file, or the named (or only) tensor of a .safetensors file."""
    require_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES >> 30} GiB")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        if name is not None:
            raise InputError(f"{path}: a .npy file contains a single unnamed array; omit --tensor")
        array = _npy(path)
    elif suffix == ".safetensors":
        array = _tensor(path, name)
    else:
        raise InputError(f"{path}: expected a file that ends in .npy or .safetensors")
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:  # computations are in float64
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
        raise InputError(f"{path}: expected finite numbers; got {array[tuple(place)]} at {place}")
    return array


def _npy(path: Path) -> Shaped[np.ndarray, "..."]:
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # NumPy parses the header as Python and can raise many kinds of errors
        if "pickle" in str(error).lower():
            error = ValueError("it is pickled, or not a .npy file")
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: not a readable .npy file of plain numbers: {reason}") from None
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise InputError(f"{path}: not a readable .npy file of plain numbers")
    return array


def _tensor(path: Path, name: str | None) -> Shaped[np.ndarray, "..."]:
    try:
        with safe_open(path, framework="numpy") as file:
            names = sorted(file.keys())
            if name is None and len(names) == 1:
                name = names[0]
            if name is not None and name in names:
                require_type(path, name, file.get_slice(name).get_dtype(), NUMBERS)
                return np.asarray(file.get_tensor(name))
    except (SafetensorError, OSError, ValueError, OverflowError, TypeError, MemoryError) as error:
        raise unreadable(path, error) from None
    if not names:
        raise InputError(f"{path}: contains no tensors")
    wanted = "contains several tensors; choose one with --tensor" if name is None else f"has no tensor {name[:60]!r}"
    raise InputError(f"{path}: {wanted}; the tensors are {few(names, 8)}")


def _described(array: Shaped[np.ndarray, "..."]) -> str:
    return f"{array.dtype} of shape {array.shape}"
