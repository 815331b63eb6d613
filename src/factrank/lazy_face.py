"""Lazy faces (PEP 562): the public names of a room, each loaded when it is first used.

The `__init__` of a room imports its names under `if TYPE_CHECKING`, for type checkers and readers; the same list, read
from the source, says where a name lives at run time, so that there is one list and importing one name loads only what
that name needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data

Face = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def lazy_face(package: str, *present: str) -> Face:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the imports in its `__init__` file.

    `present` are public names that the package has already.

    >>> from factrank import Database
    >>> Database.__module__
    'factrank.databases.database'
    """
    homes = _listed(package)

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted([*homes, *present])

    return load, names, names()


def _listed(package: str) -> dict[str, str]:
    """The module of each name that the `__init__` imports as itself, `from MODULE import NAME as NAME`."""
    source = (get_data(package, "__init__.py") or b"").decode("utf-8")  # also out of a zip file
    block = source.replace("\r\n", "\n").split("if TYPE_CHECKING:\n", 1)[1].split("\nelse:", 1)[0]
    words = block.translate(str.maketrans("(),", "   ")).split()
    homes, module = {}, ""
    for place, word in enumerate(words):
        if word == "from":
            module = words[place + 1]
        elif word == "as":
            homes[words[place + 1]] = module
    return homes
