"""Terminal output for studies: the catalogue, a study, the plan of a run, the verdicts on claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.experiments.execution import DryRun
from factrank.experiments.specs import Trial
from factrank.experiments.store import trial_columns
from factrank.experiments.study import Size, Study, StudyResults, rounds_of
from factrank.foreign_text import shown_name
from factrank.report.display import Description, Tone, Words, described, plain_table
from factrank.report.plain_output import many
from factrank.report.study.study_findings import EXPLORATORY, EXTENSION, claim_marks

TONES: dict[str, Tone] = {
    "reproduced": "good",
    "not reproduced": "bad",
    "undecided": "unsure",
    "measured": "note",
    "by construction": "note",
    "not comparable": "plain",
}
LONGEST_ERROR, SHOWN_ERRORS, SHOWN_VALUES = 200, 3, 12


def catalogue_table(studies: Mapping[str, Study]) -> RenderableType:
    """Render the catalogue, one row per study."""
    table = plain_table(("name", "word"), ("quick", "number"), ("full", "number"), ("title", "text"))
    sizes: tuple[Size, ...] = ("quick", "full")
    for name, study in studies.items():
        table.add_row(name, *(_count(study, size) for size in sizes), _safe(study.title))
    return table


def _count(study: Study, size: Size) -> str:
    n_listed, n_searches = len(study.trials(size)), len(study.searches_of(size))
    searches = [many(n_searches, "search")] if n_searches else []
    return " + ".join([*([f"{n_listed:,}"] if n_listed or not searches else []), *searches])


def study_lines(study: Study, how: str) -> RenderableType:
    """Render a study: its question, its trials and claims, and the command that runs it."""
    source = study.source
    places = [source.paper, source.figure, source.link] if source else []
    sizes: tuple[Size, ...] = ("quick", "full")
    lines: list[RenderableType] = [Text(_safe(study.title), style="bold")]
    lines += [Text(_safe(text)) for text in (", ".join(filter(None, places)), study.question, study.method) if text]
    for size in sizes:
        trials, n_searches = first_trials(study, size), len(study.searches_of(size))
        searches = f", including the first round of {n_searches:,} searches" if n_searches else ""
        lines.append(Text(f"\n{size}: {len(trials):,} trials{searches}"))
        for name, values in varying(trials).items():
            shown = ", ".join(_safe(str(value)) for value in values[:SHOWN_VALUES])
            more = f", ... ({len(values):,} values)" if len(values) > SHOWN_VALUES else ""
            lines.append(Text(f"  {_safe(name)}: {shown}{more}"))
    if study.claims:
        lines.append(Text("\nclaims"))
        lines += [Text(f"  {_safe(': '.join(filter(None, [one.place, one.statement])))}") for one in study.claims]
    lines.append(Text(f"\n{how}"))
    return Group(*lines)


MARKS = {
    EXTENSION: "* our extension (not in the paper)",
    EXPLORATORY: "† exploratory: written or changed after the run, and not counted",
}


def first_trials(study: Study, size: Size) -> list[Trial]:
    """The trials of a study, including the first round of its searches."""
    first = rounds_of(study.searches_of(size), {})[:1]
    return study.trials_of(size) + [trial for part in first for trial in part]


def claims_table(found: StudyResults) -> Description:
    """Describe each claim: the published value, ours with its 95 % interval over seeds, the verdict; reasons below."""
    table = plain_table(
        ("claim", "text"), ("published", "number"), ("ours", "number"), ("interval", "word"), ("verdict", "word")
    )
    for claim, verdict in found.judged:
        published = f"{claim.published:.3g}" if isinstance(claim.published, float) else str(claim.published or "none")
        ours = "" if verdict.value is None else f"{verdict.value:.3g}"
        interval = "" if verdict.interval is None else " to ".join(f"{end:.3g}" for end in verdict.interval)
        statement = " ".join([_safe(claim.statement), *claim_marks(claim, found)])
        table.add_row(statement, published, ours, interval, verdict.status, tone=TONES[verdict.status])
    return described(table, *map(Words, _remarks(found)))


def _remarks(found: StudyResults) -> list[str]:
    """Return the reasons for verdicts, each once with its claims."""
    names: dict[str, list[str]] = {}
    for claim, verdict in found.judged:
        if verdict.why:
            names.setdefault(_safe(verdict.why), []).append(_safe(claim.name))
    shared = [f"{why}: {', '.join(own) if len(own) <= 2 else f'{len(own)} claims'}" for why, own in names.items()]
    used = {mark for claim, _ in found.judged for mark in claim_marks(claim, found)}
    marks = [text for mark, text in MARKS.items() if mark in used]
    return ["", *marks, *shared] if marks or shared else []


def dry_run_lines(plan: DryRun) -> Text:
    """Render what a run would do."""
    failed = f", {plan.n_failed:,} failed" if plan.n_failed else ""
    text = f"{plan.n_trials:,} trials: {plan.n_finished:,} finished{failed}, {plan.n_to_run:,} to run"
    if plan.n_open:
        text += f"\n{plan.n_open:,} unfinished searches will request further trials, which are not counted here"
    if plan.seconds is not None:
        speed = "stored results" if plan.estimated_from == "store" else "a measurement"
        text += f"\nat most about {duration(plan.seconds)} on this machine (from {speed})"
    if plan.n_bytes:
        text += f"\nabout {_bytes(plan.n_bytes)} of memory for concurrent training"
    return Text(text)


def failures_text(found: StudyResults) -> str:
    """Return the number of failed trials and the most common errors; empty if none failed."""
    failed = found.errors
    if not failed:
        return ""
    kinds = sorted(set(failed), key=lambda error: (-failed.count(error), error))
    lines = [f"  {failed.count(kind):,} x {shown_name(kind, LONGEST_ERROR)}" for kind in kinds[:SHOWN_ERRORS]]
    more = [f"  and {len(kinds) - SHOWN_ERRORS:,} other errors"] if len(kinds) > SHOWN_ERRORS else []
    return "\n".join([f"{len(failed):,} trials failed:", *lines, *more])


def duration(seconds: float) -> str:
    """Format a duration, rounded for people.

    >>> duration(0.2), duration(75.0), duration(7300.0)
    ('1 s', '1 min 15 s', '2 h 1 min')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _bytes(n_bytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{max(1, round(n_bytes / 2**10)):,} KiB"


def varying(trials: Sequence[Trial]) -> dict[str, list[object]]:
    """The settings in which trials differ, with their values in order of appearance."""
    parts = ("data", "model", "training", "measures", "start", "seed")
    different = {place for part in parts for place in _first_places([getattr(trial, part) for trial in trials])}
    rows = [trial_columns(trials[place]) for place in sorted(different)]  # together they have every value
    names = dict.fromkeys(name for row in rows for name in row if name not in ("hash", "trial"))
    values = {name: list(dict.fromkeys(row.get(name) for row in rows)) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def _first_places(values: Sequence[object]) -> Iterable[int]:
    """Return the first position of each value."""
    return {value: place for place, value in reversed(list(enumerate(values)))}.values()


def _safe(text: str) -> str:
    """Return a text with control characters made visible, except line breaks."""
    return "\n".join(shown_name(line, None) for line in text.strip().splitlines())
