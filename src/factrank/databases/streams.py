"""Streams: the bytes and lines of a file, unzipped where its name ends in .gz, and files replaced in one step."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path

from factrank.errors import InputError

BYTE_ORDER_MARK = "\ufeff"


@contextmanager
def reading(path: Path) -> Iterator[BufferedIOBase]:
    """The bytes of a file; whatever goes wrong with them becomes an `InputError` that names it."""
    try:
        require_file(path)
        with gzip.open(path) if _is_gzip(path) else path.open("rb") as stream:
            yield stream
    except EOFError:
        raise InputError(f"{path}: the gzip file is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a gzip file, or a damaged one ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def require_file(path: Path) -> None:
    """Check that a path is that of an existing file."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(kind):
        raise InputError(f"{path}: is a directory, not a file")
    if not stat.S_ISREG(kind):
        raise InputError(f"{path}: is not a regular file")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers and line ends, without a byte order mark."""
    with reading(path) as stream:
        pieces = (line for piece in stream for line in piece.splitlines(keepends=True))
        for number, piece in enumerate(pieces, start=1):
            if b"\0" in piece:
                raise InputError(f"{path}, line {number}: a NUL byte; this is a binary file, not text")
            try:
                line = piece.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{path}, line {number}: not UTF-8 text ({error})") from None
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


@contextmanager
def replacing(path: Path) -> Iterator[BufferedIOBase]:
    """A stream whose bytes take the place of the file at the end, and of nothing if an error comes first.

    The file keeps its permissions. Its new bytes are on the disk before they get its name: what a loss of power leaves
    is the old file or the new one.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        mode = None
        if target.exists():
            require_file(target)
            mode = stat.S_IMODE(target.stat().st_mode)
        try:
            with draft.open("xb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                if _is_gzip(path):
                    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
                        yield zipped
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
            _keep_names(target.parent)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _keep_names(folder: Path) -> None:
    """Bring the names in a folder to the disk, on systems that can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
