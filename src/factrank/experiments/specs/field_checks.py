"""Checks that the fields of specifications share: real numbers, lists of numbers, flags."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from factrank.errors import InputError


def as_floats(spec: object, *names: str) -> None:
    """Integers in the place of real numbers are made real, so that equal trials have equal hashes."""
    for name in names:
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise InputError(f"{name} must be a finite number, 0 or more; got {value!r}")
        object.__setattr__(spec, name, float(value) + 0.0)  # -0.0 becomes 0.0


def require_numbers(spec: object, name: str) -> None:
    """Lists of numbers become tuples of real ones."""
    given = getattr(spec, name)
    if not isinstance(given, tuple | list) or not all(isinstance(number, int | float) for number in given):
        raise InputError(f"{name} is a list of numbers; got {given!r}")
    object.__setattr__(spec, name, tuple(map(float, given)))


def require_flags(spec: object, *names: str) -> None:
    """Raise an `InputError` for the first field that is not True or False."""
    for name in names:
        if not isinstance(getattr(spec, name), bool):
            raise InputError(f"{name} must be True or False; got {getattr(spec, name)!r}")


def are_different(given: Sequence[object]) -> bool:
    """Whether there is at least one, and none comes twice."""
    return 0 < len(given) == len({repr(one) for one in given})
