"""Plain output: JSON of any numbers, and names that are safe to show.

Names come from users' files. In a terminal control characters could move the cursor or recolour the screen, and marks
of writing direction could turn a line around; here they are shown as escapes.
"""

from __future__ import annotations

import json
import unicodedata
from math import isnan
from typing import Any

from rich.text import Text

from factrank.readouts.plain import finite_data

LONGEST_NAME = 40
HIDDEN_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
"""Control characters, halves of surrogate pairs, and separators of lines and paragraphs."""

DIRECTION_MARKS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def json_text(data: Any) -> str:
    """The data as indented JSON; numbers that are infinite or not a number become null.

    >>> print(json_text({"margin": float("inf")}))
    {
      "margin": null
    }
    """
    return json.dumps(finite_data(data), indent=2, allow_nan=False)


def shown_name(name: str, longest: int | None = LONGEST_NAME) -> str:
    r"""A name as it may be shown: control characters as escapes, and cut to the longest length, if there is one.

    >>> print(shown_name("Oslo\x1b[31m"), shown_name("a" * 50, longest=9))
    Oslo\x1b[31m aaaaaa...
    """
    if longest is not None and len(name) > longest:
        name = name[: longest - 3] + "..."
    return "".join(_escaped(letter) if _is_hidden(letter) else letter for letter in name)


def name_text(name: str, longest: int | None = LONGEST_NAME, style: str = "") -> Text:
    """The same as a text that rich takes as it is, without looking for markup."""
    return Text(shown_name(name, longest), style=style)


def probability(value: float) -> str:
    """A probability with three decimals; 0 and 1 stand for themselves only.

    >>> probability(0.98765), probability(0.99999), probability(0.0001), probability(1.0)
    ('0.988', '>0.999', '<0.001', '1.000')
    """
    text = f"{value:.3f}"
    if value not in (0.0, 1.0) and text in ("0.000", "1.000"):
        return "<0.001" if value < 0.5 else ">0.999"
    return text


def number(value: float) -> str:
    """A logit or margin with two decimals, few enough not to depend on the machine; a dash where there is no number.

    >>> number(3.14159), number(0.00123), number(-0.0), number(123456.0), number(float("inf")), number(float("nan"))
    ('3.14', '0.00123', '0', '1.23e+05', 'inf', '-')
    """
    if isnan(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:.2f}" if 0.01 <= abs(value) < 10_000 else f"{value:.3g}"


def contribution(value: float) -> str:
    """What a path adds, with its sign and two decimals; 0 where it adds nothing that they show.

    >>> contribution(1.234), contribution(-0.5), contribution(-0.001)
    ('+1.23', '-0.50', '0')
    """
    text = f"{value:+.2f}"
    return "0" if text in ("+0.00", "-0.00") else text


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in HIDDEN_CATEGORIES or letter in DIRECTION_MARKS


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
