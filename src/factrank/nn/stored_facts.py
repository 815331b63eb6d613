"""Convert a database to and from tensors, to store facts and names next to the weights of a model.

`support` int32 [facts, 3] contains the triples. A vocabulary is stored as UTF-8 bytes, `vocabulary.keys.text` uint8,
and `vocabulary.keys.offsets` int64 [names + 1]: name i is `text[offsets[i]:offsets[i + 1]]`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Shaped, UInt8

from factrank.databases import NAME_TYPE, Database, Vocabulary
from factrank.errors import InputError

SUPPORT = "support"
AXES = ("keys", "queries", "values")
FACT_TENSORS = {
    SUPPORT: ("int32", 2),
    **{f"vocabulary.{axis}.text": ("uint8", 1) for axis in AXES},
    **{f"vocabulary.{axis}.offsets": ("int64", 1) for axis in AXES},
}
"""Dtype and number of dimensions of every tensor."""


def facts_to_tensors(database: Database) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the tensors of the triples and the three vocabularies."""
    tensors: dict[str, Shaped[np.ndarray, "..."]] = {SUPPORT: database.triples}
    for axis, vocabulary in zip(AXES, database.vocabularies, strict=True):
        text, offsets = _split(vocabulary)
        tensors |= {f"vocabulary.{axis}.text": text, f"vocabulary.{axis}.offsets": offsets}
    return tensors


def facts_from_tensors(tensors: Mapping[str, Shaped[np.ndarray, "..."]]) -> Database:
    """Return the database stored in the tensors, or raise an `InputError` that names the invalid tensor."""
    for name, (dtype, dimensions) in FACT_TENSORS.items():
        if name not in tensors:
            raise InputError(f"the tensor {name!r} is missing")
        tensor = tensors[name]
        if tensor.dtype.name != dtype or tensor.ndim != dimensions:
            wanted = f"{dtype} with {dimensions} dimension{'s' if dimensions > 1 else ''}"
            raise InputError(f"{name} must be {wanted}; got {tensor.dtype} of shape {list(tensor.shape)}")
    keys, queries, values = (
        _joined(f"vocabulary.{axis}", tensors[f"vocabulary.{axis}.text"], tensors[f"vocabulary.{axis}.offsets"])
        for axis in AXES
    )
    if tensors[SUPPORT].shape[1] != 3:
        raise InputError(f"{SUPPORT} must have 3 columns; got {tensors[SUPPORT].shape[1]}")
    try:
        return Database(tensors[SUPPORT], keys, queries, values)
    except InputError as error:
        raise InputError(f"{SUPPORT}: {error}") from None


def _split(vocabulary: Vocabulary) -> tuple[UInt8[np.ndarray, " bytes"], Int64[np.ndarray, " ends"]]:
    names = vocabulary.names  # Arrow uses the same layout, possibly as a slice of a longer buffer
    _, offset_buffer, text_buffer = names.buffers()
    if not len(names):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(text_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return text, offsets - offsets[0]


def _joined(name: str, text: UInt8[np.ndarray, " bytes"], offsets: Int64[np.ndarray, " ends"]) -> Vocabulary:
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"{name}.offsets must increase from 0 to the {len(text)} bytes of the text")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    names = pa.Array.from_buffers(NAME_TYPE, len(offsets) - 1, buffers)
    try:
        names.validate(full=True)
        return Vocabulary(names)
    except pa.ArrowInvalid as error:
        raise InputError(f"{name}.text is not UTF-8 ({error})") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
