"""`StoredTensor`: a tensor of a checkpoint whose rows are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from factrank.errors import InputError

ReadRows = Callable[[int, int], np.ndarray]
"""Reads the rows from start to stop along the first axis."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a checkpoint, not yet read.

    Arguments:
        name: Name in the checkpoint.
        shape: Shape as NumPy has it.
        kind: Stored type, such as "F32", "BF16" or "Q4_1".
        place: File, for messages.
        unit: Unit roundoff of the stored type. Quantised values are taken as they are: as float32.
        bits: Bits that a stored number takes, on average over a block.
        read: Reads some rows as floating-point numbers.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    place: str
    unit: float
    bits: float
    read: ReadRows

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=object))

    def rows(self, start: int = 0, stop: int | None = None) -> Float[np.ndarray, "..."]:
        """Read the rows from `start` to `stop` along the first axis; the whole tensor by default.

        Raises:
            InputError: If there are no such rows, the file cannot be read, or the rows contain NaN or infinite numbers.
        """
        n_rows = (self.shape or (1,))[0]
        stop = n_rows if stop is None else stop
        if not 0 <= start <= stop <= n_rows:
            raise InputError(f"{self.place}: the tensor {self.name!r} has {n_rows:,} rows; expected at least {stop:,}")
        try:
            numbers = self.read(start, stop)
        except (OSError, ValueError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{self.place}: the tensor {self.name!r} cannot be read: {reason}") from None
        if not np.isfinite(numbers).all():
            raise InputError(f"{self.place}: the tensor {self.name!r} contains NaN or infinite numbers")
        return numbers

    def require_shape(self, shape: tuple[int, ...], because: str) -> None:
        """Raise `InputError` unless the tensor has this shape; `because` says what implies it."""
        if self.shape != shape:
            raise InputError(
                f"{self.place}: the tensor {self.name!r} has shape {self.shape}; {because} implies {shape}"
            )


Tensors = Mapping[str, StoredTensor]
"""The tensors of a checkpoint by name."""


def require_apart(place: str, spans: Iterable[tuple[int, int, str]]) -> None:
    """Raise `InputError` if two tensors share bytes of a file.

    Arguments:
        place: The file, for messages.
        spans: First byte, byte after the last, and name of each tensor.
    """
    end, before = 0, ""
    for start, stop, name in sorted(span for span in spans if span[0] < span[1]):
        if start < end:
            raise InputError(
                f"{place}: the tensors {before!r} and {name!r} overlap; expected each to have its own bytes"
            )
        end, before = stop, name
