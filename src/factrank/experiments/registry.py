"""Registry of families: built-in ones by module name, others by entry point or `register_family`.

Built-in families are listed by name because a GPU machine may run a source tree that is not installed and has no entry
points. Modules are imported only when a family is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from factrank.errors import InputError
from factrank.experiments.specs import (
    KINDS,
    SHARED_MEASURES,
    DataSpec,
    Measure,
    ModelSpec,
    register_kind,
    unregister_kind,
)
from factrank.plugins import load_plugins

if TYPE_CHECKING:
    from factrank.experiments.family import Family

BUILT_IN = (
    "factrank.families.attention.family",
    "factrank.families.memory.family",
    "factrank.families.factual_recall.family",
    "factrank.families.memoriser.family",
    "factrank.families.language.family",
)
"""Modules of the built-in families; each defines `FAMILY`."""

EVERY_ENGINE = ("auto", "lanes")
"""Engines that every family supports; families may define more."""

EVERY_STOP = ("never", "recall", "recall_tau")
"""Stopping criteria that every family supports; families may define more."""

ENTRY_POINTS = "factrank.families"
"""Entry point group for families of other packages."""

_families: dict[str, Family] = {}
_of_model: dict[type, Family] = {}
_by_call: set[str] = set()
_packages: dict[str, str] = {}


def register_family(family: Family) -> Family:
    """Register a family under its name, and the kinds of its models, data and measures.

    Registering a family again, for example by rerunning a notebook cell, replaces it.

    Raises:
        InputError: If a name, kind or engine is already taken.
    """
    _load()
    known = _families.get(family.name)
    if known is family:
        return family
    if known is not None and family.name in _by_call and _is_again(known, family):
        unregister_family(known)
    _register(family)
    _by_call.add(family.name)
    return family


def _register(family: Family) -> None:
    """Register all of a family, or nothing if there is an error."""
    if family.name in _families:
        raise InputError(f"there is already a family {family.name!r}")
    for kind, spec in _kinds(family):
        if KINDS.get(kind, spec) is not spec:
            raise InputError(f"the kind {kind!r} is already used by {KINDS[kind].__name__}")
    names = [engine.name for other in _families.values() for engine in other.engines]
    for engine in family.engines:
        if engine.name in {*names, *EVERY_ENGINE}:
            raise InputError(f"there is already an engine {engine.name!r}")
    _families[family.name] = family
    for kind, spec in family.models.items():
        register_kind(kind, spec, ModelSpec)
        _of_model[spec] = family
    for kind, spec in family.data.items():
        register_kind(kind, spec, DataSpec)
    for kind, measure in family.measures.items():
        register_kind(kind, measure, Measure)


def _kinds(family: Family) -> list[tuple[str, type]]:
    return [*family.models.items(), *family.data.items(), *family.measures.items()]


def _is_again(known: Family, family: Family) -> bool:
    """Check whether two families are instances of the same class definition."""
    old, new = type(known), type(family)
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def unregister_family(family: Family) -> None:
    """Remove a family that was added by `register_family`."""
    del _families[family.name]
    _by_call.discard(family.name)
    shared = {**SHARED_MEASURES, **{kind: spec for other in _families.values() for kind, spec in _kinds(other)}}
    for kind, spec in _kinds(family):
        _of_model.pop(spec, None)
        if kind not in shared:
            unregister_kind(kind)


def registered_by_call() -> frozenset[str]:
    """Return the names of the families that were added by `register_family`; other processes do not know them."""
    return frozenset(_by_call)


@contextmanager
def registered_family(family: Family) -> Iterator[Family]:
    """Register a family within a `with` block; a family that is already registered stays registered."""
    is_new = families().get(family.name) is not family
    register_family(family)
    try:
        yield family
    finally:
        if is_new:
            unregister_family(family)


def families() -> Mapping[str, Family]:
    """Return all families by name.

    >>> list(families())[:5]
    ['attention', 'memory', 'factual_recall', 'memoriser', 'language']
    """
    _load()
    return MappingProxyType(_families)


def family_of(spec: object) -> Family:
    """Return the family of a model, given its specification."""
    if type(spec) not in _of_model:
        _load()
    if type(spec) not in _of_model:
        known = ", ".join(sorted(one.__name__ for one in _of_model))
        raise InputError(f"the model of a trial must be one of {known}; got {spec!r}")
    return _of_model[type(spec)]


def family_of_model(model: object) -> Family:
    """Return the family of a model."""
    for family in families().values():
        if family.spec_of(model) is not None:
            return family
    raise InputError(f"expected a model of the families {', '.join(families())}; got {type(model).__name__}")


def engine_names() -> tuple[str, ...]:
    """Return the names of the engines that families add to lanes."""
    return tuple(dict.fromkeys(engine.name for family in families().values() for engine in family.engines))


def stop_names() -> tuple[str, ...]:
    """Return the stopping criteria that families add to `EVERY_STOP`."""
    return tuple(
        dict.fromkeys(stop for family in families().values() for stop in family.stops if stop not in EVERY_STOP)
    )


def built_in_families() -> tuple[Family, ...]:
    """Return the families of this package."""
    return tuple(import_module(module).FAMILY for module in BUILT_IN)


def package_of_family(name: str) -> str:
    """Return the package that defines a family, or its module if it was added by `register_family`."""
    return _packages.get(name) or type(families()[name]).__module__


@cache
def _load() -> None:
    for family in built_in_families():
        _register(family)
        _packages[family.name] = "factrank"
    load_plugins("family", ENTRY_POINTS, _add_plugin)


def _add_plugin(_: str, family: Any, package: str) -> None:
    if not isinstance(family.name, str) or not isinstance(family.models, Mapping):
        raise InputError(f"expected a Family; got {type(family).__name__}")
    _register(family)
    _packages[family.name] = package
