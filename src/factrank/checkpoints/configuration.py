"""The settings of a checkpoint (`config.json`); errors name the file, the setting and what was expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    """The entries of a `config.json`, and where they are from."""

    place: str
    entries: Mapping[str, Any]

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 on."""
        value = self._given(name, default)
        if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
            raise InputError(f"{self.place}: expected {name} to be a whole number from 1 on; got {str(value)[:40]!r}")
        return value

    def whole(self, name: str, default: int | None) -> int | None:
        """A whole number from 0 on, or null."""
        value = self.entries.get(name, default)
        if value is not None and (type(value) is not int or not 0 <= value <= LARGEST_SIZE):
            raise InputError(f"{self.place}: expected {name} to be a whole number or null; got {str(value)[:40]!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """A positive number."""
        value = self._given(name, default)
        if type(value) not in (int, float) or not 0 < value < 1e6:
            raise InputError(f"{self.place}: expected {name} to be a positive number; got {str(value)[:40]!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A text."""
        value = self._given(name, default)
        if not isinstance(value, str):
            raise InputError(f"{self.place}: expected {name} to be a text; got {str(value)[:40]!r}")
        return value

    def truth(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise InputError(f"{self.place}: expected {name} to be true or false; got {str(value)[:40]!r}")
        return value

    def _given(self, name: str, default: Any) -> Any:
        value = self.entries.get(name)
        if value is None and default is None:
            raise InputError(f"{self.place}: {name} is missing")
        return default if value is None else value


def read_settings(path: Path) -> Settings:
    """The entries of a JSON file that holds one object."""
    return Settings(str(path), read_object(path))


def read_object(path: Path) -> Mapping[str, Any]:
    """The one object of a JSON file of moderate size."""
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
    """Token numbers within the vocabulary, and no more of them than there are positions."""
    if ids.size and (ids.min() < 0 or ids.max() >= vocabulary):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"token number {wrong}: the vocabulary has {vocabulary} tokens, from 0 to {vocabulary - 1}")
    if ids.shape[1] > positions:
        raise InputError(f"contexts of {ids.shape[1]} tokens: the model has {positions} positions")
