"""Which sizes the atlas has layers of: ranges of each quantity, and ranges of each given another.

Ranges of single sizes are not enough: the atlas has 1,000 keys and it has 64 queries, but few tables with both. So each
quantity also has a range for every octave (2^i to 2^(i+1)) of each other quantity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, log2
from typing import Any

import numpy as np

Ends = tuple[float, float]

FEWEST_LAYERS = 30

ROUNDING = 1e-6
"""Relative tolerance, for quantities that are not integers."""


@dataclass(frozen=True)
class KnownSizes:
    """Sizes of the layers of one kind.

    Arguments:
        ends: least and greatest value of each quantity.
        within: by quantity and octave, the ends of every other quantity among the layers of that octave.
    """

    ends: Mapping[str, Ends]
    within: Mapping[str, Mapping[int, Mapping[str, Ends]]]

    @classmethod
    def of(cls, quantities: Mapping[str, Any], fewest: int = FEWEST_LAYERS) -> KnownSizes:
        """Return the ranges of layers, given as a column for each quantity.

        Arguments:
            quantities: the columns.
            fewest: an octave with fewer layers than this counts as empty.

        >>> known = KnownSizes.of({"keys": np.repeat([4, 64], 40), "queries": np.repeat([8, 2], 40)})
        >>> known.beyond({"keys": 64, "queries": 2}), known.beyond({"keys": 64, "queries": 8})
        ('', 'queries 8 (with keys 64 to 127 the atlas has 2 to 2)')
        """
        columns = {name: np.asarray(column, dtype=float) for name, column in quantities.items()}
        within: dict[str, dict[int, dict[str, Ends]]] = {}
        for name, column in columns.items():
            octaves = np.floor(np.log2(column)).astype(int)
            within[name] = {
                int(octave): {other: _ends(rest[octaves == octave]) for other, rest in columns.items() if other != name}
                for octave in np.unique(octaves)
                if np.sum(octaves == octave) >= fewest
            }
        return cls({name: _ends(column) for name, column in columns.items()}, within)

    def beyond(self, sizes: Mapping[str, int | float]) -> str:
        """Return which quantities are outside the atlas, in words; an empty string if none is."""
        alone = [
            f"{name} {_words(size)} (the atlas has {_words(self.ends[name][0])} to {_words(self.ends[name][1])})"
            for name, size in sizes.items()
            if not _is_inside(size, self.ends[name])
        ]
        return ", ".join(alone) or next(self._beyond_together(sizes), "")

    def _beyond_together(self, sizes: Mapping[str, int | float]) -> Iterator[str]:
        for name, size in sizes.items():
            octave = floor(log2(size))
            others = self.within[name].get(octave)
            if others is None:
                yield f"{name} {_words(size)} (the atlas has hardly any layers near it)"
                continue
            for other, ends in others.items():
                if not _is_inside(sizes[other], ends):
                    given = f"{name} {_words(2.0**octave)} to {_words(_last(octave))}"
                    have = f"{_words(ends[0])} to {_words(ends[1])}"
                    yield f"{other} {_words(sizes[other])} (with {given} the atlas has {have})"

    def to_plain(self) -> dict[str, Any]:
        """Return the ranges as JSON has them."""
        within = {
            name: {str(octave): {other: list(ends) for other, ends in others.items()} for octave, others in by.items()}
            for name, by in self.within.items()
        }
        return {"ends": {name: list(ends) for name, ends in self.ends.items()}, "within": within}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> KnownSizes:
        """Return the inverse of `to_plain`."""
        within = {
            name: {int(octave): {o: (a, b) for o, (a, b) in others.items()} for octave, others in by.items()}
            for name, by in plain["within"].items()
        }
        return cls({name: (low, high) for name, (low, high) in plain["ends"].items()}, within)


def _ends(column: Any) -> Ends:
    return float(f"{column.min():.6g}"), float(f"{column.max():.6g}")


def _is_inside(size: int | float, ends: Ends) -> bool:
    return ends[0] * (1 - ROUNDING) <= size <= ends[1] * (1 + ROUNDING)


def _last(octave: int) -> float:
    """Return the last integer of an octave, or its end below 1."""
    return 2.0 ** (octave + 1) - (1 if octave >= 0 else 0)


def _words(size: int | float) -> str:
    return f"{size:,.0f}" if size >= 10 or size == int(size) else f"{size:.2g}"
