"""Lab reports: prose written by hand, numbers filled in from the results.

A Markdown text has placeholders, which are replaced by results of a paper's studies:

    {{claim STUDY | CLAIM}}        our value and its interval: 0.0395 [0.036, 0.042]
    {{verdict STUDY | CLAIM}}      reproduced, not reproduced, undecided, measured, by construction or not comparable
    {{spread STUDY | CLAIM}}       standard deviations of its quantity, between tables and between trainings of a table
    {{claims STUDY}}               a table of its claims
    {{value STUDY | SUMMARY | quantity=LABEL, COLUMN=VALUE, ...}}    one number of a summary, with its interval
    {{summary STUDY | SUMMARY}}    a summary as a table
    {{fit STUDY | FIT}}            the formula of a fit and its errors
    {{chart STUDY | NAME}}         the picture of a chart or of a summary
    {{trials STUDY}}               the number of its trials
    {{searches STUDY}}             the number of its searches, and how many of them lack an end
    {{statements}}                 a table of the published statements, with a verdict each
    {{fixed}}                      whether the claims were fixed before the runs, as a sentence
    {{count WHAT}}                 the number of studies, trials, searches, (published) claims, statements, extensions,
                                   or statements with a verdict
    {{count VERDICT | WHAT}}       the number of claims or of extensions with a verdict
    {{open}} {{close}}             a single brace, if two would look like a placeholder

A placeholder that names something that does not exist is an error with its line number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar, get_args

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.statistics import QUANTITY, ClaimStatus, Summary, Verdict
from factrank.experiments.store import plain_text
from factrank.experiments.study import Chart, Results, Study, StudyResults, paper_statements
from factrank.report.markdown import cell, steady, value_text
from factrank.report.study import (
    claims_text,
    fit_text,
    fixed_text,
    spread_text,
    statements_text,
    summary_text,
    verdict_text,
)

PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
BRACES, OPEN, CLOSE = re.compile(r"[{}]{2,}"), "{{open}}", "{{close}}"
CLAIMS, STATEMENTS, EXTENSIONS = "claims", "statements", "extensions"

Thing = TypeVar("Thing")


def render(text: str, results: Results, name: str = "text.md") -> str:
    """Return the text with its placeholders replaced; errors refer to it by `name`."""

    def replaced(found: re.Match[str]) -> str:
        try:
            return _said(found[1], results)
        except InputError as error:
            line = text.count("\n", 0, found.start()) + 1
            raise InputError(f"{name}, line {line}: {{{{{found[1].strip()}}}}}: {error}") from None

    stray = PLACEHOLDER.sub(lambda found: "\n" * found[0].count("\n"), text)
    for braces in ("{{", "}}"):
        if braces in stray:
            line = stray.count("\n", 0, stray.index(braces)) + 1
            raise InputError(f"{name}, line {line}: unmatched {braces}")
    return PLACEHOLDER.sub(replaced, text)


def drawn_parts(study: Study) -> list[Chart | Summary]:
    """Return the parts of a study that have pictures."""
    return [*study.charts, *study.summaries]


def picture_name(study: Study, part: str) -> str:
    """Return the file name of the picture of a chart or summary."""
    return f"charts/{study.name}-{part}.svg"


def pictures_named(text: str) -> set[str]:
    """Return the file names of the pictures that a rendered text shows."""
    return set(re.findall(r"\]\((charts/[^)]+)\)", text))


def literal(text: str) -> str:
    """Escape adjacent braces in prose, so that they are not taken for a placeholder.

    >>> literal("f{x}, {{y}}")
    'f{x}, {{open}}{{open}}y{{close}}{{close}}'
    """
    single = {"{": OPEN, "}": CLOSE}
    return BRACES.sub(lambda found: "".join(single[brace] for brace in found[0]), plain_text(text))


def first_text(paper: str, results: Results, drawn: Iterable[str]) -> str:
    """Return a first draft with all results, in the order of the studies; `drawn` are the existing pictures."""
    pictures = set(drawn)
    lines = [f"# {literal(paper)}", "", _TALLY, ""]
    for name, found in results.items():
        study = found.study
        source = ", ".join(filter(None, [study.source.paper, study.source.figure])) if study.source else ""
        lines += [
            f"## {literal(study.title)}",
            "",
            *([f"{literal(source)}.", ""] if source else []),
            literal(study.question),
            "",
            literal(study.method),
            "",
        ]
        searches = f" of {{{{searches {name}}}}} searches" if found.n_searches else ""
        lines += [f"{{{{trials {name}}}}} trials{searches} (`{name}`).", ""]
        lines += [f"{{{{claims {name}}}}}", ""] if study.claims else []
        for part in drawn_parts(study):
            lines += [f"{{{{chart {name} | {part.name}}}}}", ""] if picture_name(study, part.name) in pictures else []
            lines += [f"{{{{summary {name} | {part.name}}}}}", ""] if isinstance(part, Summary) else []
        lines += [line for fit in study.fits for line in (f"{literal(fit.title)}: {{{{fit {name} | {fit.name}}}}}", "")]
    return "\n".join(lines).rstrip() + "\n"


_TALLY = (
    "{{count studies}} studies, {{count trials}} trials. Of {{count statements}} statements {{count reproduced}} are "
    "reproduced, {{count not reproduced}} are not, {{count undecided}} are undecided and {{count not comparable}} are "
    "not comparable. {{fixed}}"
)


# ---------------------------------------------------------------- placeholders


def _said(placeholder: str, results: Results) -> str:
    kind, _, rest = " ".join(placeholder.split()).partition(" ")  # a line may end inside
    arguments = [argument.strip() for argument in rest.split("|")] if rest else []
    if kind not in _SAYERS:
        raise InputError(f"a placeholder must begin with one of {', '.join(_SAYERS)}; got {kind!r}")
    sayer, least, most = _SAYERS[kind]
    if not least <= len(arguments) <= most or not all(arguments):
        counts = str(least) if least == most else f"{least} or {most}"
        raise InputError(f"{kind} takes {counts} names separated by |; got {len(arguments)}")
    return sayer(results, *arguments)


def _study(results: Results, name: str) -> StudyResults:
    return _named("study", name, results)


def _named(what: str, name: str, things: Mapping[str, Thing]) -> Thing:
    if name in things:
        return things[name]
    near = get_close_matches(name, things, n=1) or list(things)
    raise InputError(f"no {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else "there are none"))


def _verdict(results: Results, study: str, claim: str) -> Verdict:
    judged = _study(results, study).judged
    return _named("claim", claim, {one.name: verdict for one, verdict in judged})


def _say_spread(verdict: Verdict) -> str:
    return spread_text(verdict) or "no standard deviations, because no table was trained several times"


def _summary(results: Results, study: str, name: str) -> tuple[Summary, pa.Table]:
    summaries = {summary.name: (summary, table) for summary, table in _study(results, study).summaries}
    return _named("summary", name, summaries)


def _say_value(results: Results, study: str, name: str, conditions: str = "") -> str:
    summary, table = _summary(results, study, name)
    wanted = _conditions(conditions, (QUANTITY, *summary.over))
    rows = [row for row in table.to_pylist() if all(_is(row[column], text) for column, text in wanted.items())]
    if len(rows) != 1:
        free = [column for column in (QUANTITY, *summary.over) if column not in wanted]
        hint = f"; also give {', '.join(free)}" if len(rows) > 1 and free else ""
        raise InputError(f"{len(rows)} rows of the summary match, expected one{hint}")
    (row,) = rows
    return f"no value ({row['why']})" if row["value"] is None else value_text(row["value"], row["low"], row["high"])


def _conditions(text: str, columns: Sequence[str]) -> dict[str, str]:
    """Parse COLUMN=VALUE, ...; a value may itself contain commas."""
    names = "|".join(re.escape(column) for column in sorted(columns, key=len, reverse=True))
    wanted = {}
    for part in re.split(rf",\s*(?=(?:{names})\s*=)", text) if text else ():
        found = re.fullmatch(rf"\s*({names})\s*=\s*(.*?)\s*", part, re.DOTALL)
        if not found or found[1] in wanted:
            raise InputError(f"expected COLUMN=VALUE, with each of {', '.join(columns)} once; got {part.strip()!r}")
        wanted[found[1]] = found[2]
    return wanted


def _is(value: object, text: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value) == text
    try:
        return steady(float(text)) == steady(float(value))
    except ValueError:
        return False


def _say_fit(results: Results, study: str, name: str) -> str:
    return fit_text(_named("fit", name, {fit.name: result for fit, result in _study(results, study).fits}))


def _say_chart(results: Results, study: str, name: str) -> str:
    own = _study(results, study).study
    part = _named("chart or summary", name, {part.name: part for part in drawn_parts(own)})
    title = cell(part.title).replace("[", "(").replace("]", ")")
    return f"![{title}]({picture_name(own, name)})"


def _say_searches(results: Results, study: str) -> str:
    found = _study(results, study)
    without = f" ({found.n_unfinished:,} without both ends)" if found.n_unfinished else ""
    return f"{found.n_searches:,}{without}"


def _say_count(results: Results, what: str, among: str = "") -> str:
    judged = [pair for found in results.values() for pair in found.judged]
    statements = paper_statements(results)
    plain = {
        "studies": len(results),
        "trials": sum(found.n_trials for found in results.values()),
        "searches": sum(found.n_searches for found in results.values()),
        "claims": sum(not claim.extension for claim, _ in judged),
        STATEMENTS: len(statements),
        EXTENSIONS: sum(claim.extension for claim, _ in judged),
    }
    if what in plain and not among:
        return f"{plain[what]:,}"
    if what not in get_args(ClaimStatus) or among not in ("", CLAIMS, EXTENSIONS):
        known = ", ".join((*plain, *get_args(ClaimStatus)))
        raise InputError(f"count takes one of {known}, and verdicts also | {CLAIMS} or | {EXTENSIONS}; got {what!r}")
    if not among:
        return str(sum(one.status == what for one in statements))
    return str(sum(verdict.status == what and claim.extension == (among == EXTENSIONS) for claim, verdict in judged))


_SAYERS: dict[str, tuple[Callable[..., str], int, int]] = {
    "claim": (lambda results, study, claim: verdict_text(_verdict(results, study, claim)), 2, 2),
    "verdict": (lambda results, study, claim: _verdict(results, study, claim).status, 2, 2),
    "statements": (lambda results: statements_text(paper_statements(results)), 0, 0),
    "fixed": (fixed_text, 0, 0),
    "spread": (lambda results, study, claim: _say_spread(_verdict(results, study, claim)), 2, 2),
    "claims": (lambda results, study: claims_text(_study(results, study)), 1, 1),
    "value": (_say_value, 2, 3),
    "summary": (lambda results, study, name: summary_text(*_summary(results, study, name)), 2, 2),
    "fit": (_say_fit, 2, 2),
    "chart": (_say_chart, 2, 2),
    "trials": (lambda results, study: f"{_study(results, study).n_trials:,}", 1, 1),
    "searches": (_say_searches, 1, 1),
    "count": (_say_count, 1, 2),
    "open": (lambda _: "{", 0, 0),
    "close": (lambda _: "}", 0, 0),
}
"""The function for each kind of placeholder, and its least and greatest number of names."""
