"""Convert table columns of any Arrow type to text.

Databases store text only, so 2 and "2" are the same value. Text is kept as is. An integral float such as 2.0 becomes
"2", because pandas stores a column of integers with a missing value as floats. Booleans become "true" and "false", and
dates and times ISO 8601 without trailing zeros. A null, a NaN and the empty string are empty cells.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int, Int32

from factrank.errors import InputError
from factrank.foreign_text import quoted

TEXT = pa.large_string()
CODED_TEXT = pa.dictionary(pa.int32(), TEXT)
EMPTY = -1
MISSING = ("NAType", "NaTType")
"""Type names of the values that pandas uses for missing cells."""

EXACT_INTEGERS = 2.0**53
"""Integral floats below this are exact integers."""


@dataclass(frozen=True)
class CodedColumn:
    """A column as codes into its distinct names, in order of first appearance; empty cells have the code `EMPTY`."""

    codes: Int32[np.ndarray, " rows"]
    names: pa.Array


def code_column(column: pa.ChunkedArray, missing: Sequence[str] = ()) -> CodedColumn:
    """Convert a column of any type that has a text form to codes.

    Arguments:
        column: The column.
        missing: Texts that mark an empty cell.

    Raises:
        InputError: If the type has no text form.
    """
    encoded = _dictionary_encoded(column)
    indices = [chunk.indices.cast(pa.int32()).fill_null(EMPTY).to_numpy() for chunk in encoded.chunks]
    dictionary = encoded.chunk(0).dictionary if indices else pa.array([], TEXT)
    codes = np.concatenate(indices) if indices else np.empty(0, dtype=np.int32)
    names = as_text(dictionary)
    if missing:
        names = pc.if_else(pc.is_in(names, value_set=pa.array(missing, TEXT)), pa.scalar(None, TEXT), names)
    return in_order_of_appearance(codes, names)


def in_order_of_appearance(codes: Int32[np.ndarray, " rows"], names: pa.Array) -> CodedColumn:
    """Drop unused names, merge equal names, and number the rest in order of first appearance.

    Cells with a null name become empty. Names can be equal because some types write different values as the same text.
    """
    distinct = pc.dictionary_encode(names)
    merged = np.append(distinct.indices.fill_null(EMPTY).to_numpy(zero_copy_only=False), np.int32(EMPTY))
    first = np.full(len(distinct.dictionary) + 1, len(codes))
    np.minimum.at(first, merged, _first_rows(codes, len(merged)))
    appearing = np.flatnonzero(first[:-1] < len(codes))
    order = appearing[np.argsort(first[appearing])]
    rank = np.full(len(first), EMPTY, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return CodedColumn(rank[merged][codes], distinct.dictionary.take(pa.array(order)))


def as_text(values: pa.Array) -> pa.Array:
    """Convert values of any flat type to text; empty cells become null."""
    kind = values.type
    try:
        if pa.types.is_floating(kind):
            text = _float_text(values.cast(pa.float64())) if kind == pa.float16() else _float_text(values)
        elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
            text = _iso_text(values)
        elif pa.types.is_duration(kind) or pa.types.is_nested(kind):
            raise InputError(f"cells of type {kind} cannot be read as text")
        else:
            text = values.cast(TEXT)
        text.validate(full=True)
    except pa.ArrowNotImplementedError:
        raise InputError(f"cells of type {kind} cannot be read as text") from None
    except (pa.ArrowException, UnicodeError) as error:
        raise InputError(f"cells of type {kind} are not UTF-8 text ({error})") from None
    return pc.if_else(pc.equal(text, pa.scalar("", TEXT)), pa.scalar(None, TEXT), text)


def spell(cell: object) -> str | None:
    """Convert a Python or NumPy scalar to the text that it would have in a typed column; None if it is empty.

    >>> [spell(cell) for cell in (2, 2.0, "02", True, 0.5, None, float("nan"))]
    ['2', '2', '02', 'true', '0.5', None, None]
    """
    if isinstance(cell, str):
        return str(cell)
    if cell is None or type(cell).__name__ in MISSING:
        return None
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        number = float(cell)
        integral = number.is_integer() and abs(number) < EXACT_INTEGERS
        return None if np.isnan(number) else str(int(number)) if integral else pa.scalar(number).cast(TEXT).as_py()
    if isinstance(cell, dt.date | dt.time | Decimal | UUID):
        return cell.isoformat() if isinstance(cell, dt.date | dt.time) else str(cell)
    raise InputError(f"{quoted(cell)} of type {type(cell).__name__} cannot be read as text")


def _dictionary_encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionary-encode a column, with one dictionary for all its chunks."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        if not (pa.types.is_string(kind.storage_type) or pa.types.is_large_string(kind.storage_type)):
            raise InputError(f"cells of type {kind} cannot be read as text")
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
    elif pa.types.is_run_end_encoded(kind):
        column = pc.run_end_decode(column)
    if pa.types.is_float16(column.type):  # which older versions of Arrow cannot encode
        column = column.cast(pa.float64())
    if pa.types.is_dictionary(column.type):
        return _unified(column)
    try:
        return pc.dictionary_encode(column)
    except pa.ArrowNotImplementedError:
        raise InputError(f"cells of type {column.type} cannot be read as text") from None


def _unified(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Unify the dictionaries of the chunks; raise `InputError` if a code is outside its dictionary."""
    try:
        column.validate(full=True)
    except (pa.ArrowInvalid, IndexError) as error:
        raise InputError(f"cells of type {column.type} are damaged ({error})") from None
    try:
        return column.unify_dictionaries()
    except pa.ArrowException:  # a null in a dictionary, or too many names for the index type
        return pc.dictionary_encode(column.cast(column.type.value_type))


def _first_rows(codes: Int32[np.ndarray, " rows"], n_codes: int) -> Int[np.ndarray, " codes"]:
    """Return the first row of each code, or the number of rows if the code does not occur."""
    first = np.full(n_codes, len(codes))
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _float_text(values: pa.Array) -> pa.Array:
    """Convert floats to the shortest decimal that round-trips, integral floats to integers, and NaN to null."""
    numbers = values.to_numpy(zero_copy_only=False)
    integral = (np.abs(numbers) < EXACT_INTEGERS) & (numbers == np.trunc(numbers))
    as_integers = pa.array(np.where(integral, numbers, 0).astype(np.int64)).cast(TEXT)
    text = pc.if_else(pa.array(integral), as_integers, values.cast(TEXT))
    return pc.if_else(pa.array(np.isnan(numbers)), pa.scalar(None, TEXT), text)


def _iso_text(values: pa.Array) -> pa.Array:
    text = pc.replace_substring(values.cast(TEXT), " ", "T", max_replacements=1)
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+($|Z|[+-])", r"\1\2")
    text = pc.replace_substring_regex(text, r"\.($|Z|[+-])", r"\1")
    return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
