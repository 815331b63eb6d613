"""Quantities with limits, such as correlations, and Fisher's z, which takes the numbers between the limits to the line.

With m the middle of the limits and h half their distance,

    u = (t - m) / h,    z = arctanh(u),    dz / dt = 1 / (h (1 - u^2))

A correlation has the limits -1 and 1, a correlation minus a constant c has -1 - c and 1 - c, and a difference of two
correlations has -2 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, copysign, inf, tanh

import numpy as np
from jaxtyping import Bool, Float

AT_A_LIMIT = 1e-9
"""A number is at a limit if it is closer to it than this fraction of half their distance."""


@dataclass(frozen=True)
class QuantityLimits:
    """The least and the greatest number that a quantity can be.

    >>> QuantityLimits(-1.0, 1.0).minus(QuantityLimits(-1.0, 1.0))
    QuantityLimits(low=-2.0, high=2.0)
    """

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The number in the middle."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half the distance between the limits."""
        return (self.high - self.low) / 2

    def minus(self, other: QuantityLimits) -> QuantityLimits:
        """Return the limits of a difference."""
        return QuantityLimits(self.low - other.high, self.high - other.low)

    def forth(self, number: float) -> float:
        """Return Fisher's z of a number; infinite at the limits and beyond."""
        inside = (number - self.middle) / self.half
        return atanh(inside) if abs(inside) < 1 else copysign(inf, inside)

    def back(self, transformed: float) -> float:
        """Return the number with this z."""
        return self.within(self.middle + self.half * tanh(transformed))

    def within(self, number: float) -> float:
        """Return the number, or the limit that it passes."""
        return min(max(number, self.low), self.high)

    def transformed(
        self, values: Float[np.ndarray, " draws"], errors: Float[np.ndarray, " draws"]
    ) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, " draws"], Bool[np.ndarray, " draws"]]:
        """Return Fisher's z of numbers, the standard errors of z, and which numbers are at a limit.

        The units of a draw at a limit agree with each other, so its z is large but finite, without an error.
        """
        inside = (values - self.middle) / self.half
        at_limit = np.abs(inside) > 1 - AT_A_LIMIT
        clipped = np.clip(inside, AT_A_LIMIT - 1, 1 - AT_A_LIMIT)
        return np.arctanh(clipped), np.where(at_limit, 0.0, errors / (self.half * (1 - clipped**2))), at_limit
