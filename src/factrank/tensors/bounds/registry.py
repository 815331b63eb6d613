"""The registry of bounds: built-in ones, and bounds that other packages add."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from factrank.errors import InputError
from factrank.tensors.bounds.bracket import RankName
from factrank.tensors.bounds.method import BoundMethod

MODULES = (
    "lower.flattenings",
    "lower.valid_fibers",
    "lower.value_sets",
    "lower.counting",
    "upper.plain_bounds",
    "upper.reference_values",
    "upper.spanning_tree",
    "upper.code_bounds",
    "lower.substitution",
    "lower.rank_one_slice",
    "lower.koszul_bounds",
    "lower.forster",
    "upper.cp_bounds",
    "upper.code_searches",
)
"""The modules whose `METHODS` are tried; within a stage in this order."""

_added: list[BoundMethod] = []


def methods(of: RankName) -> tuple[BoundMethod, ...]:
    """The methods for a rank in the order of their turns: by stage, built-in ones before added ones."""
    return tuple(sorted((method for method in _all() if method.of == of), key=lambda method: method.stage))


def register(method: BoundMethod) -> BoundMethod:
    """Add a method: from now on every bracket of its rank tries it. Gives it back."""
    if any(method.name == other.name for other in _all() if method.of == other.of):
        raise InputError(f"a bound of the {method.of} is registered as {method.name!r} already: give it another name")
    _added.append(method)
    return method


def unregister(method: BoundMethod) -> None:
    """Take away what was added."""
    _added.remove(method)


@contextmanager
def registered(method: BoundMethod) -> Iterator[BoundMethod]:
    """Register a method for the time of a `with` block."""
    register(method)
    try:
        yield method
    finally:
        unregister(method)


def _all() -> tuple[BoundMethod, ...]:
    return (*_built_in(), *_added)


@cache
def _built_in() -> tuple[BoundMethod, ...]:
    return tuple(method for module in MODULES for method in import_module(f"{__package__}.{module}").METHODS)
