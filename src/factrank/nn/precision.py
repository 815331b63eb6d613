"""Floating-point precisions of weights and arithmetic."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from factrank.errors import InputError

Precision = Literal["float64", "float32", "bfloat16"]
"""Floating-point type of the weights and of the arithmetic."""

SIGNIFICAND: dict[Precision, int] = {"float64": 53, "float32": 24, "bfloat16": 8}
"""Significand bits: integers up to 2^bits are exact, and the unit roundoff is 2^-bits."""


def dtype_of(precision: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a precision."""
    if precision not in get_args(Precision):
        raise InputError(f"precision must be one of {', '.join(get_args(Precision))}; got {precision!r}")
    if precision != "bfloat16":
        return np.dtype(precision)
    from ml_dtypes import bfloat16  # noqa: PLC0415 - the type of JAX, without loading JAX

    found: np.dtype[Any] = np.dtype(bfloat16)
    return found
