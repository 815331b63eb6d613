"""Vectors and labels whose memoriser cannot be solved for, because numbers would leave the range of floating point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from factrank.certificates import ARITHMETIC
from factrank.errors import InputError
from factrank.families.memoriser.examples import VectorExamples
from factrank.nn import PartArrays, Precision


@contextmanager
def in_range(what: str, dtype: np.dtype[Any]) -> Iterator[None]:
    """Where numbers are found to leave the range of floating point, an `InputError` says of what they are.

    They are looked for: warnings of NumPy also come from products in which nothing overflows, on some machines.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except FloatingPointError:
        raise InputError(
            f"the {what} are so large or so small that solving for them leaves the range of {dtype.name}: scale them "
            "to sizes of about 1"
        ) from None


def rounded_parts(parts: PartArrays, dtype: np.dtype[Any]) -> PartArrays:
    """Weights in this precision, all of them finite."""
    rounded = {name: part.astype(dtype) for name, part in parts.items()}
    for part in rounded.values():
        require_finite(part.astype(np.float64))
    return rounded


def require_finite(numbers: Float[np.ndarray, "..."]) -> None:
    """Raise the error that `in_range` turns into words where a number is infinite or not a number."""
    if not np.isfinite(numbers).all():
        raise FloatingPointError


def vanishes(examples: VectorExamples, parts: PartArrays, dtype: np.dtype[Any]) -> bool:
    """Whether weights are too small for the precision, or vectors too small for their scores to have a spread."""
    least = ARITHMETIC[cast("Precision", dtype.name)].least
    read = [parts[name].astype(np.float64) for name in ("embedding", "w_q") if name in parts]
    largest = float(max(np.abs(examples.queries).max(), np.abs(examples.contexts).max()))
    without_spread = 0 < largest < float(np.finfo(np.float64).tiny) ** 0.25  # the variance of scores is of order 4
    return without_spread or any(np.abs(part).max() < least for part in read)
