"""Pictures of summaries: a point for each setting, a whisker for its 95 % interval, lines along x.

Every point is at its own x. Names have no such place: several colours at one name are drawn next to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from factrank.errors import InputError
from factrank.experiments.columns import label, short_label
from factrank.experiments.statistics import QUANTITY, Summary
from factrank.experiments.study import Cell, ChartRecord, Records, drawn_fields, facet_columns, is_number
from factrank.report.study.chart_axes import number_axis
from factrank.report.study.chart_panels import cell_text, panels_in_order, with_panels
from factrank.report.study.chart_references import reference_marks
from factrank.report.study.study_charts import (
    HEIGHT,
    LETTER,
    PANEL,
    WIDTH,
    chart_text,
    colours,
    composed,
    counted,
    lines_of,
)

Y_TITLE_ROOM = 1.15
"""Longest line of a y title, as a fraction of the picture's height."""

CLOSE_TO_ZERO = 0.05
"""An axis starts at 0 if its least number is below this fraction of its greatest."""

INK_BLUE = "#4c78a8"
"""Colour of pictures with a single colour, legible on light and dark pages."""


def draw_summary(summary: Summary, records: Records) -> Any:
    """Draw a summary with its title, for a light page; raises if there are no records."""
    if not records.rows:
        raise InputError(f"summary {summary.name}: {' '.join(records.notes)}")
    columns = facet_columns(summary)
    headings = {tuple(row["facet"]): _heading(columns, row["facet"]) for row in records.rows if "facet" in row}
    rows = [_data_row(row, headings if len(headings) > 1 else {}) for row in records.rows]
    if _has_lines(rows):
        rows = with_panels(rows, _colour_title(summary, rows) or "")
    panels = panels_in_order(rows, list(headings.values()))
    size = {"width": PANEL, "height": PANEL} if len(panels) > 1 else {"width": WIDTH, "height": HEIGHT}
    marks = _marks(summary, rows, size["width"], size["height"]).properties(**size)
    return composed(marks, rows, summary.title, panels, summary_reading(records))


def summary_reading(records: Records) -> str:
    """Explain the whiskers of a summary; empty if it has none."""
    counts = [row["n"] for row in records.rows if row["low"] is not None]
    return f"Whiskers: 95 % intervals over {counted(counts, 'seed')}." if counts else ""


def _has_lines(rows: Sequence[ChartRecord]) -> bool:
    return all(is_number(row["x"]) for row in rows)


# ---------------------------------------------------------------- marks


def _marks(summary: Summary, rows: list[ChartRecord], width: int, height: int) -> Any:
    numeric = _has_lines(rows)
    tooltip = _tooltip(summary, rows)
    base = alt.Chart()
    shared: dict[str, Any] = {"x": _x_axis(summary, rows, width)}
    chosen = None
    if "colour" in rows[0]:
        chosen = alt.selection_point(fields=["colour"], bind="legend")
        shared |= {
            "color": colours(rows, _colour_title(summary, rows)),
            "opacity": alt.condition(chosen, alt.value(1), alt.value(0.12)),
        }
        if not numeric:
            shared["xOffset"] = alt.XOffset("colour:O", sort=_in_order(rows, "colour"))

    def y(field: str) -> Any:
        title = lines_of(y_title(summary) or "value", int(height * Y_TITLE_ROOM))
        scale = _scale(summary.log_y, nice=not summary.log_y, padding=6, least=_foot(_ends_of(rows)))
        return alt.Y(f"{field}:Q", title=title, scale=scale, axis=number_axis(_ends_of(rows), log=summary.log_y))

    whole = base.transform_filter("isValid(datum.low)")
    whiskers = whole.mark_rule(strokeWidth=1.5, color=INK_BLUE).encode(**shared, y=y("low"), y2="high:Q")
    ends = whole.mark_tick(orient="horizontal", size=7, thickness=1.5, color=INK_BLUE, opacity=1)
    points = base.mark_point(filled=True, size=46, opacity=1, color=INK_BLUE)
    points = points.encode(**shared, y=y("y"), tooltip=tooltip)
    layers = [points]
    if any(row["low"] is not None for row in rows):
        layers = [whiskers, ends.encode(**shared, y=y("low")), ends.encode(**shared, y=y("high")), points]
    if numeric:
        layers.insert(0, base.mark_line(strokeWidth=1.5, opacity=0.7, color=INK_BLUE).encode(**shared, y=y("y")))
    logs = (summary.log_x, summary.log_y)
    layers = [*reference_marks(summary.references, rows, shared["x"], y("y"), chart_text, logs=logs), *layers]
    drawn = alt.layer(*layers)
    return drawn.add_params(chosen) if chosen is not None else drawn


def _ends_of(rows: Sequence[ChartRecord]) -> list[int | float]:
    """Return all values and ends of intervals."""
    return [row[field] for row in rows for field in ("y", "low", "high") if row[field] is not None]


def _foot(numbers: Sequence[int | float]) -> int | None:
    """Return 0 if an axis of these numbers should start there: they are not negative, and come close to 0."""
    return 0 if 0 <= min(numbers) < CLOSE_TO_ZERO * max(numbers) else None


def _scale(logarithmic: bool, nice: bool, padding: int, least: int | None = None) -> Any:
    options: dict[str, Any] = {"type": "log"} if logarithmic else {"zero": False}
    if least is not None and not logarithmic:
        options["domainMin"] = least
    return alt.Scale(**options, nice=nice, padding=padding)


def _x_axis(summary: Summary, rows: list[ChartRecord], width: int) -> Any:
    title = lines_of(x_title(summary), width)
    if not _has_lines(rows):
        names = _in_order(rows, "x")
        room = width / len(names)
        level = max(len(str(name)) for name in names) * LETTER <= room
        axis = alt.Axis(labelAngle=0 if level else -35, labelLimit=240)
        return alt.X("x:N", title=title, sort=names, axis=axis, scale=alt.Scale(paddingInner=0.3))
    scale = _scale(summary.log_x, nice=False, padding=14)
    axis = number_axis({row["x"] for row in rows}, log=summary.log_x, ticks=True)
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _colour_title(summary: Summary, rows: Sequence[ChartRecord]) -> str | None:
    column = drawn_fields(summary).get("colour", "")
    named = column == QUANTITY and not all(is_number(row["colour"]) for row in rows)
    return None if named else chart_text(_label(column))


def _tooltip(summary: Summary, rows: list[ChartRecord]) -> list[Any]:
    names = {"x": x_title(summary), "colour": _label(drawn_fields(summary).get("colour", ""))}
    names |= {"y": y_title(summary) or "value", "low": "interval from", "high": "to", "n": "seeds"}
    return [
        alt.Tooltip(f"{field}:{'N' if isinstance(rows[0][field], str) else 'Q'}", title=chart_text(title))
        for field, title in names.items()
        if field in rows[0]
    ]


# ---------------------------------------------------------------- texts


def x_title(summary: Summary) -> str:
    """Return the title of the x axis."""
    return summary.x_title or _label(summary.x)


def y_title(summary: Summary) -> str:
    """Return the title of the y axis; empty if the quantities have no common name."""
    if summary.y_title or len(summary.quantities) == 1:
        return summary.y_title or summary.quantities[0][0]
    return label(summary.mean_of, summary.data) if summary.mean_of else ""


def _label(column: str) -> str:
    return column if column == QUANTITY else label(column) if column else ""


def _heading(columns: Sequence[str], found: Sequence[Cell]) -> str:
    name = short_label if len(columns) > 1 else _label
    parts = [
        str(value) if column == QUANTITY and isinstance(value, str) else f"{name(column)}: {cell_text(value)}"
        for column, value in zip(columns, found, strict=True)
    ]
    return chart_text(", ".join(parts))


def _data_row(row: ChartRecord, headings: dict[tuple[Cell, ...], str]) -> ChartRecord:
    """Return a record with safe texts and the heading of its panel."""
    safe = {name: chart_text(value) if isinstance(value, str) else value for name, value in row.items()}
    facet = safe.pop("facet", None)
    return safe | ({"facet": headings[tuple(facet)]} if facet is not None and headings else {})


def _in_order(rows: Sequence[ChartRecord], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))
