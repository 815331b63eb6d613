"""Checks of output files."""

from __future__ import annotations

import os
from pathlib import Path

from factrank.errors import InputError


def require_output(path: Path) -> None:
    """Raise unless a layer can be saved to this path; called before any long computation."""
    from factrank.nn import SUFFIX  # noqa: PLC0415 - JAX takes a second to load

    if path.suffix.lower() != SUFFIX:
        raise InputError(f"{path}: the name of a layer file ends in {SUFFIX}")
    _require_writable(path)


def require_page(path: Path) -> None:
    """Raise unless a page can be saved to this path; called before any long computation."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: the name of a page ends in .html")
    _require_writable(path)


def _require_writable(path: Path) -> None:
    target = Path(os.path.realpath(path))  # links are followed when writing
    if not target.parent.is_dir():
        raise InputError(f"{path}: there is no folder {target.parent if path.is_symlink() else path.parent}")
    if target.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is not a regular file")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write to the folder {target.parent}")
