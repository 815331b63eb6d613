"""Brackets: choose the sizes to try next, given the outcomes so far. Nothing is run here.

    lower = the largest size that met the criterion,  upper = the next larger size that was tried

Both ends were tried; the criterion is met at lower and not at upper, even if outcomes are not monotone. With k probes
per round and r = upper / lower, the sizes of a round are

    first           k sizes from guess / sqrt(spread) to guess sqrt(spread); by default, from guess / 2 to 2 guess
    no upper        k sizes up to `spread` (4) times the largest            (2 times if k = 1)
    no lower        k sizes down to 1 / spread (a quarter) of the smallest  (a half if k = 1)
    both            k sizes between them, or fewer if the resolution does not need k

in geometric progression. The search ends when r <= resolution, or when there is no integer between lower and upper. If
sizes above lower could not be run (out of memory), smaller ones are tried, down to lower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, isfinite, log

from factrank.errors import InputError
from factrank.nn import require_sizes

Outcomes = Mapping[int, bool]
"""Whether each size that was tried met the criterion."""

ROUNDING = 1e-9
"""Tolerance for a quotient of logarithms that should be an integer."""


@dataclass(frozen=True)
class Sizes:
    """Search range: sizes from `least` to `most`, starting around `guess`, with `probes` sizes per round.

    A `resolution` of 1.05 ends the search when upper is at most 5 % above lower; 1 ends it at consecutive integers. A
    smaller `spread` keeps the sizes of a round closer together, which is faster if the guess is good.
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
                f"sizes require least <= guess <= most; got least {self.least}, guess {self.guess}, most {self.most}"
            )
        if not _is_ratio(self.resolution):
            raise InputError(f"the resolution must be a ratio of two sizes, at least 1; got {self.resolution!r}")
        if not _is_ratio(self.spread) or self.spread == 1:
            raise InputError(f"the spread must be a ratio of two sizes, greater than 1; got {self.spread!r}")
        object.__setattr__(self, "resolution", float(self.resolution))
        object.__setattr__(self, "spread", float(self.spread))

    def next(self, outcomes: Outcomes, failed: Collection[int] = ()) -> list[int]:
        """Return the sizes to try next, ascending; empty if the search has ended. Sizes that `failed` are not retried.

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
        """Return whether the interval is narrow enough."""
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
        """Extend beyond the end in geometric progression up to this factor, by at least one size if there is room."""
        beyond = self._inside(end * factor ** (place / self.probes) for place in range(1, self.probes + 1))
        step = 1 if factor > 1 else -1
        return [size for size in beyond if size != end] or self._inside([float(end + step)])

    def _between(self, lower: int, upper: int) -> list[int]:
        """Subdivide the interval in geometric progression, into no more parts than the resolution needs."""
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
    """Return the largest size that met the criterion, and the next larger size that was tried.

    If no size met it, returns None and the smallest size.

    >>> bracket({8: True, 16: False, 24: True, 32: False, 64: False})
    (24, 32)
    >>> bracket({8: False, 16: False}), bracket({8: True})
    ((None, 8), (8, None))
    """
    lower = max((size for size, met in outcomes.items() if met), default=None)
    upper = min((size for size in outcomes if lower is None or size > lower), default=None)
    return lower, upper


def is_monotone(outcomes: Outcomes) -> bool:
    """Return whether no size that met the criterion is larger than a size that did not.

    >>> is_monotone({8: True, 16: False}), is_monotone({8: False, 16: True})
    (True, False)
    """
    lower, _ = bracket(outcomes)
    return lower is None or all(met for size, met in outcomes.items() if size < lower)
