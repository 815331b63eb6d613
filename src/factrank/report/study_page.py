"""The report of a study: one HTML file with everything in it, which asks nothing of the network.

Every text that comes from a user (names, titles, cells, error messages) is escaped where it enters the page; data for
scripts stand as JSON without a "<". The page's policy lets only its own two scripts run, known by their hashes, so that
a text that slipped through could still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import pyarrow as pa
import vl_convert

from factrank.report.chart_records import Records, chart_records
from factrank.report.labels import label
from factrank.report.plain import shown_name
from factrank.report.study_charts import MOST_BANDS, draw, theme
from factrank.report.study_sections import claims_section, failures_section, run_section, settings_section, tally
from factrank.runs.claims import evaluate
from factrank.runs.study import Chart, Size, Study
from factrank.runs.study_table import study_table

MANY_POINTS = 1500
"""Beyond this many records a chart is drawn on a canvas rather than as SVG, which would be slow."""
MOST_NUMBERS = 400
"""Up to this many records a chart has them as a table below it."""


def build_page(
    study: Study,
    size: Size,
    table: pa.Table,
    curves: pa.Table,
    problems: Sequence[str] = (),
    command: str = "",
) -> str:
    """The page of a study in one size, from the tables of a store, which may hold other trials as well.

    `problems` are those of the store, `command` is how to run the study again.
    """
    own = study_table(study, size, table)
    drawings = [(chart, chart_records(chart, own, curves)) for chart in study.charts]
    judged = [(claim, evaluate(claim, own)) for claim in study.claims]
    body = [
        _head(study, size),
        tally(own, judged),
        f"<h2>Question</h2><p>{text(study.question)}</p>",
        f"<h2>Method</h2><p>{text(study.method)}</p>{_source(study)}",
        claims_section(judged),
        _charts(drawings),
        settings_section(own),
        run_section(own, command or f"factrank study run {study.name}{' --full' if size == 'full' else ''}"),
        failures_section(own, problems),
        "<footer>Made by factrank from the store of results alone. This file asks nothing of the network.</footer>",
    ]
    return _document(shown_name(study.title, None), "\n".join(body), _chart_data(drawings))


def text(user_text: str) -> str:
    """A user's text as HTML: escaped, control characters and marks of direction shown as escapes."""
    return "\n".join(escape(shown_name(line, None)) for line in user_text.splitlines())


def script_data(data: object) -> str:
    """JSON that may stand inside a script element, whatever texts are in it."""
    plain = json.dumps(data, allow_nan=False, ensure_ascii=True)
    return plain.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


# ---------------------------------------------------------------- parts


def _head(study: Study, size: Size) -> str:
    return f"<h1>{text(study.title)}</h1><p class=soft>Study <code>{text(study.name)}</code>, {size} size</p>"


def _source(study: Study) -> str:
    source = study.source
    if source is None:
        return ""
    paper = text(source.paper)
    if source.link.startswith(("https://", "http://")):
        paper = f'<a href="{escape(source.link)}" rel="noreferrer">{paper}</a>'
    figure = f", {text(source.figure)}" if source.figure else ""
    return f"<p class=soft>Source: {paper}{figure}.</p>"


def _charts(drawings: Sequence[tuple[Chart, Records]]) -> str:
    if not drawings:
        return ""
    return "<h2>Charts</h2>" + "\n".join(_figure(chart, records) for chart, records in drawings)


def _figure(chart: Chart, records: Records) -> str:
    name = text(chart.name)
    notes = "".join(f"<p class=soft>{text(note)}</p>" for note in records.notes)
    if not records.rows:
        return f'<figure id="figure-{name}"><figcaption><h3>{text(chart.title)}</h3></figcaption>{notes}</figure>'
    kind = {"lines": "Lines", "points": "Points", "bars": "Bars", "heatmap": "Heat map"}[chart.kind]
    shown = chart.colour if chart.kind == "heatmap" else chart.y
    alternative = f"{kind}: {chart.title}. {label(shown or '')} against {chart.x_title or label(chart.x)}"
    caption = f"<p class=soft>{_reading(chart, records)}</p>" if chart.kind in ("lines", "bars") else ""
    return (
        f'<figure id="figure-{name}"><figcaption><h3>{text(chart.title)}</h3></figcaption>'
        f'<div class=chart id="chart-{name}" data-chart="{name}" role="group" aria-label="{text(alternative)}"></div>'
        f"{caption}{notes}{_numbers(chart, records)}</figure>"
    )


def _reading(chart: Chart, records: Records) -> str:
    """How a chart of means is read."""
    if chart.kind == "bars":
        return "Thin lines reach from the least to the greatest."
    lines = len({row.get("colour") for row in records.rows})
    band = "Bands reach from the least to the greatest."
    if lines == 1:
        return band
    return f"{band} Choose a line in the legend to {'set it apart' if lines <= MOST_BANDS else 'see its band'}."


def _numbers(chart: Chart, records: Records) -> str:
    """The records of a chart as a table, for those who cannot see it or want the numbers."""
    if len(records.rows) > MOST_NUMBERS:
        return ""
    names = {"facet": label(chart.facet or ""), "x": chart.x_title or label(chart.x)}
    names |= {"colour": label(chart.colour or ""), "y": chart.y_title or label(chart.y)}
    names |= {"low": "least", "high": "greatest", "n": "trials"}
    fields = [field for field in names if field in records.rows[0]]
    head = "".join(f"<th scope=col>{text(names[field])}</th>" for field in fields)

    def cell(value: Any) -> str:
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td{'' if isinstance(value, str) else ' class=number'}>{text(shown)}</td>"

    rows = "".join(f"<tr>{''.join(cell(row[field]) for field in fields)}</tr>" for row in records.rows)
    return (
        f'<details><summary>The numbers</summary><div class=numbers tabindex="0"><table class=plain>'
        f"<caption>{text(chart.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _chart_data(drawings: Sequence[tuple[Chart, Records]]) -> str:
    """What the page's script draws: one specification per chart, without title and colours, and the two themes."""
    charts: dict[str, Any] = {}
    for chart, records in drawings:
        if records.rows:
            specification = draw(chart, records).to_dict()
            for name in ("title", "config"):
                specification.pop(name)
            charts[chart.name] = specification | {"usermeta": {"square": chart.kind == "heatmap"}}
    canvas = [chart.name for chart, records in drawings if len(records.rows) > MANY_POINTS]
    themes = {name: theme(name) | {"background": "transparent"} for name in ("light", "dark")}
    return script_data({"charts": charts, "canvas": canvas, "themes": themes})


# ---------------------------------------------------------------- the document


def _document(title: str, body: str, data: str) -> str:
    scripts = [_library(), _part("study_page.js")]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    allowed = {"default-src": "'none'", "script-src": hashes, "style-src": "'unsafe-inline'", "img-src": "data:"}
    policy = "; ".join(
        f"{what} {whom}" for what, whom in {**allowed, "base-uri": "'none'", "form-action": "'none'"}.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{_part("study_page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<noscript><p>The charts need JavaScript; the numbers stand below each of them.</p></noscript>
<script type="application/json" id="charts">{data}</script>
<script>{scripts[0]}</script>
<script>{scripts[1]}</script>
</body>
</html>
"""


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed."""
    return _inside_script(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its stub lacks the default


@cache
def _part(name: str) -> str:
    part = files("factrank.report").joinpath(name).read_text(encoding="utf-8")
    return _inside_script(part) if name.endswith(".js") else part


def _inside_script(code: str) -> str:
    """Code as a browser will read it back from a script element, so that its hash is the one in the policy."""
    code = code.replace("\r\n", "\n")
    if "</script" in code.lower() or "<!--" in code or "\r" in code or "\0" in code:
        raise AssertionError("the code cannot stand inside a script element")
    return code
