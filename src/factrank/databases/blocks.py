"""Blocks: delimited text read at once by Arrow, as columns of dictionary-encoded text.

Text is only looked at as bytes and blocks here, never cell by cell. What Arrow lets pass (a NUL, a quote that is never
closed) is found on the way; where in the file it stands is for `records` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BufferedIOBase, RawIOBase
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from factrank.databases.cells import CODED_TEXT
from factrank.databases.streams import reading
from factrank.errors import InputError

BLOCK_BYTES = 16 << 20


def read_blocks(path: Path, delimiter: str, width: int, wanted: Sequence[int]) -> pa.Table:
    """The wanted ones of `width` columns, from the first record on, header or not."""
    try:
        table = _parsed(path, delimiter, width, wanted, quotes=False)
    except _QuoteFoundError:
        table = _parsed(path, delimiter, width, wanted, quotes=True)
    last = table.num_rows - 1
    if any(cell.as_py() for column in table.slice(last).columns for cell in column):
        raise InputError(f"{path}: a quote is never closed")
    return table.slice(0, last)


def _parsed(path: Path, delimiter: str, width: int, wanted: Sequence[int], *, quotes: bool) -> pa.Table:
    """The columns with a closing record of empty fields, which a quote that is never closed would swallow.

    Only text with `quotes` can have line ends inside its fields, and reading it takes more than twice as long.
    """
    columns = [str(index) for index in range(width)]
    closing = f"\n{delimiter * (width - 1)}\n".encode()
    with reading(path) as stream:
        return pyarrow.csv.read_csv(
            _Blocks(stream, closing, quotes=quotes),
            pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=columns),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=quotes),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, CODED_TEXT),
                strings_can_be_null=False,
                include_columns=[columns[index] for index in wanted],
            ),
        )


class _QuoteFoundError(Exception):
    """The text has quotes although it was read as text without."""


class _Blocks(RawIOBase):
    """The bytes of a stream, then those of the closing record; a NUL or an unexpected quote is an error."""

    def __init__(self, stream: BufferedIOBase, closing: bytes, *, quotes: bool) -> None:
        self._stream = stream
        self._closing = closing
        self._quotes = quotes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        if b"\0" in block:
            raise InputError("a NUL byte; this is a binary file, not text")
        if not self._quotes and b'"' in block:
            raise _QuoteFoundError
        if not block:
            block, self._closing = self._closing, b""
        return block
