"""The report of a study: a single self-contained HTML file that makes no network requests.

The results are rendered with a template (`study_page.html`). Jinja2 escapes every text, after control characters and
direction marks are made visible; data for scripts is JSON without "<". As a second line of defence, the page's content
security policy allows only its own two scripts, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import vl_convert
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from factrank.experiments.study import StudyResults
from factrank.foreign_text import visible
from factrank.report.plain_output import many
from factrank.report.study.page_opening import answer, badges
from factrank.report.study.study_charts import theme
from factrank.report.study.study_figures import Figure, chart_figure, summary_figure
from factrank.report.study.study_findings import fixed_text
from factrank.report.study.study_sections import (
    claim_rows,
    failure_rows,
    fit_rows,
    run_rows,
    searches_text,
    setting_rows,
    tally,
    unanswered,
)
from factrank.version import __version__

MANY_POINTS = 1500
"""Charts with more records are drawn on a canvas, because SVG would be slow."""
MOST_ERRORS = 30


def build_page(
    found: StudyResults, problems: Sequence[str] = (), command: str = "", *, written: str = "", data: str = ""
) -> str:
    """Return the page of a study. The answer, its verdicts, the contents and the first chart come first.

    Charts and summaries without a record have no figure; they are listed at the end.

    Arguments:
        found: Results of the study.
        problems: Problems of its store.
        command: Command that runs it again.
        written: Date of the page.
        data: File name of the table of trials, next to the page.
    """
    study, trials = found.study, found.tables.trials
    charts = [chart_figure(chart, records) for chart, records in found.charts]
    tables = zip(found.summaries, found.summary_charts, strict=True)
    summaries = [summary_figure(summary, table, records) for (summary, table), (_, records) in tables]
    drawn = [figure for figure in (*charts, *summaries) if figure.picture is not None]
    not_drawn = [figure for figure in (*charts, *summaries) if figure.picture is None]
    sections = _sections(drawn[1:], charts, summaries)
    varied, fixed = setting_rows(trials)
    failures = failure_rows(trials)
    scripts = [vega_library(), page_part("study_page.js")]
    return _template().render(
        study=study,
        size=found.size,
        link=study.source.link if study.source and study.source.link.startswith(("https://", "http://")) else "",
        answer=answer(found),
        badges=badges(found),
        contents=_contents(found, sections, has_problems=bool(failures or problems)),
        first=drawn[:1],
        sections=sections,
        not_drawn=not_drawn,
        n_not_drawn=many(len(not_drawn), "figure"),
        written=written,
        version=__version__,
        table=data,
        tally=tally(found),
        claims=claim_rows(found),
        fixed_claims=fixed_text({study.name: found}) if found.judged else "",
        fits=fit_rows(found.fits),
        searches=searches_text(found),
        unanswered=unanswered(found.tables.searches)[:MOST_ERRORS],
        varied=varied,
        fixed=fixed,
        run=run_rows(trials),
        command=command or f"factrank study run {study.name}{' --full' if found.size == 'full' else ''}",
        failures=failures[:MOST_ERRORS],
        n_more_failures=f"{len(failures) - MOST_ERRORS:,}" if len(failures) > MOST_ERRORS else "",
        problems=problems,
        policy=script_policy(scripts),
        style=Markup(page_part("study_page.css")),  # noqa: S704 - our own
        data=Markup(_chart_data(drawn)),  # noqa: S704 - cannot end a script element
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own
    )


Section = tuple[str, str, list[Figure]]
"""Anchor, title and figures of a section."""


def _sections(shown: Sequence[Figure], charts: Sequence[Figure], summaries: Sequence[Figure]) -> list[Section]:
    """Return the sections of these figures; a section without a figure is omitted."""
    found: list[Section] = [
        (anchor, title, [figure for figure in figures if figure in shown])
        for anchor, title, figures in (("more-charts", "Charts", charts), ("summaries", "Summaries", summaries))
    ]
    return [section for section in found if section[2]]


def _contents(found: StudyResults, sections: Sequence[Section], *, has_problems: bool) -> list[tuple[str, str]]:
    """Return the table of contents: the anchor and the title of each section of the page."""
    listed = [
        ("question", "Question and method", True),
        ("claims", "Claims", bool(found.judged)),
        *((anchor, title, True) for anchor, title, _ in sections),
        ("fits", "Fits", bool(found.fits)),
        ("searches", "Searches", bool(found.n_searches)),
        ("settings", "Settings", True),
        ("run", "How it ran", True),
        ("problems", "Problems", has_problems),
    ]
    return [(anchor, title) for anchor, title, is_shown in listed if is_shown]


def script_data(data: object) -> str:
    """Return JSON that is safe inside a script element, for any texts in the data."""
    plain = json.dumps(data, allow_nan=False, ensure_ascii=True)
    return plain.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _chart_data(figures: Sequence[Figure]) -> str:
    """Return the data of the page's script: a specification per figure, without title and colours, and both themes."""
    charts = {figure.name: figure.picture for figure in figures if figure.picture is not None}
    canvas = [figure.name for figure in figures if figure.n_records > MANY_POINTS]
    themes = {name: theme(name) | {"background": "transparent"} for name in ("light", "dark")}
    return script_data({"charts": charts, "canvas": canvas, "themes": themes})


def script_policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only these scripts, by their hashes."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    allowed = {"default-src": "'none'", "script-src": hashes, "style-src": "'unsafe-inline'", "img-src": "data:"}
    return "; ".join(
        f"{what} {whom}" for what, whom in {**allowed, "base-uri": "'none'", "form-action": "'none'"}.items()
    )


@cache
def _template() -> Template:
    """Return the template, which escapes everything that is not marked as HTML."""
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_shown
    )
    return environment.from_string(page_part("study_page.html"))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def vega_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed, after their licences, which the bundle leaves out."""
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    return page_part("vega_licences.js") + _inside_script(bundle)


@cache
def page_part(name: str) -> str:
    """Return a style or script of the page."""
    part = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _inside_script(part) if name.endswith(".js") else part


def _inside_script(code: str) -> str:
    """Normalise code to what a browser reads from a script element, so that its hash matches the policy."""
    code = code.replace("\r\n", "\n")
    if "</script" in code.lower() or "<!--" in code or "\r" in code or "\0" in code:
        raise AssertionError("the code cannot be placed inside a script element")
    return code
