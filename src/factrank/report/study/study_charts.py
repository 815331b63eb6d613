"""Charts of a study as Vega-Lite, for the page and as pictures.

Every mark is at its own x: nothing is moved sideways, except that bars of one group are drawn next to each other.

Vega-Lite inserts titles into expressions without proper quoting. Every user text therefore passes through `chart_text`,
and the fields of the data have fixed names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from factrank.errors import InputError
from factrank.experiments.columns import label
from factrank.experiments.store import many_rows
from factrank.experiments.study import Chart, ChartRecord, Records, is_number
from factrank.foreign_text import shown_name
from factrank.report.plain_output import many
from factrank.report.study.chart_axes import NUMBER, number_axis
from factrank.report.study.chart_panels import cell_text, columns_of, panels_in_order, sorted_cells, with_panels
from factrank.report.study.chart_references import border_marks, reference_marks

FEW = 12
"""A numeric colour with at most this many values gets discrete shades with a legend entry each."""

WIDTH, HEIGHT, PANEL = 460, 300, 230
LETTER = 6.6
"""Approximate width in pixels of a character on axes and in legends."""
SHADES = {
    "light": {"ordinal": {"scheme": "viridis", "extent": [0.0, 0.88]}, "heatmap": {"scheme": "viridis"}},
    "dark": {"ordinal": {"scheme": "viridis", "extent": [0.25, 1.0]}, "heatmap": {"scheme": "viridis"}},
}
INK = {"light": ("#1c2733", "#c9d1da", "#e8ecf0"), "dark": ("#dde5ec", "#4b5763", "#2e3740")}
LOOKALIKES = str.maketrans({"\\": "\u2216", '"': "\u201d", "'": "\u2019", "\ufffe": "\ufffd", "\uffff": "\ufffd"})
"""Replacements for characters that could end a string in an expression, and for two that XML forbids."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def theme(name: str) -> dict[str, Any]:
    """Return the Vega-Lite configuration for light or dark pages."""
    ink, line, grid = INK[name]
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "font": FONT,
        "background": "white" if name == "light" else "transparent",
        "range": SHADES[name] | {"ramp": {"scheme": "viridis"}},
        "axis": text | {"gridColor": grid, "domainColor": line, "tickColor": line, "titlePadding": 8},
        "legend": text
        | {"orient": "top", "symbolOpacity": 1, "gradientLength": 180, "titleLimit": 420, "labelLimit": 420},
        "header": text | {"labelFontSize": 13, "labelFontWeight": "bold", "labelLimit": PANEL + 40},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 14,
            "subtitleFontSize": 12,
            "subtitlePadding": 5,
            "anchor": "start",
            "offset": 12,
        },
        "view": {"stroke": None},
    }


def chart_text(text: str) -> str:
    r"""Make a user's text safe for a chart: one line, without control characters, quotes and backslashes.

    Quotes and backslashes become similar characters. Otherwise a title could end the string that contains it, and a
    control character would abort the process inside the drawing library.

    >>> print(chart_text("width\nof 'd'"), chart_text("\x00"))
    width of ’d’ ∖x00
    """
    return shown_name(" ".join(text.splitlines()), None).translate(LOOKALIKES)


def draw(chart: Chart, records: Records) -> Any:
    """Draw a chart with its title, for a light page; raises if there are no records."""
    if not records.rows:
        raise InputError(f"chart {chart.name}: {' '.join(records.notes)}")
    facets = sorted(
        {row["facet"] for row in records.rows if "facet" in row}, key=lambda value: (isinstance(value, str), value)
    )
    rows = [
        {name: _cell(name, value, chart) for name, value in row.items() if len(facets) > 1 or name != "facet"}
        for row in records.rows
    ]
    if chart.kind == "lines":
        rows = with_panels(rows, _title("colour", chart) if chart.colour else "")
    panels = panels_in_order(rows, [_cell("facet", value, chart) for value in facets])
    size = {"width": WIDTH, "height": HEIGHT}
    if len(panels) > 1 or chart.kind == "heatmap":
        size = dict.fromkeys(size, PANEL if len(panels) > 1 else HEIGHT + 60)
    marks = _MARKS[chart.kind](chart, rows).properties(**size)
    return composed(marks, rows, chart.title, panels, reading(chart, records))


def composed(marks: Any, rows: list[ChartRecord], title: str, panels: list[str], below: str) -> Any:
    """Add data, title and theme to marks; several panels are drawn in this order. `below` is a line below the title."""
    if len(panels) > 1:
        wrapped = {
            panel: "\n".join(line for part in panel.split("\n") for line in lines_of(part, PANEL)) for panel in panels
        }
        rows = [row | {"facet": wrapped[row["facet"]]} for row in rows]
        header = alt.Header(labelExpr="split(datum.label, '\\n')")
        facet = alt.Facet("facet:N", sort=list(wrapped.values()), title=None, header=header)
        marks = marks.facet(facet, data=alt.InlineData(values=rows), columns=columns_of(panels))
    else:
        marks = marks.properties(data=alt.InlineData(values=rows))
    width = PANEL * max(2, columns_of(panels)) if len(panels) > 1 else WIDTH
    subtitle = lines_of(below, width) if below else alt.Undefined
    heading = alt.TitleParams(lines_of(title, width, 7.4), subtitle=subtitle)
    return marks.properties(title=heading).configure(**theme("light"))


def reading(chart: Chart, records: Records) -> str:
    """Explain what a chart shows apart from its axes: its bands, and the border on a heat map.

    Empty if there is nothing to explain.
    """
    parts = []
    counts = [row["n"] for row in records.rows if "n" in row]
    if chart.kind in ("lines", "bars") and counts and max(counts) > 1:
        what = "Bands" if chart.kind == "lines" else "Thin lines"
        parts.append(f"{what}: min to max over {counted(counts, records.over)}.")
    if chart.kind == "heatmap" and chart.references:
        parts.append(f"Red line: {', '.join(one.label for one in chart.references)}.")
    return " ".join(parts)


def counted(counts: Iterable[int], what: str) -> str:
    """Return a number or a range of numbers with their unit: 10 seeds, 3 to 10 trials."""
    least, greatest = min(counts), max(counts)
    return many(greatest, what) if least == greatest else f"{least:,} to {many(greatest, what)}"


def lines_of(text: str, width: int, letter: float = LETTER) -> list[str]:
    """Wrap a user's text to a width in pixels.

    >>> lines_of("Recall at constant parameters", 120)
    ['Recall at constant', 'parameters']
    """
    return textwrap.wrap(chart_text(text), max(12, int(width / letter)), break_long_words=False) or [""]


# ---------------------------------------------------------------- marks


def _lines(chart: Chart, rows: list[ChartRecord]) -> Any:
    base = alt.Chart().encode(x=_axis(alt.X, "x", chart, rows))
    y = _axis(alt.Y, "y", chart, rows)
    tooltip = _tooltip(chart, rows)
    line, band, point = {}, {}, {}
    references = _references(chart, rows)
    if chart.colour:
        chosen = alt.selection_point(fields=["colour"], bind="legend")
        colour = colours(rows, _title("colour", chart))
        line = {"color": colour, "opacity": alt.condition(chosen, alt.value(1), alt.value(0.12))}
        band = {"color": colour, "opacity": alt.condition(chosen, alt.value(0.14), alt.value(0))}
        point = {**line, "tooltip": tooltip}
    bands = base.mark_area(opacity=0.12).encode(y=_axis(alt.Y, "low", chart, rows), y2="high:Q", **band)
    lines = base.mark_line(strokeWidth=2).encode(y=y, **line)
    points = base.mark_point(filled=True, size=42, opacity=1).encode(y=y, **(point or {"tooltip": tooltip}))
    layers = alt.layer(bands, *references, lines, points)
    return layers.add_params(chosen) if chart.colour else layers


def _points(chart: Chart, rows: list[ChartRecord]) -> Any:
    encoding = {"x": _axis(alt.X, "x", chart, rows), "y": _axis(alt.Y, "y", chart, rows)}
    if chart.colour:
        encoding["color"] = colours(rows, _title("colour", chart))
    points = alt.Chart().mark_point(filled=True, size=36, opacity=0.6)
    return alt.layer(*_references(chart, rows), points.encode(**encoding, tooltip=_tooltip(chart, rows)))


def _references(chart: Chart, rows: list[ChartRecord]) -> list[Any]:
    axes = _axis(alt.X, "x", chart, rows), _axis(alt.Y, "y", chart, rows)
    return reference_marks(chart.references, rows, *axes, chart_text, logs=(chart.log_x, chart.log_y))


def _bars(chart: Chart, rows: list[ChartRecord]) -> Any:
    encoding: dict[str, Any] = {
        "x": alt.X("x:O", title=_title("x", chart), axis=alt.Axis(labelAngle=0, labelLimit=120))
    }
    if chart.colour:
        encoding |= {"color": colours(rows, _title("colour", chart)), "xOffset": alt.XOffset("colour:O")}
    bars = alt.Chart().mark_bar().encode(**encoding, y=_axis(alt.Y, "y", chart, rows), tooltip=_tooltip(chart, rows))
    whiskers = {name: encoding[name] for name in ("x", "xOffset") if name in encoding}
    ends = alt.Chart().mark_rule(strokeWidth=1.5, color="#7a8794")
    return alt.layer(bars, ends.encode(**whiskers, y=_axis(alt.Y, "low", chart, rows), y2="high:Q"))


def _heat_map(chart: Chart, rows: list[ChartRecord]) -> Any:
    numbers = [row["colour"] for row in rows]
    middle = (min(numbers) + max(numbers)) / 2
    legend = alt.Legend(title=_title("colour", chart), format=".2f" if max(map(abs, numbers)) < 100 else "~s")
    base = alt.Chart().encode(
        x=alt.X("x:O", title=_title("x", chart), axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("y:O", title=_title("y", chart), sort="descending"),
        tooltip=_tooltip(chart, rows),
    )
    cells = base.mark_rect().encode(color=alt.Color("colour:Q", legend=legend, scale=alt.Scale(zero=False)))
    columns = len({row["x"] for row in rows})
    borders = border_marks(chart.references, rows)
    if columns > FEW or any("facet" in row for row in rows):
        return alt.layer(cells, *borders)
    ink = alt.condition(alt.datum.colour > middle, alt.value("#10202c"), alt.value("#f4f8fb"))
    text = base.mark_text(fontSize=11).encode(text=alt.Text("colour:Q", format=legend.format), color=ink)
    return alt.layer(cells, text, *borders)


_MARKS = {"lines": _lines, "points": _points, "bars": _bars, "heatmap": _heat_map}


# ---------------------------------------------------------------- texts


def _title(field: str, chart: Chart) -> str:
    """Return the title of a field: given by the chart, or else the label of its column."""
    own = {"x": chart.x_title, "y": chart.y_title}.get(field)
    column = {"x": chart.x, "y": chart.y, "colour": chart.colour, "facet": chart.facet}[field]
    return chart_text(own or label(column or "", chart.data))


def _cell(field: str, value: Any, chart: Chart) -> Any:
    """Return a value for the chart's data; a facet becomes the heading of its panel."""
    if field == "facet":
        return f"{_title(field, chart)}: {chart_text(cell_text(value))}"
    return chart_text(value) if isinstance(value, str) else value


# ---------------------------------------------------------------- axes


def _axis(channel: Any, field: str, chart: Chart, rows: list[ChartRecord]) -> Any:
    """Return an axis for names or numbers; whole numbers have whole ticks."""
    role = "x" if field == "x" else "y"
    numbers = [row[field] for row in rows]
    title = _title(role, chart)
    if not all(map(is_number, numbers)):
        return channel(f"{field}:O", title=title)
    log = chart.log_x if role == "x" else chart.log_y
    if role == "y" and "low" in rows[0]:
        numbers = [row[end] for row in rows for end in ("low", "high")]
    axis = number_axis(numbers, log=log, ticks=role == "x")
    if role == "x":
        options = {"type": "log"} if log else {"zero": False}
        return channel(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(**options, nice=False, padding=12))
    scale = alt.Scale(type="log") if log else alt.Scale(zero=chart.kind == "bars")
    return channel(f"{field}:Q", title=title, axis=axis, scale=scale)


def colours(rows: Sequence[ChartRecord], title: str | None) -> Any:
    """Return shades in order for a few numbers, a ramp for many, different colours for names."""
    found = sorted_cells(row["colour"] for row in rows)
    if not all(map(is_number, found)):
        return alt.Color("colour:N", sort=found, legend=alt.Legend(title=title, columns=legend_columns(found)))
    written: dict[str, Any] = {"title": title, "format": NUMBER, "formatType": "number"}
    if len(found) > FEW:
        return alt.Color("colour:Q", legend=alt.Legend(**written))
    columns = legend_columns(map(cell_text, found))
    return alt.Color("colour:O", legend=alt.Legend(**written, columns=columns))


def legend_columns(labels: Iterable[object]) -> int:
    """Return how many legend entries fit in a row."""
    longest = max(len(str(label_)) for label_ in labels)
    return max(1, min(8, int(WIDTH / (LETTER * longest + 34))))


def _tooltip(chart: Chart, rows: list[ChartRecord]) -> list[Any]:
    names = {field: _title(field, chart) for field in ("x", "y", "colour")}
    names |= {"low": "least", "high": "greatest", "n": many_rows(chart.data)}
    return [
        alt.Tooltip(f"{field}:{'Q' if all(isinstance(row[field], int | float) for row in rows) else 'N'}", title=title)
        for field, title in names.items()
        if field in rows[0]
    ]
