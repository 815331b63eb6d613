"""Validation of specification fields: numbers, lists of numbers, flags."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from factrank.errors import InputError


def as_floats(spec: object, *names: str) -> None:
    """Convert these fields to float, so equal trials have equal hashes.

    Raises:
        InputError: If a field is not a finite number >= 0.
    """
    for name in names:
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise InputError(f"{name} must be a finite number, 0 or more; got {value!r}")
        object.__setattr__(spec, name, float(value) + 0.0)  # -0.0 becomes 0.0


def require_numbers(spec: object, name: str) -> None:
    """Convert a field to a tuple of floats; raise an `InputError` if it is not a list of numbers."""
    given = getattr(spec, name)
    if not isinstance(given, tuple | list) or not all(isinstance(number, int | float) for number in given):
        raise InputError(f"{name} must be a list of numbers; got {given!r}")
    object.__setattr__(spec, name, tuple(map(float, given)))


def require_flags(spec: object, *names: str) -> None:
    """Raise an `InputError` for the first field that is not True or False."""
    for name in names:
        if not isinstance(getattr(spec, name), bool):
            raise InputError(f"{name} must be True or False; got {getattr(spec, name)!r}")


def are_different(given: Sequence[object]) -> bool:
    """Return whether there is at least one item, and all items are different."""
    return 0 < len(given) == len({repr(one) for one in given})
