"""Explain why safetensors cannot read a file: truncated, or not a safetensors file.

A safetensors file starts with the length of its header (8 bytes) and the header, a JSON object with the offsets of
every tensor. Together they determine the size of the file.
"""

from __future__ import annotations

import json
from pathlib import Path

from factrank.errors import InputError

LENGTH = 8
LONGEST_HEADER = 100_000_000
"""Limit of safetensors in bytes."""


def unreadable(path: Path, error: BaseException) -> InputError:
    """Return the error for a file that safetensors could not read, given the exception that it raised."""
    try:
        return InputError(f"{path}: {_why_truncated(path) or f'not a readable safetensors file: {error}'}")
    except OSError as other:
        return InputError(f"{path}: cannot be read: {other.strerror or other}")


def _why_truncated(path: Path) -> str | None:
    """Return how much of the file is missing according to its header; None if nothing is, or there is no header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        if size < LENGTH:
            return f"empty or truncated: {size} bytes are not a safetensors file"
        if length > LONGEST_HEADER or file.read(1) not in (b"{", b""):
            return None
        if LENGTH + length > size:
            return f"truncated: it has {size:,} bytes, but its header alone should have {length:,}"
        file.seek(LENGTH)
        header = file.read(length)
    try:
        places = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
        whole = LENGTH + length + max(places, default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return f"truncated: it has {size:,} bytes of {whole:,}" if whole > size else None
