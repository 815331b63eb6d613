r"""Sanitise untrusted text (names, paths and messages from files) before it is displayed.

Control characters can move the cursor, retitle the window or recolour the terminal, and bidirectional marks can reverse
a line. These functions replace them with escapes such as `\x1b` and truncate long text. All errors and warnings pass
through `shown_message` and all printed tables through `visible`, so callers need not do it themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_NAME = 40
LONGEST_QUOTED = 80
LONGEST_WORD, LONGEST_LINE, MOST_LINES = 400, 2_000, 100
"""Limits of a message: characters per word, characters per line, and lines."""

_CONTROLS = "\x00-\x09\x0b-\x1f\x7f-\x9f"
_SEPARATORS_AND_DIRECTIONS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_HALVES_OF_PAIRS = "\ud800-\udfff"
_HIDDEN = re.compile(f"[{_CONTROLS}{_SEPARATORS_AND_DIRECTIONS}{_HALVES_OF_PAIRS}]")
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def visible(text: str) -> str:
    r"""Escape every character that a terminal would interpret, except line breaks.

    >>> print(visible("Oslo\x1b[31m\x9b\u202e"))
    Oslo\x1b[31m\x9b\u202e
    """
    return _HIDDEN.sub(_escape, text)


def shown_name(name: str, longest: int | None = LONGEST_NAME) -> str:
    r"""Escape a name and put it on one line, truncated to `longest` characters if that is not None.

    >>> print(shown_name("Oslo\x1b[31m\n"), shown_name("a" * 50, longest=9))
    Oslo\x1b[31m\n aaaaaa...
    """
    if longest is not None and len(name) > longest:
        name = name[: longest - 3] + "..."
    return visible(name).replace("\n", "\\n")


def quoted(thing: object, longest: int = LONGEST_QUOTED) -> str:
    r"""Return the `repr` of a name or value, truncated to `longest` characters.

    >>> print(quoted("two\nlines"), quoted(3), quoted("a" * 50, longest=12))
    'two\nlines' 3 'aaaaaaa...'
    """
    if isinstance(thing, str):
        return repr(thing if len(thing) <= longest - 2 else thing[: longest - 5] + "...")
    return shown_name(repr(thing), longest)


def few(names: Sequence[object], most: int = 3, longest: int = 45) -> str:
    """Return the first `most` names quoted and separated by commas, with an ellipsis if there are more.

    >>> print(few(["a", "b", "c"], most=2))
    'a', 'b', ...
    """
    return ", ".join([*(quoted(name, longest) for name in names[:most]), *(["..."] if len(names) > most else [])])


def shown_message(message: str) -> str:
    r"""Escape a message of several lines, and cut long words and lines in the middle.

    >>> print(shown_message("no column " + "a" * 100_000 + "\x07\nuse --long"))  # doctest: +ELLIPSIS
    no column aaa...aaa\x07
    use --long
    """
    lines = message.split("\n", MOST_LINES)
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = ["..."]
    return "\n".join(_shown_line(line) for line in lines)


def _shown_line(line: str) -> str:
    if len(line) > LONGEST_WORD:
        line = _cut(_LONG_WORD.sub(lambda word: _cut(word[0], LONGEST_WORD), line), LONGEST_LINE)
    return visible(line)


def _cut(text: str, longest: int) -> str:
    kept = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:kept]}...{text[-kept:]}"


def _escape(letter: re.Match[str]) -> str:
    return letter[0].encode("unicode_escape").decode("ascii")
