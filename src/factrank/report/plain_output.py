"""Plain output: JSON of any numbers, names that are safe to show, and numbers with few digits."""

from __future__ import annotations

import json
from math import isnan
from typing import Any

from rich.text import Text

from factrank.foreign_text import LONGEST_NAME, shown_name
from factrank.readouts import finite_data


def json_text(data: Any) -> str:
    """The data as indented JSON; numbers that are infinite or not a number become null.

    >>> print(json_text({"margin": float("inf")}))
    {
      "margin": null
    }
    """
    return json.dumps(finite_data(data), indent=2, allow_nan=False)


def name_text(name: str, longest: int | None = LONGEST_NAME, style: str = "") -> Text:
    """A name as it may be shown, as a text that rich takes as it is, without looking for markup."""
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
