"""The registry of families: the built-in ones by the names of their modules, others by entry points or a call.

Built-in families are a table of names, because a GPU machine may run a tree that is not installed and has no entry
points. Nothing is loaded before a trial asks for its family.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING

from factrank.errors import InputError
from factrank.experiments.specs import KINDS, DataSpec, ModelSpec, register_kind, unregister_kind

if TYPE_CHECKING:
    from factrank.experiments.family import Family

BUILT_IN = (
    "factrank.families.attention.family",
    "factrank.families.memory.family",
    "factrank.families.factual_recall.family",
    "factrank.families.memoriser.family",
)
"""The modules of the built-in families; each has a `FAMILY`."""

EVERY_ENGINE = ("auto", "lanes")
"""What every family knows as its engine; others are offered by families."""

ENTRY_POINTS = "factrank.families"
"""The group of entry points by which other packages add families."""

_families: dict[str, Family] = {}
_of_model: dict[type, Family] = {}
_by_call: set[str] = set()


def register_family(family: Family) -> Family:
    """Make a family known, under its name and the kinds of its models and data; each stands for one thing.

    One that is registered again, as when a cell of a notebook is run twice, takes the place of itself.
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
    """All of it or, with an error, nothing."""
    if family.name in _families:
        raise InputError(f"there is already a family {family.name!r}")
    for kind, spec in (*family.models.items(), *family.data.items()):
        if KINDS.get(kind, spec) is not spec:
            raise InputError(f"the kind {kind!r} is already {KINDS[kind].__name__}")
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


def _is_again(known: Family, family: Family) -> bool:
    """Whether two families are made by the same lines."""
    old, new = type(known), type(family)
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def unregister_family(family: Family) -> None:
    """Forget a family that was registered by a call."""
    del _families[family.name]
    _by_call.discard(family.name)
    for kind, spec in (*family.models.items(), *family.data.items()):
        _of_model.pop(spec, None)
        unregister_kind(kind)


def registered_by_call() -> frozenset[str]:
    """The names of the families that only this process knows."""
    return frozenset(_by_call)


@contextmanager
def registered_family(family: Family) -> Iterator[Family]:
    """Register a family for the time of a `with` block; one that is registered already stays."""
    is_new = families().get(family.name) is not family
    register_family(family)
    try:
        yield family
    finally:
        if is_new:
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
    """The engines that families offer in addition to lanes."""
    return tuple(dict.fromkeys(engine.name for family in families().values() for engine in family.engines))


def built_in_families() -> tuple[Family, ...]:
    """Those of this package."""
    return tuple(import_module(module).FAMILY for module in BUILT_IN)


@cache
def _load() -> None:
    for family in built_in_families():
        _register(family)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            family = point.load()
            if not isinstance(family.name, str) or not isinstance(family.models, Mapping):
                raise InputError(f"expected a Family; got {type(family).__name__}")
            _register(family)
        except Exception as error:  # another package must not stop what needs nothing of it
            package = point.dist.name if point.dist is not None else "an unknown package"
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the family {point.name!r} of {package} is left out: {reason}", stacklevel=2)
