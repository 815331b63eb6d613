"""Check that files exist, and replace files atomically (gzipped if the name ends in .gz)."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path

from factrank.errors import InputError


def require_file(path: Path) -> None:
    """Raise `InputError` unless the path is an existing regular file."""
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


@contextmanager
def replacing(path: Path) -> Iterator[BufferedIOBase]:
    """Open a stream that replaces the file atomically on exit, and leaves it unchanged if an error is raised.

    The file keeps its permissions. The new content is flushed to disk before the rename, so a power failure leaves
    either the old file or the new one.
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
                if is_gzip(path):
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
    """Flush a directory's entries to disk, on systems that support it."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def is_gzip(path: Path) -> bool:
    """Return whether the file name ends in .gz."""
    return path.suffix.lower() == ".gz"
