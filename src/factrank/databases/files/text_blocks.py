"""Parse delimited text with Arrow into columns of dictionary-encoded text.

Text is processed in blocks, never cell by cell. This module also detects errors that Arrow ignores (a NUL byte, a quote
that is never closed); `records` then finds the line.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from io import BufferedIOBase, RawIOBase

import pyarrow as pa
import pyarrow.csv

from factrank.databases.cells import CODED_TEXT
from factrank.databases.files.records import Dialect
from factrank.databases.source_files import LONGEST_LINE, SourceFile, reading
from factrank.errors import InputError

BLOCK_BYTES = LONGEST_LINE
LONGEST_WAIT = 10.0
"""Seconds to wait for Arrow's threads to release their buffers, which normally takes milliseconds."""


def read_blocks(source: SourceFile, dialect: Dialect, width: int, wanted: Sequence[int]) -> pa.Table:
    """Return the wanted columns out of `width`, including the header row if there is one."""
    if not dialect.quotes:
        return _parsed(source, dialect, width, wanted, quoted=None)
    try:
        return _parsed(source, dialect, width, wanted, quoted=False)
    except _QuoteFoundError:
        return _parsed(source, dialect, width, wanted, quoted=True)


def _parsed(
    source: SourceFile, dialect: Dialect, width: int, wanted: Sequence[int], *, quoted: bool | None
) -> pa.Table:
    """Parse text with quoted fields, text without, or (`quoted` is None) text with quotes as ordinary characters.

    A record of empty fields is appended, which an unclosed quote would swallow. Only quoted fields can contain line
    ends, and parsing them takes more than twice as long.
    """
    columns = [str(index) for index in range(width)]
    closing = f"\n{dialect.delimiter * (width - 1)}\n".encode()
    with reading(source) as stream, _Loan(stream, closing, refuse_quotes=quoted is False) as loan:
        table = pyarrow.csv.read_csv(
            loan.blocks(),
            pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=columns),
            pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char='"' if dialect.quotes else False,
                newlines_in_values=bool(quoted),
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, CODED_TEXT),
                strings_can_be_null=False,
                include_columns=[columns[index] for index in wanted],
            ),
        )
    last = table.num_rows - 1
    if any(cell.as_py() for column in table.slice(last).columns for cell in column):
        raise InputError(f"{source}: a quote is never closed")
    return table.slice(0, last)


class _QuoteFoundError(Exception):
    """The text has quotes, although it was parsed as text without."""


class _Loan:
    """Lends Arrow the bytes of a stream and the closing record; a NUL byte or a forbidden quote is an error.

    Arrow reads ahead in its own threads, which may continue after it has reported an error. A thread that still has a
    Python object when the interpreter exits would abort the process, so the exit of this context waits for all of them.
    """

    def __init__(self, stream: BufferedIOBase, closing: bytes, *, refuse_quotes: bool) -> None:
        self._stream = stream
        self._closing = closing
        self._refuse_quotes = refuse_quotes
        self._failure: Exception | None = None
        self._lent: list[weakref.ref[object]] = []
        self._ended = False

    def blocks(self) -> _Blocks:
        """Return a file for Arrow. An error while reading ends the text and is raised when the context exits."""
        blocks = _Blocks(self)
        self._lent.append(weakref.ref(blocks))
        return blocks

    def read(self, size: int) -> memoryview:
        """Return the next bytes; called by Arrow's threads."""
        try:
            block = memoryview(b"" if self._ended or self._failure else self._next(size))
        except Exception as error:
            error.__context__ = error.__cause__ = None  # its frames would keep the lent buffers alive
            self._failure = error.with_traceback(None)
            block = memoryview(b"")
        self._lent.append(weakref.ref(block))
        return block

    def _next(self, size: int) -> bytes:
        block = self._stream.read(size)
        if b"\0" in block:
            raise InputError("a NUL byte; this is a binary file, not text")
        if self._refuse_quotes and b'"' in block:
            raise _QuoteFoundError
        if not block:
            block, self._closing = self._closing, b""
        return block

    def __enter__(self) -> _Loan:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        end = time.monotonic() + LONGEST_WAIT
        while any(lent() is not None for lent in self._lent) and time.monotonic() < end:
            time.sleep(0.001)
        if self._failure is not None:
            raise self._failure from None


class _Blocks(RawIOBase):
    """File-like object for Arrow."""

    def __init__(self, loan: _Loan) -> None:
        self._loan = loan

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> memoryview:
        return self._loan.read(size)
