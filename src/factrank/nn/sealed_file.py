"""Sealed files: safetensors files with a format name, a version and a checksum.

The metadata contain `format`, `version` and `sha256`. The checksum covers the canonical JSON (sorted keys, no spaces,
ASCII) of `{"metadata": {... all but sha256}, "tensors": {name: [dtype, shape]}}`, followed by the bytes of the tensors
sorted by name. It detects corruption and careless edits, but is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from factrank.errors import InputError
from factrank.host import replacing, require_file
from factrank.nn.unreadable_files import unreadable

SUFFIX = ".safetensors"
CODES = {"float32": "F32", "float64": "F64", "bfloat16": "BF16", "int32": "I32", "int64": "I64", "uint8": "U8"}
"""Allowed dtypes, with their safetensors names."""
MOST_METADATA, MOST_BYTES = 2**20, 2**34
"""Size limits; a malicious sparse file can claim any size without using disk space."""


@dataclass(frozen=True, eq=False)
class Sealed:
    """Content of a sealed file; `metadata` excludes format, version and checksum."""

    tensors: dict[str, Shaped[np.ndarray, "..."]]
    metadata: dict[str, str]


def write_sealed(path: Path, content: Sealed, form: str, version: int) -> None:
    """Write a sealed file atomically; if an error is raised, an existing file is left unchanged."""
    if path.suffix.lower() != SUFFIX:
        raise InputError(f"{path}: expected a file name that ends in {SUFFIX}")
    tensors = {name: np.asarray(tensor, order="C") for name, tensor in content.tensors.items()}
    _require_room(path, sum(tensor.nbytes for tensor in tensors.values()))
    metadata = {"format": form, "version": str(version), **content.metadata}
    if sum(map(len, metadata.values())) > MOST_METADATA:
        raise InputError(f"{path}: the notes have more than {MOST_METADATA} characters, the limit of a layer file")
    packed = save(tensors, {**metadata, "sha256": checksum(tensors, metadata)})
    with replacing(path) as stream:
        stream.write(packed)


def read_sealed(path: Path, form: str, version: int) -> Sealed:
    """Read a sealed file of the given format.

    Raises:
        InputError: If the file has another format, a newer version, a wrong checksum, or cannot be read.
    """
    require_file(path)
    _require_room(path, path.stat().st_size)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            _require_mark(path, metadata, form, version)
            for name in file.keys():  # noqa: SIM118 - not a mapping
                require_type(path, name, file.get_slice(name).get_dtype())
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, OverflowError, MemoryError) as error:
        raise unreadable(path, error) from None
    found, expected = metadata.pop("sha256", None), None
    if len(found or "") == 64:
        expected = checksum(tensors, metadata)
    if found is None or found != expected:
        raise InputError(f"{path}: the checksum does not match the content; the file was modified or is corrupt")
    return Sealed(tensors, {key: text for key, text in metadata.items() if key not in ("format", "version")})


def format_of(path: Path) -> str | None:
    """Return the format name in the metadata of a safetensors file, or None if there is none."""
    require_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("format")
    except (SafetensorError, OSError, ValueError, OverflowError, MemoryError) as error:
        raise unreadable(path, error) from None


def checksum(tensors: Mapping[str, Shaped[np.ndarray, "..."]], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of the content in canonical order, in hexadecimal."""
    kinds = {name: [CODES[tensor.dtype.name], list(tensor.shape)] for name, tensor in tensors.items()}
    head = json.dumps({"metadata": dict(metadata), "tensors": kinds}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(head.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _require_mark(path: Path, metadata: dict[str, str], form: str, version: int) -> None:
    """Raise `InputError` unless the metadata name this format and a supported version."""
    if metadata.get("format") != form:
        own = metadata.get("format", "")
        is_ours = re.fullmatch(r"factrank\.[a-z]{1,20}", own) is not None
        raise InputError(
            f"{path}: a safetensors file, but not of the format {form!r}{f': it is of {own!r}' if is_ours else ''}"
        )
    found = metadata.get("version", "")
    if not re.fullmatch("[0-9]{1,9}", found) or int(found) < 1:
        raise InputError(f"{path}: expected a format version between 1 and {version}; got {found[:60]!r}")
    if int(found) > version:
        raise InputError(f"{path}: written by a newer factrank (format version {found}; this one reads {version})")


def _require_room(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(f"{path}: {size / 2**30:.1f} GiB, but a layer file has at most {MOST_BYTES / 2**30:g}")


def require_type(path: Path, name: str, code: str, known: Collection[str] = tuple(CODES.values())) -> None:
    """Raise `InputError` unless the type of a tensor in a safetensors file is one of `known`."""
    if code not in known:
        raise InputError(f"{path}: the tensor {name[:60]!r} is of type {code}; expected one of {', '.join(known)}")
