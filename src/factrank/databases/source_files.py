"""Input files as UTF-8 streams, with the name to use in error messages.

A file may be gzipped or in another encoding. Standard input is copied to a temporary file first, because a table is
read more than once. UTF-16 and UTF-32 are recognised by their byte order mark.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from factrank.errors import InputError
from factrank.foreign_text import quoted, shown_name
from factrank.host import is_gzip, require_file

STANDARD_INPUT, STANDARD_INPUT_NAME = "-", "standard input"
LONGEST_LINE = 16 << 20
"""Maximum size in bytes of a line or record, which must fit into memory."""

PIECE_BYTES = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encoding of each byte order mark. UTF-32 is first because its mark starts with the mark of UTF-16."""

OTHER_ENCODING = 'name its encoding with encoding="..." (--encoding), such as latin-1 or utf-16'


@dataclass(frozen=True)
class SourceFile:
    """A file to read, its name in error messages, and its encoding (None: UTF-8, or as its byte order mark says)."""

    path: Path
    name: str
    zipped: bool = False
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            _require_encoding(self.encoding)

    def __str__(self) -> str:
        return shown_name(self.name, longest=None)


def require_one_standard_input(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Raise `InputError` if standard input is listed more than once."""
    if list(paths).count(STANDARD_INPUT) > 1:
        raise InputError(f"{STANDARD_INPUT_NAME} ({STANDARD_INPUT}) can only be read once, but is given twice")


@contextmanager
def source_file(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[SourceFile]:
    """Open the file at a path, or standard input if the path is "-"."""
    if path != STANDARD_INPUT:
        place = Path(path)
        require_file(place)
        yield SourceFile(place, str(place), is_gzip(place), encoding)
        return
    with tempfile.NamedTemporaryFile(prefix="factrank-") as copy:
        try:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
        except (AttributeError, OSError, ValueError) as error:
            raise InputError(f"standard input: cannot be read: {error}") from None
        copy.seek(0)
        zipped = copy.read(2) == b"\x1f\x8b"
        yield SourceFile(Path(copy.name), STANDARD_INPUT_NAME, zipped, encoding)


@contextmanager
def reading(source: SourceFile) -> Iterator[io.BufferedIOBase]:
    """Open a file as a stream of UTF-8 bytes; all read errors become an `InputError` that names the file."""
    try:
        with gzip.open(source.path) if source.zipped else source.path.open("rb") as stream:
            yield _as_utf8(stream, source)
    except EOFError:
        raise InputError(f"{source}: the gzip file is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{source}: not a gzip file, or a corrupt one ({error})") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None


def numbered_lines(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, including line ends but no byte order mark."""
    with reading(source) as stream:
        for number, piece in enumerate(_lines(stream), start=1):
            if len(piece) > LONGEST_LINE:
                raise InputError(f"{source}, line {number}: longer than {LONGEST_LINE >> 20} MiB; this is not a table")
            if b"\0" in piece:
                raise InputError(
                    f"{source}, line {number}: a NUL byte; this is a binary file, not text. If it is text in another "
                    f"encoding, {OTHER_ENCODING}"
                )
            try:
                line = piece.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{source}, line {number}: not UTF-8 text ({error}); {OTHER_ENCODING}") from None
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    r"""Yield lines ended by \n, \r or \r\n; the last one may be the start of a line that is too long."""
    begun = b""
    while (piece := stream.readline(PIECE_BYTES)) and len(begun) <= LONGEST_LINE:
        lines = (begun + piece).splitlines(keepends=True)
        begun = b"" if piece.endswith(b"\n") else lines.pop()  # a \r at its end may be followed by \n
        yield from lines
    yield from [begun] if len(begun) > LONGEST_LINE else begun.splitlines(keepends=True)


def _as_utf8(stream: io.BufferedReader | gzip.GzipFile, source: SourceFile) -> io.BufferedIOBase:
    beginning = stream.peek(4)[:4]
    marked = next((encoding for mark, encoding in MARKS.items() if beginning.startswith(mark)), "utf-8")
    encoding = source.encoding or marked
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        return stream
    return io.BufferedReader(_Transcoded(stream, encoding, source))


class _Transcoded(io.RawIOBase):
    """A stream that converts text in another encoding to UTF-8."""

    def __init__(self, stream: io.BufferedIOBase, encoding: str, source: SourceFile) -> None:
        self._stream, self._encoding, self._source = stream, encoding, source
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = memoryview(b"")
        self._lines = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        ended = False
        while not (self._ready or ended):
            piece = self._stream.read(PIECE_BYTES)
            ended = not piece
            text = self._decoded(piece)
            self._lines += text.count("\n")
            self._ready = memoryview(text.encode())
        n_bytes = min(len(buffer), len(self._ready))
        buffer[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes

    def _decoded(self, piece: bytes) -> str:
        try:
            text = self._decoder.decode(piece, final=not piece)
            text.encode()
        except UnicodeError as error:
            raise InputError(
                f"{self._source}, from line {self._lines} on: not {shown_name(self._encoding)} text ({error})"
            ) from None
        return text


def _require_encoding(name: str) -> None:
    """Raise `InputError` unless this is a text encoding; Python also has codecs for compression and ciphers."""
    try:
        "".encode(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(
            f"encoding (--encoding): unknown encoding {quoted(name)}; use utf-8, utf-16, latin-1, cp1252, shift_jis "
            "or another encoding of Python"
        ) from None
