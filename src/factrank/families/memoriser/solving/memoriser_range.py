"""Refuse to solve for vectors and labels that would leave the range of floating point."""

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
    """Raise an `InputError` that names the cause if numbers leave the range of floating point inside the context.

    Numbers are checked explicitly, because on some machines NumPy also warns about products that do not overflow.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except FloatingPointError:
        raise InputError(
            f"the {what} are too large or too small to solve for in {dtype.name}; scale them to about 1"
        ) from None


def rounded_parts(parts: PartArrays, dtype: np.dtype[Any]) -> PartArrays:
    """Round weights to a precision, and check that they are finite."""
    rounded = {name: part.astype(dtype) for name, part in parts.items()}
    for part in rounded.values():
        require_finite(part.astype(np.float64))
    return rounded


def require_finite(numbers: Float[np.ndarray, "..."]) -> None:
    """Raise the error that `in_range` translates if a number is infinite or NaN."""
    if not np.isfinite(numbers).all():
        raise FloatingPointError


def vanishes(examples: VectorExamples, parts: PartArrays, dtype: np.dtype[Any]) -> bool:
    """Return whether weights underflow in the precision, or vectors are too small for their scores to vary."""
    least = ARITHMETIC[cast("Precision", dtype.name)].least
    read = [parts[name].astype(np.float64) for name in ("embedding", "w_q") if name in parts]
    largest = float(max(np.abs(examples.queries).max(), np.abs(examples.contexts).max()))
    without_spread = (
        0 < largest < float(np.finfo(np.float64).tiny) ** 0.25
    )  # the variance of scores has degree 4 in the vectors
    return without_spread or any(np.abs(part).max() < least for part in read)
