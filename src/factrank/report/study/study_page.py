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

import vl_convert

from factrank.experiments.study import Size, Study, StudyResults
from factrank.foreign_text import shown_name
from factrank.report.study.study_charts import theme
from factrank.report.study.study_figures import Figure, chart_figure, figure_html, summary_figure
from factrank.report.study.study_sections import (
    claims_section,
    failures_section,
    fits_section,
    run_section,
    searches_section,
    settings_section,
    tally,
)

MANY_POINTS = 1500
"""Beyond this many records a chart is drawn on a canvas rather than as SVG, which would be slow."""


def build_page(found: StudyResults, problems: Sequence[str] = (), command: str = "") -> str:
    """The page of a study; `problems` are those of the store, `command` is how to run the study again."""
    study, size, own = found.study, found.size, found.tables.trials
    charts = [chart_figure(chart, records) for chart, records in found.charts]
    drawn = zip(found.summaries, found.summary_charts, strict=True)
    figures = [summary_figure(summary, table, records) for (summary, table), (_, records) in drawn]
    body = [
        _head(study, size),
        tally(found),
        f"<h2>Question</h2><p>{text(study.question)}</p>",
        f"<h2>Method</h2><p>{text(study.method)}</p>{_source(study)}",
        claims_section(found.judged),
        _figures("Charts", charts),
        _figures("Summaries", figures),
        fits_section(found.fits),
        searches_section(found.tables.searches),
        settings_section(own),
        run_section(own, command or f"factrank study run {study.name}{' --full' if size == 'full' else ''}"),
        failures_section(own, problems),
        "<footer>Made by factrank from the store of results alone. This file asks nothing of the network.</footer>",
    ]
    return _document(shown_name(study.title, None), "\n".join(body), _chart_data([*charts, *figures]))


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


def _figures(title: str, figures: Sequence[Figure]) -> str:
    return f"<h2>{title}</h2>" + "\n".join(map(figure_html, figures)) if figures else ""


def _chart_data(figures: Sequence[Figure]) -> str:
    """What the page's script draws: one specification per figure, without title and colours, and the two themes."""
    charts = {figure.name: figure.picture for figure in figures if figure.picture is not None}
    canvas = [figure.name for figure in figures if figure.n_records > MANY_POINTS]
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
    part = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _inside_script(part) if name.endswith(".js") else part


def _inside_script(code: str) -> str:
    """Code as a browser will read it back from a script element, so that its hash is the one in the policy."""
    code = code.replace("\r\n", "\n")
    if "</script" in code.lower() or "<!--" in code or "\r" in code or "\0" in code:
        raise AssertionError("the code cannot stand inside a script element")
    return code
