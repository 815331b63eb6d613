"""Names of studies, charts and summaries."""

from __future__ import annotations

import re

from factrank.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Names become parts of file names, so they are short and plain."""


def require_name(what: str, name: object) -> None:
    """Raise an `InputError` unless the name can be part of a file name."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.endswith("."):
        raise InputError(f"{what} must be 1 to 100 letters, digits, dots, dashes or underscores; got {name!r}")
