"""JSON, names that are safe to print, and numbers with few digits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isnan
from typing import Any

from rich.text import Text

from factrank.databases import Database
from factrank.foreign_text import LONGEST_NAME, shown_name
from factrank.readouts import finite_data


def json_text(data: Any) -> str:
    """Return the data as indented JSON; infinite numbers and NaN become null.

    >>> print(json_text({"margin": float("inf")}))
    {
      "margin": null
    }
    """
    return json.dumps(finite_data(data), indent=2, allow_nan=False)


def name_text(name: str, longest: int | None = LONGEST_NAME, style: str = "") -> Text:
    """Return a name as rich text, with control characters escaped and markup ignored."""
    return Text(shown_name(name, longest), style=style)


def many(count: int, thing: str) -> str:
    """Return a count and its noun, in the plural unless the count is 1.

    >>> many(1, "study"), many(2, "study"), many(3, "search"), many(1000, "claim")
    ('1 study', '2 studies', '3 searches', '1,000 claims')
    """
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else plural}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, separated by commas, and the number of the others.

    >>> listed(["Oslo", "Lima", "Rome"], most=2)
    'Oslo, Lima and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shown_name, names[:most])) + more


def fact_text(database: Database, row: int, longest: int = LONGEST_NAME) -> str:
    """Return one fact with its names.

    >>> from factrank import sample
    >>> fact_text(sample("astrid"), 0)
    '(Astrid, born_in, Singapore)'
    """
    codes = zip(database.vocabularies, database.triples[row].tolist(), strict=True)
    return f"({', '.join(shown_name(names[code], longest) for names, code in codes)})"


def probability(value: float) -> str:
    """Format a probability with three decimals; only exact values print as 0.000 or 1.000.

    >>> probability(0.98765), probability(0.99999), probability(0.0001), probability(1.0)
    ('0.988', '>0.999', '<0.001', '1.000')
    """
    text = f"{value:.3f}"
    if value not in (0.0, 1.0) and text in ("0.000", "1.000"):
        return "<0.001" if value < 0.5 else ">0.999"
    return text


def number(value: float) -> str:
    """Format a logit or margin with two decimals, few enough to be the same on every machine; NaN is a dash.

    >>> number(3.14159), number(0.00123), number(-0.0), number(123456.0), number(float("inf")), number(float("nan"))
    ('3.14', '0.00123', '0', '1.23e+05', 'inf', '-')
    """
    if isnan(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:.2f}" if 0.01 <= abs(value) < 10_000 else f"{value:.3g}"


def contribution(value: float) -> str:
    """Format a path's contribution with its sign and two decimals, or 0 if it rounds to zero.

    >>> contribution(1.234), contribution(-0.5), contribution(-0.001)
    ('+1.23', '-0.50', '0')
    """
    text = f"{value:+.2f}"
    return "0" if text in ("+0.00", "-0.00") else text
