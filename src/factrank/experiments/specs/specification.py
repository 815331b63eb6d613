"""Specifications as data: convert frozen dataclasses to plain dictionaries and back, and compute their hash.

Fields with their default value are omitted, so adding an option with a default does not change existing hashes. A field
that accepts several classes is stored with a `kind`. Unknown keys, unknown kinds and values of the wrong type are
errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, cached_property
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from factrank.errors import InputError

Plain = None | bool | int | float | str | list[Any] | dict[str, Any]
Spec = TypeVar("Spec")

KINDS: dict[str, type] = {}
"""Specification classes by `kind`."""

KIND_OF: dict[type, str] = {}
"""The first kind of each class in `KINDS`."""

ROLES: dict[type, set[str]] = {}
"""Kinds that a field accepts, by the role in its annotation."""


class Options(tuple[tuple[str, object], ...]):
    """Named numbers, strings and tuples, sorted by name: a frozen, hashable dictionary.

    >>> Options.of({"seed": 3, "n_keys": 20})
    Options(n_keys=20, seed=3)
    """

    @classmethod
    def of(cls, named: Mapping[str, object]) -> Options:
        """Return the options in a dictionary; lists become tuples."""
        return cls(sorted((str(name), _frozen(value)) for name, value in named.items()))

    def __eq__(self, other: object) -> bool:
        """Compare as JSON: 1, 1.0 and True are different."""
        return self is other or (isinstance(other, Options) and self._json == other._json)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._json)

    @cached_property
    def _json(self) -> str:
        return canonical_json(to_plain(self))

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self)})"


NO_OPTIONS = Options()


def register_kind(kind: str, spec: type[Spec], role: type | None = None) -> type[Spec]:
    """Register a specification class under the name used in dictionaries, and assign it a role.

    Raises:
        InputError: If the name belongs to another class.
    """
    if KINDS.setdefault(kind, spec) is not spec:
        raise InputError(f"the kind {kind!r} is already used by {KINDS[kind].__name__}")
    KIND_OF.setdefault(spec, kind)
    if role is not None:
        ROLES.setdefault(role, set()).add(kind)
    return spec


def unregister_kind(kind: str) -> None:
    """Remove a kind and its roles."""
    spec = KINDS.pop(kind)
    del KIND_OF[spec]
    KIND_OF.update({other: name for name, other in reversed(KINDS.items()) if other is spec})
    for kinds in ROLES.values():
        kinds.discard(kind)


def has_role(value: object, role: type) -> bool:
    """Return whether the class of a value has this role."""
    return kind_of(type(value)) in ROLES.get(role, ())


PLAIN_TYPES = (int, str, bool, type(None))


def to_plain(value: object) -> Plain:
    """Convert a specification to dictionaries, lists, strings and numbers; omit fields with their default value.

    Raises:
        InputError: If a value cannot be represented.
    """
    if type(value) in PLAIN_TYPES:  # most values: lists of epochs are long
        return cast("Plain", value)
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: to_plain(getattr(value, f.name)) for f in _fields(type(value)) if not _at_default(f, value)}
        kind = kind_of(type(value))
        return named if kind is None else {"kind": kind, **named}
    if isinstance(value, Options):
        return {name: to_plain(item) for name, item in value}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"numbers in a specification must be finite; got {value}")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"a specification may contain numbers, strings and lists; got {type(value).__name__}")


def canonical_json(plain: Plain) -> str:
    """Return the canonical JSON of a value: sorted keys, no spaces, ASCII.

    >>> canonical_json({"seed": 3, "epochs": [0, 100]})
    '{"epochs":[0,100],"seed":3}'
    """
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(plain: Plain) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(plain).encode("ascii")).hexdigest()


def from_plain(kind: type[Spec], plain: object, where: str = "") -> Spec:
    """Convert the result of `to_plain` back to a specification.

    Raises:
        InputError: If the value is invalid; the message gives its path.

    >>> from factrank import Training
    >>> from_plain(Training, to_plain(Training(epochs=5))) == Training(epochs=5)
    True
    """
    return cast("Spec", _convert(kind, plain, where or kind.__name__))


def kind_of(spec: type) -> str | None:
    """Return the kind of a specification class, or None if it is not registered."""
    return KIND_OF.get(spec)


def _at_default(field: Field[Any], owner: object) -> bool:
    value = getattr(owner, field.name)
    if field.default is not MISSING:
        return bool(value == field.default)
    return field.default_factory is not MISSING and bool(value == field.default_factory())


@cache
def _fields(spec: type) -> tuple[Field[Any], ...]:
    return fields(spec)


@cache
def _hints(spec: type) -> dict[str, Any]:
    return get_type_hints(spec)


def _convert(expected: Any, plain: object, where: str) -> object:  # noqa: PLR0911 - one line per kind of annotation
    """Convert a plain value to the annotated type."""
    origin = get_origin(expected)
    if expected in ROLES:
        return _of_kind({kind: KINDS[kind] for kind in ROLES[expected]}, plain, where)
    if origin in (Union, UnionType):
        return _one_of(get_args(expected), plain, where)
    if origin is tuple:
        return _tuple(get_args(expected), plain, where)
    if expected is Options:
        if not isinstance(plain, Mapping):
            raise InputError(f"{where} must be a dictionary; got {plain!r}")
        return Options.of(plain)
    if is_dataclass(expected):
        return _spec(cast("type", expected), plain, where)
    choices = get_args(expected)
    if choices:  # a Literal
        if plain not in choices:
            raise InputError(f"{where} must be one of {', '.join(map(repr, choices))}; got {plain!r}")
        return plain
    if expected is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if not isinstance(plain, expected) or (isinstance(plain, bool) and expected is not bool):
        raise InputError(f"{where} must be {'None' if expected is NoneType else expected.__name__}; got {plain!r}")
    return plain


def _one_of(choices: tuple[Any, ...], plain: object, where: str) -> object:
    specs = [choice for choice in choices if is_dataclass(choice)]
    if isinstance(plain, Mapping) and len(specs) == 1:  # there is only one kind
        return _spec(cast("type", specs[0]), plain, where)
    if isinstance(plain, Mapping) and specs:
        return _of_kind({name: spec for name, spec in KINDS.items() if spec in specs}, plain, where)
    problems = []
    for choice in choices:
        try:
            return _convert(choice, plain, where)
        except InputError as error:
            problems.append(str(error))
    raise InputError(" or ".join(problems))


def _of_kind(named: Mapping[str, type], plain: object, where: str) -> object:
    """Convert a dictionary to the class given by its `kind`."""
    if not isinstance(plain, Mapping):
        raise InputError(f"{where} must be a dictionary; got {plain!r}")
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in named:
        raise InputError(f"{where}: the kind must be one of {', '.join(sorted(named))}; got {kind!r}")
    return _spec(named[kind], {name: value for name, value in plain.items() if name != "kind"}, where)


def _spec(spec: type, plain: object, where: str) -> object:
    if not isinstance(plain, Mapping):
        raise InputError(f"{where} must be a dictionary; got {plain!r}")
    plain = {name: value for name, value in plain.items() if (name, value) != ("kind", kind_of(spec))}
    known = {f.name: f for f in fields(spec)}
    unknown = sorted(set(map(str, plain)) - set(known))
    required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in required if name not in plain]
    if unknown or missing:
        faults = [*(f"unknown {name!r}" for name in unknown), *(f"missing {name!r}" for name in missing)]
        raise InputError(f"{where}: {', '.join(faults)}; it takes {', '.join(known) or 'nothing'}")
    hints = _hints(spec)
    return spec(**{name: _convert(hints[name], value, f"{where}.{name}") for name, value in plain.items()})


def _tuple(arguments: tuple[Any, ...], plain: object, where: str) -> tuple[object, ...]:
    if not isinstance(plain, list | tuple):
        raise InputError(f"{where} must be a list; got {plain!r}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_convert(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(plain))
    if len(plain) != len(arguments):
        raise InputError(f"{where} must have {len(arguments)} entries; got {len(plain)}")
    pairs = zip(arguments, plain, strict=True)
    return tuple(_convert(kind, item, f"{where}[{at}]") for at, (kind, item) in enumerate(pairs))


def _frozen(plain: object) -> object:
    return tuple(map(_frozen, plain)) if isinstance(plain, list | tuple) else plain
