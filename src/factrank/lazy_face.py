"""Lazy packages (PEP 562): each public name of a package is imported when it is first used.

The `__init__` of a package imports its names under `if TYPE_CHECKING`, for type checkers and readers. At run time the
same list, parsed from the source, maps each name to its module. There is only one list to maintain, and importing a
name loads only the modules that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data

Face = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def lazy_face(package: str, *present: str) -> Face:
    """Return `__getattr__`, `__dir__` and `__all__` for a package, based on the imports in its `__init__` file.

    Arguments:
        package: The package's `__name__`.
        present: Public names that the package already defines.

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
    """Map each name that the `__init__` re-exports (`from MODULE import NAME as NAME`) to its module."""
    source = (get_data(package, "__init__.py") or b"").decode("utf-8")  # works inside a zip file too
    block = source.replace("\r\n", "\n").split("if TYPE_CHECKING:\n", 1)[1].split("\nelse:", 1)[0]
    words = block.translate(str.maketrans("(),", "   ")).split()
    homes, module = {}, ""
    for place, word in enumerate(words):
        if word == "from":
            module = words[place + 1]
        elif word == "as":
            homes[words[place + 1]] = module
    return homes
