"""Where a command's layer goes: a file that can be written."""

from __future__ import annotations

import os
from pathlib import Path

from factrank.errors import InputError


def require_output(path: Path) -> None:
    """Check before hours of work that the layer can be saved afterwards."""
    from factrank.nn import SUFFIX  # noqa: PLC0415 - JAX takes a second to load

    if path.suffix.lower() != SUFFIX:
        raise InputError(f"{path}: a layer is saved in a file whose name ends in {SUFFIX}")
    target = Path(os.path.realpath(path))  # a link is followed, and what it leads to is written
    if not target.parent.is_dir():
        raise InputError(f"{path}: there is no folder {target.parent if path.is_symlink() else path.parent}")
    if target.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is not a regular file")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write to the folder {target.parent}")
