"""What is wrong with a file that safetensors cannot read: whether it was cut short, or is something else.

A safetensors file begins with the length of its header, 8 bytes, and the header, a JSON object that gives the place of
every tensor: so it is known how long the file should be.
"""

from __future__ import annotations

import json
from pathlib import Path

from factrank.errors import InputError

LENGTH = 8
LONGEST_HEADER = 100_000_000
"""In bytes; safetensors reads no longer ones."""


def unreadable(path: Path, error: BaseException) -> InputError:
    """The error for a file that safetensors could not read, for the reason that it gave."""
    try:
        return InputError(f"{path}: {_why_truncated(path) or f'not a readable safetensors file: {error}'}")
    except OSError as other:
        return InputError(f"{path}: cannot be read: {other.strerror or other}")


def _why_truncated(path: Path) -> str | None:
    """By how much a file is shorter than it says; None if it is not, or says nothing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        if size < LENGTH:
            return f"empty or truncated: {size} bytes are no safetensors file"
        if length > LONGEST_HEADER or file.read(1) not in (b"{", b""):
            return None
        if LENGTH + length > size:
            return f"truncated: it has {size:,} bytes, and its header alone should have {length:,}"
        file.seek(LENGTH)
        header = file.read(length)
    try:
        places = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
        whole = LENGTH + length + max(places, default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return f"truncated: it has {size:,} bytes of {whole:,}" if whole > size else None
