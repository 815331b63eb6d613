"""Registries of what users choose by name, and the entry points through which other packages add to them.

A registry knows three sources: the built-in entries, which need no entry points because a GPU machine may run a tree
that is not installed; the entry points of installed packages; and calls in this process, for notebooks and tests.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from factrank.errors import InputError

Entry = TypeVar("Entry")
Named = tuple[str, Entry]
"""An entry and the name under which it is registered."""

OURS = "factrank"


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The entries of one kind by name: built-in ones first, then entries of other packages and of this process.

    Nothing is loaded before it is needed. Entry points are loaded when a name is not among the entries already known,
    or when iteration has passed the built-in entries. If one cannot be loaded, a warning names its package, and the
    registry does without it.

    Arguments:
        noun: What messages call an entry, such as "generator".
        group: The group of entry points.
        built_in: Returns the built-in entries by name.
        accept: Checks an object from outside, given the name of its entry point; returns the name to register it
            under and the entry, or raises an `InputError`.
        entering: Called with a new entry and those already there before it is added; may raise an `InputError`.
        leaving: Called with an entry that is removed.
        lines: Returns the object whose module and qualified name tell whether two entries come from the same lines.
    """

    def __init__(
        self,
        noun: str,
        group: str,
        built_in: Callable[[], Mapping[str, Entry]],
        accept: Callable[[str, Any], Named[Entry]],
        *,
        entering: Callable[[Entry, Mapping[str, Entry]], None] = lambda _, __: None,
        leaving: Callable[[Entry], None] = lambda _: None,
        lines: Callable[[Entry], object] = lambda entry: entry,
    ) -> None:
        self.noun, self.group = noun, group
        self._built_in, self._accept, self._lines = built_in, accept, lines
        self._entering, self._leaving = entering, leaving
        self._entries: dict[str, Entry] = {}
        self._packages: dict[str, str] = {}
        self._has_built_in = self._has_plugins = False

    def __getitem__(self, name: str) -> Entry:
        self._load_built_in()
        if name not in self._entries:
            self._load_plugins()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load_built_in()
        known = tuple(self._entries)
        yield from known
        self._load_plugins()
        yield from [name for name in self._entries if name not in known]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<registry of {self.group}: {', '.join(self)}>"

    def register(self, name: str, entry: Entry) -> Entry:
        """Add an entry for the rest of this process and return it.

        An entry that was registered by the same lines before, as when a notebook cell runs twice, is replaced. Entry
        points are not loaded for this: the call may come from a package that is only now being imported.
        """
        name, entry = self._accept(name, entry)
        known = self._known(name)
        if known is None:
            self._add(name, entry)
        elif known is not entry:
            if name not in self.registered_by_call or _place(self._lines(known)) != _place(self._lines(entry)):
                raise InputError(f"there is already a {self.noun} {name!r}: choose another name")
            self._replace(name, known, entry)
        return entry

    def unregister(self, name: str) -> None:
        """Remove an entry that was registered by a call."""
        if name not in self.registered_by_call:
            raise InputError(f"no {self.noun} {name!r} was registered by a call")
        self._leaving(self._entries.pop(name))

    @contextmanager
    def registered(self, name: str, entry: Entry) -> Iterator[Entry]:
        """Register an entry for the duration of a `with` block; one that was there before stays."""
        before = self._known(name)
        self.register(name, entry)
        try:
            yield entry
        finally:
            if before is None:
                self.unregister(name)
            elif before is not entry:
                self.register(name, before)

    @property
    def built_in(self) -> Mapping[str, Entry]:
        """The built-in entries, without a look at other packages."""
        self._load_built_in()
        return MappingProxyType({name: self._entries[name] for name, by in self._packages.items() if by == OURS})

    @property
    def registered_by_call(self) -> frozenset[str]:
        """The names that only this process knows."""
        return frozenset(self._entries.keys() - self._packages.keys())

    def package_of(self, name: str) -> str:
        """The package that an entry comes from; the module if it was registered by a call."""
        entry = self[name]
        return self._packages.get(name) or _place(self._lines(entry))[0]

    def _known(self, name: str) -> Entry | None:
        self._load_built_in()
        return self._entries.get(name)

    def _add(self, name: str, entry: Entry) -> None:
        self._entering(entry, MappingProxyType(self._entries))
        self._entries[name] = entry

    def _replace(self, name: str, known: Entry, entry: Entry) -> None:
        self.unregister(name)
        try:
            self._add(name, entry)
        except Exception:
            self._add(name, known)
            raise

    def _load_built_in(self) -> None:
        if self._has_built_in:
            return
        built_in = self._built_in()  # if this fails, the next use tries again
        self._has_built_in = True
        for name, entry in built_in.items():
            self._add(name, entry)
            self._packages[name] = OURS

    def _load_plugins(self) -> None:
        if not self._has_plugins:
            self._has_plugins = True  # before loading: a package may register entries while it is imported
            load_plugins(self.noun, self.group, self._add_plugin)

    def _add_plugin(self, given_name: str, plugin: Any, package: str) -> None:
        name, entry = self._accept(given_name, plugin)
        known = self._entries.get(name)
        if known is None:
            self._add(name, entry)
        elif known is not entry or name in self._packages:
            raise InputError(f"there is already a {self.noun} {name!r}, from {self.package_of(name)}")
        self._packages[name] = package


def load_plugins(noun: str, group: str, add: Callable[[str, Any, str], None]) -> None:
    """Load the entry points of a group; `add` takes the name, the object and the package of each.

    If one cannot be loaded or added, a warning names its package, and the others are loaded all the same.
    """
    for point in entry_points(group=group):
        package = point.dist.name if point.dist is not None else "an unknown package"
        try:
            add(point.name, point.load(), package)
        except Exception as error:  # a package must not stop what does not need it
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the {noun} {point.name!r} of {package} is left out: {reason}", stacklevel=2)


def _place(thing: object) -> tuple[str, str]:
    named: Any = thing if hasattr(thing, "__qualname__") else type(thing)
    return str(named.__module__), named.__qualname__
