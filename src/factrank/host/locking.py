"""File locks: one process at a time modifies a file or folder, even if it does so by replacing the file.

The lock is an `flock` on the file itself: it leaves no lock file behind, and the kernel releases it when the process
ends for any reason. A replaced file is a different file with the same name, so a process that has waited for the old
file checks the name again and locks the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from factrank.errors import InputError


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """Lock a file or folder, waiting until no other process holds the lock.

    Yields:
        A function that raises `InputError` if a program that ignores locks has modified the file in the meantime.
    """
    held = _lock(path)
    try:
        before = _state(os.fstat(held))

        def require_unchanged() -> None:
            if _state_at(path) != before:
                raise InputError(
                    f"{path}: another program modified the file in the meantime; your change was not written"
                )

        yield require_unchanged
    finally:
        os.close(held)


@contextmanager
def waiting_for_others(path: Path) -> Iterator[None]:
    """Lock a file or folder that is about to be overwritten, if it exists and supports locks."""
    held = None
    with suppress(InputError):
        held = _lock(path)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _lock(path: Path) -> int:
    """Return a locked file descriptor of the file that currently has this name."""
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
            raise InputError(f"{path}: cannot be locked ({reason}); concurrent changes could be lost") from None
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # the previous holder of the lock replaced the file: try again


def _wait_for_lock(held: int) -> None:
    try:
        import fcntl  # noqa: PLC0415 - only on Unix
    except ImportError:
        raise OSError("this system has no flock") from None
    fcntl.flock(held, fcntl.LOCK_EX)


def _opened(path: Path) -> int:
    with suppress(OSError):  # network file systems only lock files that are open for writing
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _state_at(path: Path) -> tuple[int, int, int, int] | None:
    with suppress(OSError):
        return _state(os.stat(path))
    return None
