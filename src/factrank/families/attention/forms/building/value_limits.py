"""How many values each form of code can tell apart in a precision: arithmetic alone, so that plans load no JAX."""

from __future__ import annotations

from math import asin, isqrt, pi, sqrt

from factrank.nn import SIGNIFICAND, Precision

FEWEST_DIGITS = 2

ROUNDINGS_ON_CIRCLE = 9
"""Two for stored numbers, seven for a logit."""


def bits_for(n_values: int) -> int:
    """Return the length of words for n values, b = max(1, ceil(log2 n)).

    >>> [bits_for(n) for n in (1, 2, 3, 4, 5, 500)]
    [1, 1, 2, 2, 3, 9]
    """
    return max(1, (n_values - 1).bit_length())


def largest_digit(n_digits: int, precision: Precision) -> int:
    """Return the largest h with 2 w h^2 + 4 h <= 2^p.

    >>> [2 * largest_digit(w, "bfloat16") + 1 for w in (1, 2, 3)], 2 * largest_digit(2, "float32") + 1
    ([21, 15, 13], 4095)
    """
    return (isqrt(4 + 2 * n_digits * 2 ** SIGNIFICAND[precision]) - 2) // (2 * n_digits)


def digits_for(n_values: int, precision: Precision) -> int | None:
    """Return the least number of digits, at least two, for n values; None if not even base 3 is exact.

    >>> [digits_for(n, "bfloat16") for n in (225, 226, 2197, 2198)]
    [2, 3, 3, 4]
    """
    n_digits = FEWEST_DIGITS
    while (h := largest_digit(n_digits, precision)) > 0:
        if (2 * h + 1) ** n_digits >= n_values:
            return n_digits
        n_digits += 1
    return None


def most_points(precision: Precision) -> int:
    """Return the largest number of points on a circle whose order survives rounding.

    >>> [most_points(precision) for precision in ("bfloat16", "float32")]
    [16, 4289]
    """
    total = ROUNDINGS_ON_CIRCLE * 2.0 ** -SIGNIFICAND[precision]
    return int(pi / asin(sqrt(total / (1 - total))))
