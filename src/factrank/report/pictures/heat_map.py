"""Charts that all pictures share: titles with captions, heat maps with a choice of layers, and lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import radians, sin
from typing import Any, Literal

import altair as alt

from factrank.report.pictures.grid import Grid, Record
from factrank.report.study import chart_text, lines_of, theme

WIDTH = 440
LEAST_STEP, LARGEST_STEP = 2, 18
"""Pixels of a row or column."""
LABELLED_STEP = 9
"""Least pixels at which every row or column has its label."""
LETTER, LONGEST = 6.2, 260
"""Pixels of a letter, and of the longest label."""
MOST_NAMED = 20
"""Most names with a colour of their own in the legend."""


def heat_map(grid: Grid) -> Any:
    """Draw a grid; if it has several layers, a menu chooses one of them."""
    n_columns, n_rows = _shown(grid, "column"), _shown(grid, "row")
    width, height = _step(n_columns), _step(n_rows)
    rows = alt.Y("row:N", title=grid.row_title, sort=list(grid.rows), axis=_axis(height, grid.rows))
    columns = alt.X(
        "column:N", title=grid.column_title, sort=list(grid.columns), axis=_axis(width, grid.columns, angle=-45)
    )
    tooltip = [
        alt.Tooltip("row:N", title=grid.row_title),
        alt.Tooltip("column:N", title=grid.column_title),
        alt.Tooltip(f"colour:{'N' if grid.is_named else 'Q'}", title=grid.colour_title),
    ]
    chart = alt.Chart().mark_rect().encode(x=columns, y=rows, color=_colour(grid), tooltip=tooltip)
    if any("fact" in record for record in grid.records):
        frame = alt.condition(alt.datum.fact, alt.value("#111"), alt.value(None))
        chart = chart.encode(stroke=frame, strokeWidth=alt.value(1.5))
    if len(grid.layers) > 1:
        menu = alt.binding_select(options=list(grid.layers), name=f"{grid.layer_title}: ")
        chosen = alt.selection_point(fields=["layer"], bind=menu, value=grid.layers[0])
        chart = chart.add_params(chosen).transform_filter(chosen)
    which = f"; {grid.layer_title} {grid.layers[0]}" if len(grid.layers) == 1 else ""
    size = {"width": width * n_columns, "height": height * n_rows}  # fixed: layers with fewer names get wider cells
    return titled(chart.properties(**size), grid.records, grid.title + which, grid.notes)


def titled(chart: Any, records: Sequence[Record] | None, title: str, notes: Sequence[str] = ()) -> Any:
    """Add data, a title that says what is seen, and a caption with the notes."""
    caption = [line for note in notes for line in lines_of(note, WIDTH)]
    text = alt.TitleParams(lines_of(title, WIDTH, 7.4), subtitle=caption, subtitleColor="#555", subtitleFontSize=12)
    if records is not None:
        chart = chart.properties(data=alt.InlineData(values=list(records)))
    return chart.properties(title=text).configure(**theme("light"))


def axis_text(text: str) -> str:
    """Return a user's text for a title or a legend."""
    return chart_text(text).replace("<", "‹")


def _shown(grid: Grid, field: str) -> int:
    """Return the largest number of rows or columns that are seen at a time."""
    seen: dict[str, set[str]] = {}
    for record in grid.records:
        seen.setdefault(record.get("layer", ""), set()).add(record[field])
    return max(map(len, seen.values()), default=1)


def _step(n_names: int) -> int:
    return max(LEAST_STEP, min(LARGEST_STEP, WIDTH // max(n_names, 1)))


def _axis(step: int, labels: Sequence[str], angle: int = 0) -> alt.Axis:
    """Return an axis with room for the longest label: other layers have other labels."""
    longest = min(LETTER * max(map(len, labels), default=0), LONGEST)
    room = longest * sin(radians(45)) if angle else longest
    overlap: Literal["greedy"] | bool = False if step >= LABELLED_STEP else "greedy"
    return alt.Axis(labelOverlap=overlap, labelLimit=LONGEST, labelAngle=angle, minExtent=room, grid=False)


def _colour(grid: Grid) -> Any:
    if grid.is_named:
        names = sorted({record["colour"] for record in grid.records})
        legend = alt.Legend(title=grid.colour_title, orient="right") if len(names) <= MOST_NAMED else None
        return alt.Color("colour:N", legend=legend, scale=alt.Scale(scheme="tableau20"))
    if len({record["colour"] for record in grid.records}) <= 1:
        return alt.value("#31688e")  # as if all were in the middle of the scale
    legend = alt.Legend(title=grid.colour_title, orient="right", gradientLength=120)
    if grid.middle is not None:
        scale = alt.Scale(scheme="redblue", domainMid=grid.middle)
    else:
        scale = alt.Scale(scheme="viridis", zero=True)
    return alt.Color("colour:Q", legend=legend, scale=scale)
