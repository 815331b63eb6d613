"""Brackets: which sizes to try next, from what came of those tried before. Whole numbers only, nothing is run here.

    lower = the largest size that met the criterion,  upper = the next tried size above it

so that both ends were tried, and the one met the criterion and the other did not, whether or not outcomes are monotone.
With k probes a round, r = upper / lower:

    first           k sizes from guess / sqrt(spread) to guess sqrt(spread), that is from guess / 2 to 2 guess
    no upper        k sizes up to `spread`, 4, times the largest            (2 times for k = 1)
    no lower        k sizes down to a quarter, 1 / spread, of the least     (a half for k = 1)
    both            k sizes between them; no more than the resolution needs

always in equal ratios. It ends when r <= resolution, or when no whole number lies between. Where sizes above lower
could not be run at all (no memory), smaller ones are tried, down to lower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, isfinite, log

from factrank.errors import InputError
from factrank.nn import require_sizes

Outcomes = Mapping[int, bool]
"""Whether each tried size met the criterion."""

ROUNDING = 1e-9
"""By how much a quotient of logarithms may exceed a whole number that it should be."""


@dataclass(frozen=True)
class Sizes:
    """Where to look: sizes from `least` to `most`, first around `guess`, `probes` at a time, down to `resolution`.

    A resolution of 1.05 ends the search when upper is at most 5 % above lower; 1 ends it at neighbouring numbers. A
    smaller `spread` keeps the sizes of a round closer together: for a good guess.
    """

    guess: int
    least: int = 1
    most: int = 2**20
    probes: int = 4
    resolution: int | float = 1.05
    spread: int | float = 4

    def __post_init__(self) -> None:
        require_sizes({name: getattr(self, name) for name in ("guess", "least", "most", "probes")}, least=1)
        if not self.least <= self.guess <= self.most:
            raise InputError(
                f"sizes go from least over guess to most; got least {self.least}, guess {self.guess}, most {self.most}"
            )
        if not _is_ratio(self.resolution):
            raise InputError(f"the resolution is a ratio of two sizes, at least 1; got {self.resolution!r}")
        if not _is_ratio(self.spread) or self.spread == 1:
            raise InputError(f"the spread is a ratio of two sizes, greater than 1; got {self.spread!r}")
        object.__setattr__(self, "resolution", float(self.resolution))
        object.__setattr__(self, "spread", float(self.spread))

    def next(self, outcomes: Outcomes, failed: Collection[int] = ()) -> list[int]:
        """The sizes to try next, in order; none when the search has ended. Sizes that `failed` are not tried again.

        >>> sizes = Sizes(guess=32, probes=3, resolution=1)
        >>> sizes.next({}), sizes.next({16: True, 32: True, 64: False}), sizes.next({16: True, 32: True, 64: True})
        ([16, 32, 64], [38, 45, 54], [102, 161, 256])
        """
        lower, upper = bracket(outcomes)
        if lower is None:
            candidates = self._first() if upper is None else self._spaced(upper, 1 / self._factor)
        else:
            ends = [size for size in (upper, *failed) if size is not None and size > lower]
            if not ends:
                candidates = self._spaced(lower, self._factor)
            else:
                candidates = [] if self.is_narrow(lower, min(ends)) else self._between(lower, min(ends))
        return [size for size in candidates if size not in failed and size not in outcomes]

    def is_narrow(self, lower: int, upper: int) -> bool:
        """Whether two ends are near enough."""
        return upper <= lower + 1 or upper <= self.resolution * lower

    @property
    def _factor(self) -> float:
        return self.spread**0.5 if self.probes == 1 else self.spread

    def _first(self) -> list[int]:
        if self.probes == 1:
            return [self.guess]
        least = self.guess / self.spread**0.5
        return self._inside(least * self.spread ** (place / (self.probes - 1)) for place in range(self.probes))

    def _spaced(self, end: int, factor: float) -> list[int]:
        """Sizes beyond the end, in equal ratios up to this factor, and never none while there is room."""
        beyond = self._inside(end * factor ** (place / self.probes) for place in range(1, self.probes + 1))
        step = 1 if factor > 1 else -1
        return [size for size in beyond if size != end] or self._inside([float(end + step)])

    def _between(self, lower: int, upper: int) -> list[int]:
        """Sizes strictly between, in equal ratios: as many as a round has, or as the resolution needs."""
        room = range(lower + 1, upper)
        needed = len(room)
        if self.resolution > 1:
            needed = min(needed, ceil(log(upper / lower) / log(self.resolution) - ROUNDING) - 1)
        count = max(1, min(self.probes, needed))
        if count >= len(room):
            return list(room)
        ratio = upper / lower
        found = {round(lower * ratio ** (place / (count + 1))) for place in range(1, count + 1)}
        return sorted({min(max(size, lower + 1), upper - 1) for size in found})

    def _inside(self, sizes: Iterable[float]) -> list[int]:
        return sorted({min(max(round(size), self.least), self.most) for size in sizes})


def _is_ratio(given: object) -> bool:
    return not isinstance(given, bool) and isinstance(given, int | float) and isfinite(given) and given >= 1


def bracket(outcomes: Outcomes) -> tuple[int | None, int | None]:
    """The largest size that met the criterion, and the next tried one above it; without the first, the least tried.

    >>> bracket({8: True, 16: False, 24: True, 32: False, 64: False})
    (24, 32)
    >>> bracket({8: False, 16: False}), bracket({8: True})
    ((None, 8), (8, None))
    """
    lower = max((size for size, met in outcomes.items() if met), default=None)
    upper = min((size for size in outcomes if lower is None or size > lower), default=None)
    return lower, upper


def is_monotone(outcomes: Outcomes) -> bool:
    """Whether no size that met the criterion lies above one that did not."""
    lower, _ = bracket(outcomes)
    return lower is None or all(met for size, met in outcomes.items() if size < lower)
