"""Read `config.json`; errors name the file, the setting and what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from factrank.errors import InputError
from factrank.host import require_file

MOST_BYTES = 2**26
LARGEST_SIZE = 2**24


@dataclass(frozen=True)
class Settings:
    """Entries of a `config.json`, and its path for messages."""

    place: str
    entries: Mapping[str, Any]

    def size(self, name: str, default: int | None = None) -> int:
        """Return a positive integer."""
        size: int = self._checked(name, default, "a positive integer", lambda given: _is_whole(given, 1))
        return size

    def whole(self, name: str, default: int | None) -> int | None:
        """Return a non-negative integer or None."""
        if self.entries.get(name, default) is None:
            return None
        whole: int = self._checked(name, default, "a non-negative integer or null", lambda given: _is_whole(given, 0))
        return whole

    def number(self, name: str, default: float) -> float:
        """Return a positive number."""
        return float(self._checked(name, default, "a positive number", _is_positive))

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        return str(self._checked(name, default, "a string", lambda given: isinstance(given, str)))

    def truth(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        return bool(self._checked(name, default, "true or false", lambda given: isinstance(given, bool)))

    def _checked(self, name: str, default: Any, expected: str, fits: Callable[[Any], bool]) -> Any:
        value = self.entries.get(name)
        if value is None and default is None:
            raise InputError(f"{self.place}: {name} is missing")
        value = default if value is None else value
        if not fits(value):
            raise InputError(f"{self.place}: expected {name} to be {expected}; got {str(value)[:40]!r}")
        return value


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 1e6


def _is_whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= LARGEST_SIZE


def read_settings(path: Path) -> Settings:
    """Read the settings in a JSON file."""
    return Settings(str(path), read_object(path))


def read_object(path: Path) -> Mapping[str, Any]:
    """Read a JSON file that contains one object, up to a size limit."""
    require_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES >> 20} MiB; expected a short JSON file")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object; got {type(content).__name__}")
    return content


def require_ids(ids: Integer[np.ndarray, "examples tokens"], vocabulary: int, positions: int) -> None:
    """Raise `InputError` unless all token numbers are in the vocabulary and there are enough positions."""
    if ids.size and (ids.min() < 0 or ids.max() >= vocabulary):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"token number {wrong}: the vocabulary has {vocabulary} tokens, from 0 to {vocabulary - 1}")
    if ids.shape[1] > positions:
        raise InputError(f"contexts of {ids.shape[1]} tokens: the model has {positions} positions")
