"""Reference lines of charts: what results are compared with, such as the diagonal or a published constant.

A line is plain data: y as an expression in x (`y="x"` is the diagonal, `y="0.15 * x"` a published slope, `y="1.3"` a
published constant), or one value of x (a vertical line). Charts of trials and of summaries have the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.statistics.expressions import columns_in, numbers

X = "x"
N_POINTS = 64
"""Number of points at which a line is computed. On logarithmic axes it may be curved."""

Place = tuple[float, float]


@dataclass(frozen=True)
class ReferenceLine:
    """A line that results are compared with: y as a function of x, or a value of x.

    Arguments:
        label: Text next to the line.
        y: Arithmetic with x and numbers (`factrank.experiments.statistics.expressions`).
        x: Where a vertical line is; give either y or x.

    >>> ReferenceLine("the diagonal", "x").values([1, 2])
    [1.0, 2.0]
    """

    label: str
    y: str = ""
    x: int | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", str(self.y))
        if bool(self.y) == (self.x is not None):
            raise InputError(f"reference line {self.label!r}: give either y, an expression in x, or x, a number")
        if self.x is not None and not (isinstance(self.x, int | float) and isfinite(self.x)):
            raise InputError(f"reference line {self.label!r}: x must be a finite number; got {self.x!r}")
        others = sorted(set(columns_in(self.y)) - {X}) if self.y else []
        if others:
            raise InputError(f"reference line {self.label!r}: y is an expression in x and numbers; got {others[0]!r}")

    @property
    def is_constant(self) -> bool:
        """Whether y is the same for every x."""
        return bool(self.y) and not columns_in(self.y)

    def values(self, places: Sequence[int | float]) -> list[float]:
        """Return y at these values of x; NaN if it is not a finite number."""
        found: list[float] = numbers(pa.table({X: pa.array(places, pa.float64())}), self.y).tolist()
        return found

    def points(
        self, least: int | float, greatest: int | float, *, log_x: bool = False, log_y: bool = False
    ) -> list[Place]:
        """Return points (x, y) of a line from the least to the greatest x; empty for a vertical line.

        Points that a logarithmic axis cannot show are omitted.

        >>> ReferenceLine("half", "x / 2").points(0, 2)[-1]
        (2.0, 1.0)
        """
        if not self.y:
            return []
        spaced = np.geomspace if log_x and least > 0 else np.linspace
        places = spaced(least, greatest, N_POINTS if greatest > least else 1).tolist()
        found = zip(places, self.values(places), strict=True)
        return [(x, y) for x, y in found if isfinite(y) and (y > 0 or not log_y)]


def frozen_lines(lines: Sequence[ReferenceLine]) -> tuple[ReferenceLine, ...]:
    """Convert reference lines to a tuple.

    Raises:
        InputError: If one of them is something else.
    """
    given: object = lines
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"references must be a list of reference lines; got {given!r}")
    strange = next((line for line in lines if not isinstance(line, ReferenceLine)), None)
    if strange is not None:
        raise InputError(f"references must be a list of reference lines; it contains {strange!r}")
    return tuple(lines)
