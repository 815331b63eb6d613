"""Precision: the floating-point types that weights are stored in and layers computed in."""

from __future__ import annotations

from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np

from factrank.errors import InputError

Precision = Literal["float64", "float32", "bfloat16"]
"""The type of the weights and of the arithmetic."""

SIGNIFICAND: dict[Precision, int] = {"float64": 53, "float32": 24, "bfloat16": 8}
"""Bits of the significand: integers up to 2^bits are exact, the unit roundoff is 2^-bits."""


def dtype_of(precision: str) -> np.dtype[Any]:
    """The NumPy type of the weights."""
    if precision not in get_args(Precision):
        raise InputError(f"precision must be one of {', '.join(get_args(Precision))}; got {precision!r}")
    return np.dtype(jnp.bfloat16) if precision == "bfloat16" else np.dtype(precision)
