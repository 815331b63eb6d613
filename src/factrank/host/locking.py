"""Locks: one process at a time changes a file or a folder, also if each of them puts a new file in its place.

The lock is `flock` on the file itself, so that no other file is left behind and the kernel frees it when a process
ends, however it ends. A file that is replaced is another file under the same name: whoever has waited for the old one
looks again, and takes the lock of the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from factrank.errors import InputError


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """Wait until no other process has locked the file or folder, and lock it.

    Yields a function that raises an `InputError` if a program that takes no locks has changed the file since.
    """
    held = _lock(path)
    try:
        before = _state(os.fstat(held))

        def require_unchanged() -> None:
            if _state_at(path) != before:
                raise InputError(f"{path}: another program has changed it in the meantime; it is left as it is now")

        yield require_unchanged
    finally:
        os.close(held)


@contextmanager
def waiting_for_others(path: Path) -> Iterator[None]:
    """Lock a file or folder whose new content does not depend on the old one, if it is there and can be locked."""
    held = None
    with suppress(InputError):
        held = _lock(path)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _lock(path: Path) -> int:
    """A descriptor of the file that has this name, with the lock."""
    while True:
        try:
            held = _opened(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        try:
            _wait_for_lock(held)
            here = _state_at(path)
            if here is not None and here[:2] == _state(os.fstat(held))[:2]:
                return held
        except OSError as error:
            os.close(held)
            reason = error.strerror or str(error)
            raise InputError(f"{path}: cannot be locked, and two changes at once might lose one: {reason}") from None
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # replaced by whoever had the lock


def _wait_for_lock(held: int) -> None:
    try:
        import fcntl  # noqa: PLC0415 - Unix has it
    except ImportError:
        raise OSError("this system has no flock") from None
    fcntl.flock(held, fcntl.LOCK_EX)


def _opened(path: Path) -> int:
    with suppress(OSError):  # on network file systems a lock needs a file that is open for writing
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _state_at(path: Path) -> tuple[int, int, int, int] | None:
    with suppress(OSError):
        return _state(os.stat(path))
    return None
