"""Errors that name the file they come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from factrank.errors import InputError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Prefix input errors with the name of a file, unless they already start with it."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None
