"""Lab reports: prose by hand, numbers by machine.

A text in Markdown has placeholders, and each is replaced by what the results of a paper's studies say:

    {{claim STUDY | CLAIM}}        our value and its interval: 0.0395 [0.036, 0.042]
    {{verdict STUDY | CLAIM}}      reproduced, not reproduced, measured or not comparable
    {{claims STUDY}}               a table of its claims
    {{value STUDY | SUMMARY | quantity=LABEL, COLUMN=VALUE, ...}}    one number of a summary, with its interval
    {{summary STUDY | SUMMARY}}    a summary as a table
    {{fit STUDY | FIT}}            the formula of a fit and its errors
    {{chart STUDY | NAME}}         the picture of a chart or of a summary
    {{trials STUDY}}               the number of its trials
    {{searches STUDY}}             the number of its searches, and how many of them have not both ends
    {{count WHAT}}                 of studies, trials, searches, claims (published ones), extensions, or a verdict
    {{count VERDICT | extensions}} the same among our own questions
    {{open}} {{close}}             a brace, where two would be taken for those of a placeholder

Whatever names something that is not there is an error that gives its line: a text cannot quote what was not found.
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
from factrank.experiments.study import Chart, Results, Study, StudyResults
from factrank.report.markdown import cell, steady, value_text
from factrank.report.study import claims_text, fit_text, summary_text, verdict_text

PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
BRACES, OPEN, CLOSE = re.compile(r"[{}]{2,}"), "{{open}}", "{{close}}"
EXTENSIONS = "extensions"

Thing = TypeVar("Thing")


def render(text: str, results: Results, name: str = "text.md") -> str:
    """The text with its placeholders replaced; `name` is what errors call it."""

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
            raise InputError(f"{name}, line {line}: {braces} without its other half")
    return PLACEHOLDER.sub(replaced, text)


def drawn_parts(study: Study) -> list[Chart | Summary]:
    """What a study has pictures of."""
    return [*study.charts, *study.summaries]


def picture_name(study: Study, part: str) -> str:
    """The file of a chart's or a summary's picture."""
    return f"charts/{study.name}-{part}.svg"


def pictures_named(text: str) -> set[str]:
    """The files of the pictures that a rendered text shows."""
    return set(re.findall(r"\]\((charts/[^)]+)\)", text))


def literal(text: str) -> str:
    """Prose for a text with placeholders, in which braces next to each other stand for themselves.

    >>> literal("f{x}, {{y}}")
    'f{x}, {{open}}{{open}}y{{close}}{{close}}'
    """
    single = {"{": OPEN, "}": CLOSE}
    return BRACES.sub(lambda found: "".join(single[brace] for brace in found[0]), plain_text(text))


def first_text(paper: str, results: Results, drawn: Iterable[str]) -> str:
    """A text to begin with: everything that was found, in the order of the studies; `drawn` are the pictures there."""
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
        beside = f" of {{{{searches {name}}}}} searches" if found.n_searches else ""
        lines += [f"{{{{trials {name}}}}} trials{beside} (`{name}`).", ""]
        lines += [f"{{{{claims {name}}}}}", ""] if study.claims else []
        for part in drawn_parts(study):
            lines += [f"{{{{chart {name} | {part.name}}}}}", ""] if picture_name(study, part.name) in pictures else []
            lines += [f"{{{{summary {name} | {part.name}}}}}", ""] if isinstance(part, Summary) else []
        lines += [line for fit in study.fits for line in (f"{literal(fit.title)}: {{{{fit {name} | {fit.name}}}}}", "")]
    return "\n".join(lines).rstrip() + "\n"


_TALLY = (
    "{{count studies}} studies, {{count trials}} trials. Of {{count claims}} claims {{count reproduced}} are "
    "reproduced, {{count not reproduced}} are not, {{count not comparable}} are not comparable, and beside "
    "{{count measured}} nothing was published; {{count extensions}} more questions are our own."
)


# ---------------------------------------------------------------- placeholders


def _said(placeholder: str, results: Results) -> str:
    """What a placeholder stands for."""
    kind, _, rest = " ".join(placeholder.split()).partition(" ")  # a line may end inside
    arguments = [argument.strip() for argument in rest.split("|")] if rest else []
    if kind not in _SAYERS:
        raise InputError(f"a placeholder begins with one of {', '.join(_SAYERS)}; got {kind!r}")
    sayer, least, most = _SAYERS[kind]
    if not least <= len(arguments) <= most or not all(arguments):
        counts = str(least) if least == most else f"{least} or {most}"
        raise InputError(f"{kind} takes {counts} names with | between them; got {len(arguments)}")
    return sayer(results, *arguments)


def _study(results: Results, name: str) -> StudyResults:
    return _named("study", name, results)


def _named(what: str, name: str, things: Mapping[str, Thing]) -> Thing:
    if name in things:
        return things[name]
    near = get_close_matches(name, things, n=1) or list(things)
    raise InputError(f"there is no {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else "there are none"))


def _verdict(results: Results, study: str, claim: str) -> Verdict:
    judged = _study(results, study).judged
    return _named("claim", claim, {one.name: verdict for one, verdict in judged})


def _say_claim(results: Results, study: str, claim: str) -> str:
    return verdict_text(_verdict(results, study, claim))


def _say_verdict(results: Results, study: str, claim: str) -> str:
    return _verdict(results, study, claim).status


def _say_claims(results: Results, study: str) -> str:
    return claims_text(_study(results, study))


def _summary(results: Results, study: str, name: str) -> tuple[Summary, pa.Table]:
    summaries = {summary.name: (summary, table) for summary, table in _study(results, study).summaries}
    return _named("summary", name, summaries)


def _say_summary(results: Results, study: str, name: str) -> str:
    return summary_text(*_summary(results, study, name))


def _say_value(results: Results, study: str, name: str, conditions: str = "") -> str:
    summary, table = _summary(results, study, name)
    wanted = _conditions(conditions, (QUANTITY, *summary.over))
    rows = [row for row in table.to_pylist() if all(_is(row[column], text) for column, text in wanted.items())]
    if len(rows) != 1:
        free = [column for column in (QUANTITY, *summary.over) if column not in wanted]
        hint = f"; say also {', '.join(free)}" if len(rows) > 1 and free else ""
        raise InputError(f"{len(rows)} rows of the summary are so, not one{hint}")
    (row,) = rows
    return f"no value ({row['why']})" if row["value"] is None else value_text(row["value"], row["low"], row["high"])


def _conditions(text: str, columns: Sequence[str]) -> dict[str, str]:
    """The values that columns are asked to have; a label may itself hold commas."""
    names = "|".join(re.escape(column) for column in sorted(columns, key=len, reverse=True))
    wanted = {}
    for part in re.split(rf",\s*(?=(?:{names})\s*=)", text) if text else ():
        found = re.fullmatch(rf"\s*({names})\s*=\s*(.*?)\s*", part, re.DOTALL)
        if not found or found[1] in wanted:
            raise InputError(f"{part.strip()!r} is not COLUMN=VALUE with one of {', '.join(columns)}, each once")
        wanted[found[1]] = found[2]
    return wanted


def _is(value: object, text: str) -> bool:
    """Whether a cell has the value that a text says."""
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


def _say_trials(results: Results, study: str) -> str:
    return f"{_study(results, study).n_trials:,}"


def _say_searches(results: Results, study: str) -> str:
    found = _study(results, study)
    without = f" ({found.n_unfinished:,} without both ends)" if found.n_unfinished else ""
    return f"{found.n_searches:,}{without}"


def _say_count(results: Results, what: str, among: str = "") -> str:
    judged = [pair for found in results.values() for pair in found.judged]
    plain = {
        "studies": len(results),
        "trials": sum(found.n_trials for found in results.values()),
        "searches": sum(found.n_searches for found in results.values()),
        "claims": sum(not claim.extension for claim, _ in judged),
        EXTENSIONS: sum(claim.extension for claim, _ in judged),
    }
    if what in plain and not among:
        return f"{plain[what]:,}"
    if what not in get_args(ClaimStatus) or among not in ("", EXTENSIONS):
        known = ", ".join((*plain, *get_args(ClaimStatus)))
        raise InputError(f"what is counted is one of {known}, verdicts also among {EXTENSIONS}")
    return str(sum(verdict.status == what and claim.extension == bool(among) for claim, verdict in judged))


_SAYERS: dict[str, tuple[Callable[..., str], int, int]] = {
    "claim": (_say_claim, 2, 2),
    "verdict": (_say_verdict, 2, 2),
    "claims": (_say_claims, 1, 1),
    "value": (_say_value, 2, 3),
    "summary": (_say_summary, 2, 2),
    "fit": (_say_fit, 2, 2),
    "chart": (_say_chart, 2, 2),
    "trials": (_say_trials, 1, 1),
    "searches": (_say_searches, 1, 1),
    "count": (_say_count, 1, 2),
    "open": (lambda _: "{", 0, 0),
    "close": (lambda _: "}", 0, 0),
}
"""What each kind says, and between which numbers of names it takes."""
