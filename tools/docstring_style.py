"""A griffe extension: docstrings as we write them, in the form that mkdocstrings renders.

Examples (`>>>`) become code blocks. Arguments described together (`lower, upper: the bounds.`) become one line each.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)
TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+): (.+(?:\n\1 +.+)*)", re.MULTILINE)


def rendered(text: str) -> str:
    """Return a docstring with fenced examples and arguments one by one."""
    text = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    return TOGETHER.sub(lambda found: "\n".join(f"{found[1]}{name}: {found[3]}" for name in found[2].split(", ")), text)


class DocstringStyle(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = rendered(obj.docstring.value)
