"""Sizes and codes that have to be whole numbers within bounds: the checks that all models share."""

from __future__ import annotations

import numpy as np

from factrank.errors import InputError


def require_sizes(sizes: dict[str, int], least: int = 1) -> None:
    """Raise an `InputError` that names the first size that is not an integer of at least `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise InputError(f"{name} must be an integer of at least {least}; got {size!r}")


def require_codes(**codes: tuple[object, int]) -> None:
    """Raise an `InputError` for the first code, given with the size of its vocabulary, that is outside of it.

    JAX would clamp it in silence. Traced codes are not known yet and pass.
    """
    for name, (code, size) in codes.items():
        if isinstance(code, int | np.integer) and not 0 <= code < size:
            raise InputError(f"the {name} must be a code from 0 to {size - 1}; got {code}")
