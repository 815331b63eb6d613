"""Axes of numbers: whole numbers have whole ticks, and a few values have a tick each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import altair as alt

MOST_TICKS = 20
"""Maximum number of values of x that get a tick each."""

NUMBER = ",.8~g"
"""Number format of axes; d3's default would round numbers to the distance between ticks."""


def are_whole(numbers: Collection[int | float]) -> bool:
    """Return whether all numbers are integers.

    >>> are_whole([1, 2.0]), are_whole([1, 2.5])
    (True, False)
    """
    return all(number == int(number) for number in numbers)


def number_axis(numbers: Collection[int | float], *, log: bool, ticks: bool = False) -> Any:
    """Return an axis for these numbers; with `ticks`, a few numbers without long decimals get a tick each."""
    whole, places = are_whole(numbers), sorted(set(numbers))
    options: dict[str, Any] = {"format": NUMBER}
    if ticks and len(places) <= MOST_TICKS and all(float(f"{place:.6g}") == place for place in places):
        return alt.Axis(**options, values=places, grid=False, labelOverlap="greedy", labelSeparation=4)
    if whole and not log:
        options["tickMinStep"] = 1
    return alt.Axis(**options)
