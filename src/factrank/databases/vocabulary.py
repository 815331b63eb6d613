"""`Vocabulary`: the names on one axis of a database and their codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from factrank.errors import InputError
from factrank.foreign_text import quoted, shown_name

NAME_TYPE = pa.large_string()


class Vocabulary(Sequence[str]):
    """Distinct names in a fixed order; the code of a name is its position.

    Behaves like a tuple of strings, but stores them compactly in one Arrow buffer.

    >>> cities = Vocabulary(["Paris", "Lima"])
    >>> cities[1], cities.index("Lima"), "Rome" in cities
    ('Lima', 1, False)
    """

    def __init__(self, names: Iterable[object] | pa.Array) -> None:
        array = names.cast(NAME_TYPE) if isinstance(names, pa.Array) else _text_array([str(name) for name in names])
        distinct = pc.count_distinct(array, mode="all").as_py()
        if array.null_count or distinct != len(array):
            raise InputError(f"a vocabulary needs distinct names; got {len(array)} names, {distinct} of them distinct")
        self._names = array

    @classmethod
    def numbered(cls, prefix: str, size: int) -> Vocabulary:
        """Return the names prefix0, prefix1, ... with leading zeros, so their sorted order is the same."""
        width = len(str(max(size - 1, 0)))
        return cls(f"{prefix}{i:0{width}}" for i in range(size))

    @property
    def names(self) -> pa.Array:
        """Names as an Arrow array, in the order of their codes."""
        return self._names

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self._names.to_pylist())}

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self._names[index].to_pylist())
        return str(self._names[int(index)].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.to_pylist())

    def __contains__(self, name: object) -> bool:
        return name in self._codes

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Return the code of a name, or raise `InputError` if it is not in the vocabulary."""
        code = self._codes.get(name)
        if code is None or code < start or (stop is not None and code >= stop):
            raise InputError(f"{quoted(name)} is not in the vocabulary of {len(self)} names ({self._few()})")
        return code

    def codes(self, names: Iterable[str]) -> Int[np.ndarray, " names"]:
        """Return the codes of several names."""
        return np.fromiter((self.index(name) for name in names), dtype=np.int64)

    def take(self, codes: Int[np.ndarray, " names"]) -> Vocabulary:
        """Return the vocabulary of the names with these codes, in this order."""
        return Vocabulary(self._names.take(pa.array(codes)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._names.equals(other._names)

    def __hash__(self) -> int:
        return hash((len(self), self[0] if len(self) else None, self[-1] if len(self) else None))

    def _few(self) -> str:
        shown = ", ".join(map(shown_name, self[:3]))
        return shown + (", ..." if len(self) > 3 else "")

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)}: {self._few()})"


def _text_array(names: list[str]) -> pa.Array:
    try:
        return pa.array(names, NAME_TYPE)
    except UnicodeEncodeError as error:
        raise InputError(
            f"the name {quoted(error.object)} contains half of a surrogate pair, which is not text"
        ) from None
