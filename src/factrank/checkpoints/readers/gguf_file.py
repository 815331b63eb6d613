"""Read GGUF files: a bounded parser of the header, and `gguf.quants` (extra `audit`) for quantised tensors.

A GGUF file is a magic word, a version, the numbers of tensors and of settings, the settings (typed, named values), one
entry per tensor (name, dimensions with the innermost first, type, offset), and the data. Every length is compared with
the bytes that are left in the file before it is used. Arrays of numbers are skipped if they are long, except for the
token strings, which `tokens` has.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from factrank.checkpoints.readers.stored_tensor import ReadRows, StoredTensor, Tensors, require_apart
from factrank.errors import InputError
from factrank.host import require_file

GGUF_SUFFIX, MAGIC, VERSIONS = ".gguf", b"GGUF", (2, 3)
MOST_ENTRIES, MOST_DIMENSIONS, LONGEST_NAME, LONGEST_ARRAY, LONGEST_TEXT = 2**17, 4, 2**16, 2**12, 2**20
ALIGNMENT, LARGEST_ALIGNMENT = 32, 2**20
TOKENS = "tokenizer.ggml.tokens"

NUMBERS: dict[int, str] = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
"""Struct codes of the types of settings."""
TEXT, ARRAY = 8, 9

PLAIN: dict[int, tuple[str, Any, int]] = {
    0: ("F32", np.float32, 24),
    1: ("F16", np.float16, 11),
    28: ("F64", np.float64, 53),
    30: ("BF16", ml_dtypes.bfloat16, 8),
}
"""Types that need no dequantisation, and the bits of their significands."""
QUANTISED: dict[int, tuple[str, int, int]] = {
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}  # fmt: skip
"""Quantised types: the weights and the bytes of a block."""
WHOLE = (24, 25, 26, 27)
"""Types of integers, which are no weights."""


@dataclass(frozen=True, eq=False)
class GgufFile:
    """Header of a GGUF file: its settings, its tensors, and the strings of its tokens (empty if it has none)."""

    settings: Mapping[str, Any]
    tensors: Tensors
    tokens: tuple[str, ...]


def read_gguf(path: Path) -> GgufFile:
    """Read the header of a GGUF file.

    Raises:
        InputError: If the file is no GGUF file of version 2 or 3, is truncated, or its header claims more than the
            file contains; the message names the tensor or setting.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            return _Header(path, file, path.stat().st_size).read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


class _Header:
    """The parser: a position in the file, and how many bytes are left."""

    def __init__(self, path: Path, file: BufferedReader, size: int) -> None:
        self.path, self.file, self.left, self.size = path, file, size, size
        self.inside = "the header"
        self.tokens: tuple[str, ...] = ()
        self.spans: list[tuple[int, int, str]] = []

    def read(self) -> GgufFile:
        if self.bytes(4) != MAGIC:
            raise InputError(f"{self.path}: not a GGUF file: it does not start with {MAGIC.decode()}")
        version = self.number("<I")
        if version not in VERSIONS:
            raise InputError(f"{self.path}: GGUF version {version} is not supported; expected 2 or 3 (little-endian)")
        n_tensors, n_settings = self.count("<Q", 24), self.count("<Q", 12)
        settings: dict[str, Any] = {}
        for _ in range(n_settings):
            name = self.name("the setting")
            if name in settings:
                raise self.wrong("occurs twice")
            settings[name] = self.value(self.number("<I"), name)
        entries = {}
        for _ in range(n_tensors):
            name = self.name("the tensor")
            if name in entries:
                raise self.wrong("occurs twice")
            entries[name] = self.entry()
        start = self._data_start(settings.get("general.alignment", ALIGNMENT))
        tensors = {name: self.tensor(name, *entry, start) for name, entry in entries.items() if entry[1] not in WHOLE}
        require_apart(str(self.path), self.spans)
        return GgufFile(settings, tensors, self.tokens)

    def entry(self) -> tuple[tuple[int, ...], int, int]:
        """Read the shape, the type and the offset of a tensor."""
        n_dimensions = self.number("<I")
        if not 1 <= n_dimensions <= MOST_DIMENSIONS:
            raise self.wrong(f"has {n_dimensions} dimensions; expected 1 to {MOST_DIMENSIONS}")
        shape = tuple(self.number("<Q") for _ in range(n_dimensions))[::-1]
        return shape, self.number("<I"), self.number("<Q")

    def tensor(self, name: str, shape: tuple[int, ...], kind: int, offset: int, start: int) -> StoredTensor:
        """Check that the bytes of a tensor are in the file."""
        self.inside = f"the tensor {name!r}"
        if kind in PLAIN:
            title, dtype, bits = PLAIN[kind]
            block, width = 1, np.dtype(dtype).itemsize
        elif kind in QUANTISED:
            (title, block, width), bits = QUANTISED[kind], 24
        else:
            known = ", ".join(entry[0] for entry in (*PLAIN.values(), *QUANTISED.values()))
            raise self.wrong(f"is of type number {kind}; expected one of {known}")
        if 0 in shape or shape[-1] % block:
            raise self.wrong(f"has shape {shape}; {title} has blocks of {block}")
        row = shape[-1] // block * width
        end = start + offset + row * int(np.prod(shape[:-1], dtype=object))
        if end > self.size:
            raise self.wrong(f"of shape {shape} ends at byte {end:,}, but the file has {self.size:,}; is it truncated?")
        self.spans.append((start + offset, end, name))
        read = _reader(self.path, shape, kind, row, start + offset)
        return StoredTensor(name, shape, title, str(self.path), 2.0**-bits, 8 * width / block, read)

    def value(self, kind: int, name: str) -> Any:
        """Read the value of a setting; arrays that are too long to matter become None."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text(LONGEST_TEXT)
        if kind != ARRAY:
            raise self.wrong(f"is of type {kind}; GGUF has the types 0 to 12")
        inner = self.number("<I")
        if inner == TEXT:
            n_texts = self.count("<Q", 8, most=None)
            if name == TOKENS:
                self.tokens = tuple(self.text(LONGEST_TEXT) for _ in range(n_texts))
            else:
                for _ in range(n_texts):
                    self.skip(self.number("<Q"))
            return None
        if inner not in NUMBERS:
            raise self.wrong(f"is an array of type {inner}; expected numbers or texts")
        code = NUMBERS[inner]
        n_numbers = self.count("<Q", struct.calcsize(code), most=None)
        if n_numbers <= LONGEST_ARRAY:
            return [self.number(code) for _ in range(n_numbers)]
        self.skip(n_numbers * struct.calcsize(code))
        return None

    def name(self, what: str) -> str:
        self.inside = what
        name = self.text(LONGEST_NAME)
        self.inside = f"{self.inside} {name[:80]!r}"
        return name

    def text(self, longest: int) -> str:
        length = self.number("<Q")
        if length > longest:
            raise self.wrong(f"has a text of {length:,} bytes; expected at most {longest:,}")
        return self.bytes(length).decode("utf-8", errors="replace")

    def count(self, code: str, least: int, most: int | None = MOST_ENTRIES) -> int:
        """Read a number of things that have at least that many bytes each."""
        n = int(self.number(code))
        if n * least > self.left or (most is not None and n > most):
            raise self.wrong(f"claims {n:,} entries, but {self.left:,} bytes are left")
        return n

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.bytes(struct.calcsize(code)))[0]

    def bytes(self, n: int) -> bytes:
        if n > self.left:
            raise self.wrong(f"claims {n:,} bytes, but {self.left:,} are left; is the file truncated?")
        content = self.file.read(n)
        self.left -= n
        if len(content) != n:
            raise self.wrong("ends early")
        return content

    def skip(self, n: int) -> None:
        if n > self.left:
            raise self.wrong(f"claims {n:,} bytes, but {self.left:,} are left; is the file truncated?")
        self.file.seek(n, 1)
        self.left -= n

    def _data_start(self, alignment: Any) -> int:
        if type(alignment) is not int or not 1 <= alignment <= LARGEST_ALIGNMENT:
            raise InputError(f"{self.path}: general.alignment is {str(alignment)[:40]}; expected a positive integer")
        return -(-(self.size - self.left) // alignment) * alignment

    def wrong(self, what: str) -> InputError:
        return InputError(f"{self.path}: {self.inside} {what}")


def _reader(path: Path, shape: tuple[int, ...], kind: int, row: int, start: int) -> ReadRows:
    per_row = (
        int(np.prod(shape[1:-1], dtype=object)) * row if len(shape) > 1 else row // shape[-1] if kind in PLAIN else 0
    )

    def read(first: int, last: int) -> np.ndarray:
        whole = len(shape) == 1 and kind in QUANTISED  # blocks of a vector cannot be cut at any row
        begin, wanted = (0, row) if whole else (first * per_row, (last - first) * per_row)
        with path.open("rb") as file:
            file.seek(start + begin)
            content = np.fromfile(file, np.uint8, wanted)
        if len(content) != wanted:
            raise ValueError(f"{wanted:,} bytes were expected, but the file has {len(content):,}")
        numbers = _numbers(content.reshape(-1, min(row, wanted)) if wanted else content, kind)
        return numbers.reshape(-1)[first:last] if whole else numbers.reshape((last - first, *shape[1:]))

    return read


def _numbers(content: np.ndarray, kind: int) -> np.ndarray:
    if kind in PLAIN:
        numbers = content.reshape(-1).view(PLAIN[kind][1])
        return np.asarray(numbers, np.float64 if numbers.dtype == np.float64 else np.float32)
    try:
        from gguf import GGMLQuantizationType  # noqa: PLC0415 - an extra
        from gguf.quants import dequantize  # noqa: PLC0415
    except ImportError:
        raise InputError("quantised GGUF files need the library gguf: pip install 'factrank[audit]'") from None
    return np.asarray(dequantize(content, GGMLQuantizationType(kind)))
