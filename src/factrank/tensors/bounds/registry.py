"""The registry of bounds; other packages add theirs in the entry-point group `factrank.bounds`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from factrank.errors import InputError
from factrank.plugins import Registry
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
    "lower.value_traces",
    "lower.label_pairs",
    "lower.forster",
    "upper.cp_bounds",
)
"""The modules whose `METHODS` are built in. Within a stage, methods run in this order."""


def methods(of: RankName) -> tuple[BoundMethod, ...]:
    """The methods for a rank in the order of their turns: by stage, built-in ones before added ones."""
    return tuple(sorted((method for method in BOUNDS.values() if method.of == of), key=lambda method: method.stage))


def register_bound(method: BoundMethod) -> BoundMethod:
    """Add a method that every bracket of its rank tries from now on, and return it."""
    return BOUNDS.register(_name(method), method)


def registered_bound(method: BoundMethod) -> AbstractContextManager[BoundMethod]:
    """Register a method for the duration of a `with` block."""
    return BOUNDS.registered(_name(method), method)


def _name(method: BoundMethod) -> str:
    return f"{method.of}: {method.name}"


def _built_in() -> Mapping[str, BoundMethod]:
    found = (method for module in MODULES for method in import_module(f"{__package__}.{module}").METHODS)
    return {_name(method): method for method in found}


def _checked(_: str, method: Any) -> tuple[str, BoundMethod]:
    if not isinstance(method, BoundMethod):
        raise InputError(f"expected a BoundMethod; got {type(method).__name__}")
    return _name(method), method


BOUNDS: Registry[BoundMethod] = Registry(
    "bound", "factrank.bounds", _built_in, _checked, lines=lambda method: getattr(method.run, "func", method.run)
)
"""Every bound by its rank and name."""
