"""Figures of a study's report: Vega-Lite specifications with captions, notes and tables of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from factrank.experiments.columns import label
from factrank.experiments.statistics import QUANTITY, Summary
from factrank.experiments.store import many_rows
from factrank.experiments.study import Chart, Records
from factrank.report.study.page_opening import conditions
from factrank.report.study.study_charts import draw, reading
from factrank.report.study.summary_charts import draw_summary, summary_reading, x_title, y_title

MOST_NUMBERS = 400
"""A chart with at most this many records also gets a table of them."""
OPEN_ROWS = 40
"""The table of a summary is open if it has at most this many rows."""
MOST_ROWS = 2000

KINDS = {"lines": "Lines", "points": "Points", "bars": "Bars", "heatmap": "Heat map"}


@dataclass(frozen=True, eq=False)
class Numbers:
    """A table below a figure; names and cells come with whether they are numeric, `n_more` counts omitted rows."""

    title: str
    head: list[tuple[str, bool]]
    rows: list[list[tuple[str, bool]]]
    is_open: bool
    n_more: str


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure: its Vega-Lite picture without title and colours, or None if there are no records, and its texts."""

    name: str
    title: str
    picture: dict[str, Any] | None
    n_records: int
    alternative: str = ""
    caption: str = ""
    notes: tuple[str, ...] = ()
    table: Numbers | None = None


def chart_figure(chart: Chart, records: Records) -> Figure:
    """Return the figure of a chart."""
    if not records.rows:
        return Figure(chart.name, chart.title, None, 0, notes=records.notes)
    picture = _specification(draw(chart, records), square=chart.kind == "heatmap")
    shown = chart.colour if chart.kind == "heatmap" else chart.y
    axes = f"{label(shown or '', chart.data)} against {chart.x_title or label(chart.x, chart.data)}"
    alternative = f"{KINDS[chart.kind]}: {chart.title}. {axes}"
    only = conditions(chart.where)
    told = [reading(chart, records), _choosing(chart, records), f"Only for {only}." if only else ""]
    caption = " ".join(filter(None, told))
    table = _chart_numbers(chart, records)
    return Figure(chart.name, chart.title, picture, len(records.rows), alternative, caption, records.notes, table)


def summary_figure(summary: Summary, table: pa.Table, records: Records) -> Figure:
    """Return the figure of a summary, with its table."""
    below = _summary_numbers(summary, table)
    if not records.rows:
        return Figure(summary.name, summary.title, None, 0, notes=records.notes, table=below)
    picture = _specification(draw_summary(summary, records), square=False)
    what = ", ".join(name for name, _ in summary.quantities)
    axes = f"{y_title(summary) or what} against {x_title(summary)}"
    alternative = f"Points with whiskers: {summary.title}. {axes}"
    caption = summary_reading(records)
    return Figure(summary.name, summary.title, picture, len(records.rows), alternative, caption, records.notes, below)


def _specification(picture: Any, square: bool) -> dict[str, Any]:
    plain: dict[str, Any] = picture.to_dict()
    for name in ("title", "config"):
        plain.pop(name)
    return plain | {"usermeta": {"square": square}}


def _choosing(chart: Chart, records: Records) -> str:
    """Explain the legend of a chart with several lines."""
    several = chart.kind == "lines" and len({row.get("colour") for row in records.rows}) > 1
    return "Click a line in the legend to highlight it." if several else ""


# ---------------------------------------------------------------- numbers


def _chart_numbers(chart: Chart, records: Records) -> Numbers | None:
    """Return the records of a chart as a table, for readers who cannot see it or want the numbers."""
    if len(records.rows) > MOST_NUMBERS:
        return None
    data = chart.data
    names = {"facet": label(chart.facet or "", data), "x": chart.x_title or label(chart.x, data)}
    names |= {"colour": label(chart.colour or "", data), "y": chart.y_title or label(chart.y, data)}
    names |= {"low": "least", "high": "greatest", "n": many_rows(chart.data)}
    fields = [field for field in names if field in records.rows[0]]
    rows = [[row[field] for field in fields] for row in records.rows]
    return _numbers(chart.title, [names[field] for field in fields], rows, is_open=False)


def _summary_numbers(summary: Summary, table: pa.Table) -> Numbers | None:
    """Return the table of a summary, with the reasons for missing values."""
    if not table.num_rows:
        return None
    several = len(summary.quantities) > 1
    names = {**({QUANTITY: "quantity"} if several else {}), **{name: label(name) for name in summary.over}}
    names |= {"value": "value" if several else summary.quantities[0][0]}
    names |= {"low": "95 % interval from", "high": "to", "seeds": "seeds"}
    names |= {"why": "remark"} if any(table["why"].to_pylist()) else {}
    rows = [["–" if row[name] is None else row[name] for name in names] for row in table.to_pylist()]
    return _numbers(summary.title, list(names.values()), rows, is_open=len(rows) <= OPEN_ROWS)


def _numbers(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], is_open: bool) -> Numbers:
    def is_number(value: Any) -> bool:
        return not isinstance(value, str) or value == "–"

    def text(value: Any) -> str:
        return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)

    return Numbers(
        title=title,
        head=[(name, is_number(value)) for name, value in zip(names, rows[0], strict=True)],
        rows=[[(text(value), is_number(value)) for value in row] for row in rows[:MOST_ROWS]],
        is_open=is_open,
        n_more=f"{len(rows) - MOST_ROWS:,}" if len(rows) > MOST_ROWS else "",
    )
