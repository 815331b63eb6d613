"""Charts as Vega-Lite, saved offline as interactive pages or pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from factrank.errors import InputError
from factrank.host import replacing
from factrank.tensors import Measurement

CHART_SUFFIXES = (".html", ".svg", ".png", ".json")
ROOM_FOR_LABELS = 3
"""Ratio of the end of the axis to the largest number."""

TITLE = "How big is the table? Facts, and certified bounds of its ranks"
SIZES = ("facts", "rank", "completion rank", "effective rank")


def size_records(measurements: Sequence[tuple[str, Measurement]]) -> list[dict[str, Any]]:
    """Return one row per database and size: its lower and upper bound, and their methods."""
    records: list[dict[str, Any]] = []
    for database, measurement in measurements:
        counted = {"size": "facts", "lower": measurement.triples, "upper": measurement.triples, "why": "counted"}
        records.append({"database": database} | counted)
        for name, bounds in measurement.brackets.items():
            why = f"{bounds.lower.method} / {bounds.upper.method}"
            ends = {"lower": bounds.lower.value, "upper": bounds.upper.value}
            records.append({"database": database, "size": name.replace("_", " "), **ends, "why": why})
    return records


def sizes_chart(measurements: Sequence[tuple[str, Measurement]]) -> alt.FacetChart:
    """Draw the number of facts of each database and the bounds of its three ranks, on one symlog axis."""
    records = size_records(measurements)
    largest = max((record["upper"] for record in records), default=1)
    ticks = [0, *(digit * 10**power for power in range(len(str(largest))) for digit in (1, 2, 5))]
    axis = alt.Axis(values=ticks, format=",d", labelOverlap="greedy")
    scale = alt.Scale(type="symlog", constant=1, domain=[0, ROOM_FOR_LABELS * max(largest, 1)])
    base = alt.Chart(alt.InlineData(values=records)).encode(
        y=alt.Y("size:N", sort=list(SIZES), title=None),
        color=alt.Color("size:N", sort=list(SIZES), legend=None),
        tooltip=["database:N", "size:N", "lower:Q", "upper:Q", "why:N"],
    )
    bars = base.mark_bar(height=7, opacity=0.55).encode(
        x=alt.X("lower:Q", scale=scale, axis=axis, title=None), x2="upper:Q"
    )
    ends = base.mark_point(filled=True, size=55, opacity=1)
    label = alt.expr.if_(
        alt.datum.lower == alt.datum.upper,
        alt.expr.format(alt.datum.upper, ","),
        alt.expr.format(alt.datum.lower, ",") + " to " + alt.expr.format(alt.datum.upper, ","),
    )
    text = base.transform_calculate(label=label).mark_text(align="left", dx=9).encode(x="upper:Q", text="label:N")
    layers = alt.layer(bars, ends.encode(x="lower:Q"), ends.encode(x="upper:Q"), text)
    names = [name for name, _ in measurements]
    rows = alt.Row("database:N", sort=names, title=None, header=alt.Header(labelAngle=0, labelAlign="left"))
    chart: alt.FacetChart = (
        layers.properties(width=430, height=78)
        .facet(row=rows, title=TITLE)
        .configure(background="white", view=alt.ViewConfig(stroke="#ddd"))
    )
    return chart


def require_chart_path(path: str | Path) -> Path:
    """Raise unless a chart can be written to this path; called before any long computation."""
    path = Path(path)
    if path.suffix.lower() not in CHART_SUFFIXES:
        raise InputError(f"{path}: the name of a chart must end in one of {', '.join(CHART_SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    return path


def save_chart(chart: Any, path: str | Path) -> None:
    """Save a chart as self-contained HTML, SVG, PNG or Vega-Lite JSON, depending on the suffix."""
    path = require_chart_path(path)
    kind = path.suffix.lower()[1:]
    if kind == "png":
        image = io.BytesIO()
        chart.save(image, format="png", scale_factor=2)
        content = image.getvalue()
    elif kind == "html":
        content = _page(chart).encode()
    else:
        text = io.StringIO()
        chart.save(text, format=kind)
        content = text.getvalue().encode()
    with replacing(path) as stream:
        stream.write(content)


def _page(chart: Any) -> str:
    """Return a self-contained page.

    Names in the data come from the user, and a "</script>" in one would end the page's script, so "<" is written as its
    JSON escape.
    """
    page: str = chart.to_html(inline=True)
    specification = json.dumps(chart.to_dict())
    if specification not in page:
        raise AssertionError("the page does not contain the chart's specification verbatim")
    return page.replace(specification, specification.replace("<", r"\u003c"))
