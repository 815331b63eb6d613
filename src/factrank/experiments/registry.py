"""The registry of families: the built-in ones by the names of their modules, others by entry points or a call.

Built-in families are a table of names, because a GPU machine may run a tree that is not installed and has no entry
points. Nothing is loaded before a trial asks for its family.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING

from factrank.errors import InputError
from factrank.experiments.specs import DataSpec, ModelSpec, register_kind, unregister_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from factrank.experiments.family import Family

BUILT_IN = (
    "factrank.families.attention.family",
    "factrank.families.memory.family",
    "factrank.families.factual_recall.family",
    "factrank.families.memoriser.family",
)
"""The modules of the built-in families; each has a `FAMILY`."""

ENTRY_POINTS = "factrank.families"
"""The group of entry points by which other packages add families."""

_families: dict[str, Family] = {}
_of_model: dict[type, Family] = {}


def register_family(family: Family) -> Family:
    """Make a family known, under its name and the kinds of its models and data; each stands for one thing."""
    known = _families.setdefault(family.name, family)
    if known is not family:
        raise InputError(f"there is already a family {family.name!r}")
    for kind, spec in family.models.items():
        register_kind(kind, spec, ModelSpec)
        _of_model[spec] = family
    for kind, spec in family.data.items():
        register_kind(kind, spec, DataSpec)
    return family


def unregister_family(family: Family) -> None:
    """Forget a family that was registered by a call."""
    del _families[family.name]
    for kind, spec in (*family.models.items(), *family.data.items()):
        _of_model.pop(spec, None)
        unregister_kind(kind)


@contextmanager
def registered_family(family: Family) -> Iterator[Family]:
    """Register a family for the time of a `with` block."""
    register_family(family)
    try:
        yield family
    finally:
        unregister_family(family)


def families() -> Mapping[str, Family]:
    """All families by name."""
    _load()
    return MappingProxyType(_families)


def family_of(spec: object) -> Family:
    """The family of a model, by the class of its specification."""
    if type(spec) not in _of_model:
        _load()
    if type(spec) not in _of_model:
        known = ", ".join(sorted(one.__name__ for one in _of_model))
        raise InputError(f"the model of a trial is described by {known}; got {spec!r}")
    return _of_model[type(spec)]


def family_of_model(model: object) -> Family:
    """The family of a model itself."""
    for family in families().values():
        if family.spec_of(model) is not None:
            return family
    raise InputError(f"expected a model of the families {', '.join(families())}; got {type(model).__name__}")


def engine_names() -> tuple[str, ...]:
    """The engines that families offer beside lanes."""
    return tuple(dict.fromkeys(engine.name for family in families().values() for engine in family.engines))


@cache
def _load() -> None:
    for module in BUILT_IN:
        register_family(import_module(module).FAMILY)
    for point in entry_points(group=ENTRY_POINTS):
        register_family(point.load())
