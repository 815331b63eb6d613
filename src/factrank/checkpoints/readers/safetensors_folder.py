"""Read Hugging Face folders: safetensors in one file, or in shards with an index.

A safetensors file starts with the length of its header (8 bytes) and the header, a JSON object with the type, the shape
and the offsets of every tensor. All of them are checked against the size of the file before anything is read.

FP8 weights have scales in a second tensor: `NAME_scale_inv` with one number per block of `weight_block_size` (128 x
128 by default, as in DeepSeek-V3), or `NAME_scale` with one number per tensor or row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from jaxtyping import Float

from factrank.checkpoints.configuration import Settings, read_object
from factrank.checkpoints.readers.stored_tensor import ReadRows, StoredTensor, Tensors, require_apart
from factrank.errors import InputError
from factrank.host import require_file
from factrank.nn import unreadable

CONFIGURATION, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt.index", "tf_model.h5", "flax_model.msgpack")
LENGTH, LONGEST_HEADER, MOST_DIMENSIONS = 8, 100_000_000, 8
FLOATING: dict[str, tuple[Any, int]] = {
    "F64": (np.float64, 53),
    "F32": (np.float32, 24),
    "F16": (np.float16, 11),
    "BF16": (ml_dtypes.bfloat16, 8),
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, 4),
    "F8_E5M2": (ml_dtypes.float8_e5m2, 3),
}
"""Supported types, and the bits of their significands."""
FP8_BLOCK = 128


def read_folder(folder: Path, settings: Settings | None = None) -> Tensors:
    """Return the tensors of a Hugging Face folder, from one file or from the shards that the index names.

    Arguments:
        folder: Folder with `model.safetensors` or `model.safetensors.index.json`.
        settings: Its `config.json`, for the block size of FP8 weights.

    Raises:
        InputError: If a file is missing, truncated or not a safetensors file, or the index names tensors that are not
            in their shards.
    """
    if (folder / WEIGHTS).exists():
        return scaled(read_safetensors(folder / WEIGHTS), settings)
    tensors: dict[str, StoredTensor] = {}
    for path, names in _shards(folder).items():
        held = read_safetensors(path)
        missing = [name for name in names if name not in held]
        if missing:
            raise InputError(f"{path}: the tensor {missing[0]!r} is missing; {INDEX} says that it is there")
        tensors |= {name: held[name] for name in names}
    return scaled(tensors, settings)


def read_safetensors(path: Path) -> Tensors:
    """Return the tensors of one safetensors file; only its header is read.

    Tensors that are no floating-point numbers, such as position ids, are refused when they are read.
    """
    require_file(path)
    return {name: _tensor(path, name, entry) for name, entry in _header(path).items()}


@dataclass(frozen=True)
class _Entry:
    """Type, shape and place of a tensor in a file, in bytes from its start."""

    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int


def _header(path: Path) -> dict[str, _Entry]:
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH), "little")
            if length > min(LONGEST_HEADER, size - LENGTH):
                raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
            entries = json.loads(file.read(length))
        if not isinstance(entries, dict):
            raise ValueError("the header is not a JSON object")
        entries.pop("__metadata__", None)
        found = {name: _entry(path, name, entry, LENGTH + length, size) for name, entry in entries.items()}
        require_apart(str(path), ((entry.start, entry.stop, name) for name, entry in found.items()))
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from None


def _entry(path: Path, name: str, entry: Any, start: int, size: int) -> _Entry:
    """Check the entry of one tensor: its bytes are in the file, and as many as its shape and type need."""
    try:
        kind, shape, (first, last) = str(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(each) is int and each >= 0 for each in (*shape, first, last))
    except (TypeError, LookupError, ValueError):
        whole = False
    if not whole or len(shape) > MOST_DIMENSIONS or first > last:
        raise InputError(f"{path}: the tensor {name!r} has no type, shape and offsets in the header")
    if start + last > size:
        raise unreadable(path, ValueError(f"the tensor {name!r} ends after the end of the file"))
    needed = int(np.prod(shape, dtype=object)) * np.dtype(FLOATING[kind][0]).itemsize if kind in FLOATING else None
    if needed not in (None, last - first):
        raise InputError(
            f"{path}: the tensor {name!r} of shape {shape} needs {needed:,} bytes; it has {last - first:,}"
        )
    return _Entry(kind, shape, start + first, start + last)


def _tensor(path: Path, name: str, entry: _Entry) -> StoredTensor:
    if entry.kind not in FLOATING:
        return StoredTensor(name, entry.shape, entry.kind[:20], str(path), 0.0, 0.0, _refusal(path, name, entry.kind))
    dtype, bits = FLOATING[entry.kind]
    width, read = np.dtype(dtype).itemsize, _reader(path, entry, np.dtype(dtype))
    return StoredTensor(name, entry.shape, entry.kind, str(path), 2.0**-bits, 8.0 * width, read)


def _refusal(path: Path, name: str, kind: str) -> ReadRows:
    def read(_start: int, _stop: int) -> np.ndarray:
        raise InputError(f"{path}: the tensor {name!r} is of type {kind[:20]}; expected one of {', '.join(FLOATING)}")

    return read


def _reader(path: Path, entry: _Entry, dtype: np.dtype) -> ReadRows:
    inner = entry.shape[1:]
    width = int(np.prod(inner, dtype=object)) * dtype.itemsize

    def read(start: int, stop: int) -> np.ndarray:
        wanted = (stop - start) * width
        with path.open("rb") as file:
            file.seek(entry.start + start * width)
            content = np.fromfile(file, np.uint8, wanted)
        if len(content) != wanted:
            raise ValueError(f"{wanted:,} bytes were expected, but the file has {len(content):,}")
        numbers = content.view(dtype).reshape((stop - start, *inner) if entry.shape else ())
        return numbers if dtype in (np.float32, np.float64) else numbers.astype(np.float32)

    return read


def _shards(folder: Path) -> dict[Path, list[str]]:
    """Return the shards and the tensors that each contains according to the index."""
    index = folder / INDEX
    if not index.exists():
        for name in PICKLES:
            if (folder / name).exists():
                raise InputError(
                    f"{folder}: {name} is not supported, because reading it may run code; expected {WEIGHTS} "
                    "(save the model with safe_serialization=True)"
                )
        raise InputError(f"{folder}: expected {WEIGHTS} or {INDEX}")
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise InputError(f"{index}: expected a weight_map from tensor names to file names")
    shards: dict[Path, list[str]] = {}
    for tensor, name in places.items():
        if Path(name).name != name or not name.endswith(".safetensors") or not name.isprintable():
            raise InputError(f"{index}: expected names of safetensors files in the same folder; got {name[:60]!r}")
        shards.setdefault(folder / name, []).append(tensor)
    return shards


def scaled(tensors: Tensors, settings: Settings | None) -> Tensors:
    """Multiply each FP8 tensor by the scales that belong to it."""
    return {
        name: _scaled(tensor, tensors, settings) if tensor.kind.startswith("F8") else tensor
        for name, tensor in tensors.items()
    }


def _scaled(tensor: StoredTensor, tensors: Tensors, settings: Settings | None) -> StoredTensor:
    blocks, whole = tensors.get(f"{tensor.name}_scale_inv"), tensors.get(f"{tensor.name}_scale")
    if blocks is not None and len(tensor.shape) == 2:
        return _scaled_by_blocks(tensor, blocks, _block_size(settings))
    if tensor.shape and whole is not None and whole.shape in ((), (1,), tensor.shape[:1], (*tensor.shape[:1], 1)):
        n_rows, known = tensor.shape[0], whole

        def read(start: int, stop: int) -> np.ndarray:
            scale = known.rows().reshape(-1, *(1,) * (len(tensor.shape) - 1))
            return np.asarray(tensor.read(start, stop) * (scale[start:stop] if len(scale) == n_rows > 1 else scale))

        return replace(tensor, read=read)

    def refuse(_start: int, _stop: int) -> np.ndarray:
        raise ValueError(f"its scales are missing; expected {tensor.name}_scale_inv or {tensor.name}_scale")

    return replace(tensor, read=refuse)


def _scaled_by_blocks(tensor: StoredTensor, scales: StoredTensor, block: tuple[int, int]) -> StoredTensor:
    """Multiply the blocks of a matrix by one number each: W[i, j] S[i // block_0, j // block_1]."""
    (n_rows, n_columns), (down, across) = tensor.shape, block
    scales.require_shape((-(-n_rows // down), -(-n_columns // across)), f"blocks of {down} x {across}")

    def read(start: int, stop: int) -> Float[np.ndarray, "rows columns"]:
        wanted = scales.rows(start // down, -(-stop // down))
        down_each = wanted[np.arange(start, stop) // down - start // down]
        return np.asarray(tensor.read(start, stop) * down_each[:, np.arange(n_columns) // across])

    return replace(tensor, read=read)


def _block_size(settings: Settings | None) -> tuple[int, int]:
    given = (settings.entries if settings else {}).get("quantization_config")
    block = given.get("weight_block_size") if isinstance(given, dict) else None
    if block is None:
        return FP8_BLOCK, FP8_BLOCK
    if not (isinstance(block, list) and len(block) == 2 and all(type(n) is int and 0 < n <= 2**16 for n in block)):
        place = settings.place if settings else CONFIGURATION
        raise InputError(f"{place}: expected weight_block_size to be two positive integers; got {str(block)[:40]!r}")
    return block[0], block[1]
