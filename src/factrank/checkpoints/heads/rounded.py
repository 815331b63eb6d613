r"""`Rounded`: matrices with a bound on what rounding to the stored type has changed in each entry, to first order.

A stored weight w is the nearest number of its type to a weight $w (1 + \epsilon)$ with $|\epsilon| \le u$, or, below
the smallest normal number, to a weight that differs by at most half the smallest subnormal number. Products keep
first-order errors: $|\delta(AB)| \le |\delta A| |B| + |A| |\delta B|$ entry by entry. The arithmetic is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.readers import StoredTensor

Numbers = Float[np.ndarray, "..."]

SMALLEST = {"F64": 2.0**-1074, "F32": 2.0**-149, "BF16": 2.0**-133, "F16": 2.0**-24}
"""Smallest subnormal numbers of stored types. Types with scales are scaled to avoid them."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """Numbers and the first-order bound on the rounding error of each."""

    values: Numbers
    error: Numbers

    @classmethod
    def read(cls, tensor: StoredTensor) -> Rounded:
        """Read a tensor; each entry was rounded once to the stored type."""
        values = tensor.rows().astype(np.float64)
        return cls(values, np.maximum(tensor.unit * np.abs(values), SMALLEST.get(tensor.kind, 0.0) / 2))

    @classmethod
    def exact(cls, values: Numbers) -> Rounded:
        """Return numbers without error."""
        return cls(values, np.zeros_like(values))

    @property
    def frobenius_error(self) -> Float[np.ndarray, "..."]:
        """Bound on the Frobenius norm of the error of each matrix in the last two axes; infinite beyond about 1e154."""
        with np.errstate(over="ignore"):
            return np.asarray(np.sqrt((self.error**2).sum(axis=(-2, -1))))

    @property
    def T(self) -> Rounded:  # noqa: N802 - as NumPy calls it
        """The matrices in the last two axes, transposed."""
        return Rounded(self.values.swapaxes(-1, -2), self.error.swapaxes(-1, -2))

    def __getitem__(self, place: Any) -> Rounded:
        return Rounded(self.values[place], self.error[place])

    def reshape(self, *shape: int) -> Rounded:
        """Return the same numbers in another shape."""
        return Rounded(self.values.reshape(shape), self.error.reshape(shape))

    def __mul__(self, other: Rounded) -> Rounded:
        error = np.abs(self.values) * other.error + self.error * np.abs(other.values)
        return Rounded(self.values * other.values, error)

    def __matmul__(self, other: Rounded) -> Rounded:
        error = np.abs(self.values) @ other.error + self.error @ np.abs(other.values)
        return Rounded(self.values @ other.values, error)

    def __add__(self, other: Rounded) -> Rounded:
        return Rounded(self.values + other.values, self.error + other.error)

    def plus_one(self) -> Rounded:
        """Return 1 + w; the error is the stored number's."""
        return Rounded(1 + self.values, self.error)

    def centred(self) -> Rounded:
        """Subtract the mean over the rows; a projection, so the Frobenius norm of the error does not grow."""
        return Rounded(self.values - self.values.mean(axis=-2, keepdims=True), self.error)


def joined(parts: list[Rounded], axis: int) -> Rounded:
    """Concatenate along an axis."""
    return Rounded(
        np.concatenate([part.values for part in parts], axis), np.concatenate([p.error for p in parts], axis)
    )
