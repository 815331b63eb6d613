"""Validate sizes and codes, for all models."""

from __future__ import annotations

import numpy as np

from factrank.errors import InputError


def require_sizes(sizes: dict[str, int], least: int = 1) -> None:
    """Raise an `InputError` that names the first size that is not an integer of at least `least`.

    >>> require_sizes({"d_model": 8, "n_heads": 0})
    Traceback (most recent call last):
    factrank.errors.InputError: n_heads must be an integer of at least 1; got 0
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise InputError(f"{name} must be an integer of at least {least}; got {size!r}")


def require_codes(**codes: tuple[object, int]) -> None:
    """Raise `InputError` if a code is outside its vocabulary, whose size is given with it.

    JAX would silently clamp such a code. Traced codes are not checked.
    """
    for name, (code, size) in codes.items():
        if isinstance(code, int | np.integer) and not 0 <= code < size:
            raise InputError(f"the {name} must be a code from 0 to {size - 1}; got {code}")
