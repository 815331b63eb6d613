"""Reference lines in pictures: dashed lines with their labels, and borders between the cells of heat maps.

The lines have data of their own, so they are drawn in every panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from factrank.experiments.statistics import ReferenceLine
from factrank.experiments.study import ChartRecord, is_number

GREY, DASHES = "#7a8794", [5, 4]

Border = tuple[int | float, int | float]


def reference_marks(
    references: Sequence[ReferenceLine],
    rows: Sequence[ChartRecord],
    x: Any,
    y: Any,
    text: Any,
    *,
    logs: tuple[bool, bool],
) -> list[Any]:
    """Return the marks of reference lines over the range of x in the records; only constants if x is not numeric.

    Arguments:
        references: The lines.
        rows: The records of the chart.
        x: The encoding of the x axis, for the field "x".
        y: The encoding of the y axis, for the field "y".
        text: Makes a label safe for charts.
        logs: Whether x and y are logarithmic.
    """
    if not rows:
        return []
    if not all(is_number(row["x"]) for row in rows):
        return [mark for one in references if one.is_constant for mark in _level_marks(one, y, text)]
    least, greatest = (end(row["x"] for row in rows) for end in (min, max))
    marks: list[Any] = []
    for one in references:
        label = text(one.label)
        if one.x is not None:
            upright = alt.Chart(alt.InlineData(values=[{"x": one.x, "label": label}]))
            marks.append(upright.mark_rule(color=GREY, strokeDash=DASHES).encode(x=x))
            marks.append(
                upright.mark_text(color=GREY, align="left", dx=4, dy=-4, baseline="bottom").encode(
                    x=x, y=alt.value("height"), text="label:N"
                )
            )
            continue
        points = one.points(least, greatest, log_x=logs[0], log_y=logs[1])
        if points:
            values = [{"x": place, "y": value} for place, value in points]
            line = alt.Chart(alt.InlineData(values=values))
            marks.append(line.mark_line(color=GREY, strokeDash=DASHES, strokeWidth=1.5).encode(x=x, y=y))
            end = alt.Chart(alt.InlineData(values=[values[-1] | {"label": label}]))
            marks.append(end.mark_text(color=GREY, align="right", dy=-7).encode(x=x, y=y, text="label:N"))
    return marks


def _level_marks(one: ReferenceLine, y: Any, text: Any) -> list[Any]:
    """Return a constant as a line across the picture, with its label."""
    level = alt.Chart(alt.InlineData(values=[{"y": height, "label": text(one.label)} for height in one.values([0])]))
    line = level.mark_rule(color=GREY, strokeDash=DASHES, strokeWidth=1.5).encode(y=y)
    label = level.mark_text(color=GREY, align="right", dy=-7).encode(x=alt.value("width"), y=y, text="label:N")
    return [line, label]


def border_marks(references: Iterable[ReferenceLine], rows: Sequence[ChartRecord]) -> list[Any]:
    """Return the borders between the cells of a heat map above each line and the other cells."""
    if not all(is_number(row["x"]) and is_number(row["y"]) for row in rows):
        return []
    marks: list[Any] = []
    for one in references:
        level, upright = borders(one, [row["x"] for row in rows], [row["y"] for row in rows])
        order: dict[str, Any] = {"sort": "descending"}
        for places, ends in (
            (
                level,
                {
                    "x": alt.X("x:O", bandPosition=0),
                    "x2": alt.X2("x", bandPosition=1),
                    "y": alt.Y("y:O", bandPosition=1, **order),
                },
            ),
            (
                upright,
                {
                    "x": alt.X("x:O", bandPosition=1),
                    "y": alt.Y("y:O", bandPosition=0, **order),
                    "y2": alt.Y2("y", bandPosition=1),
                },
            ),
        ):
            if places:
                data = alt.InlineData(values=[{"x": x, "y": y} for x, y in places])
                marks.append(
                    alt.Chart(data).mark_rule(color="#d1495b", strokeWidth=2.5, strokeCap="square").encode(**ends)
                )
    return marks


def borders(
    line: ReferenceLine, xs: Iterable[int | float], ys: Iterable[int | float]
) -> tuple[list[Border], list[Border]]:
    """Return the cells (x, y) with a border at their lower side, and those with one at their right side.

    A border is between two cells of which only one is above the line.

    >>> borders(ReferenceLine("diagonal", "x"), [1, 2], [1, 2])
    ([(1, 2)], [(1, 2)])
    """
    columns, lines = sorted(set(xs)), sorted(set(ys))
    heights = (
        [float("-inf") if x > line.x else float("inf") for x in columns] if line.x is not None else line.values(columns)
    )
    above = {(x, y): y > height for x, height in zip(columns, heights, strict=True) for y in lines}
    level = [(x, high) for x in columns for low, high in pairwise(lines) if above[x, high] and not above[x, low]]
    upright = [(left, y) for y in lines for left, right in pairwise(columns) if above[left, y] != above[right, y]]
    return level, upright
