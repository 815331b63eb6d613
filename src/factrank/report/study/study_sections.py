"""Texts of a study's report: tally, verdicts, fits, searches, settings, the run and its failures.

Everything is plain text; the page's template adds the markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from factrank.experiments.columns import label
from factrank.experiments.statistics import SOUND, Claim, Fit, FitResult, Value
from factrank.experiments.store import TRIAL_GROUPS
from factrank.experiments.study import StudyResults
from factrank.report.plain_output import many
from factrank.report.study.page_opening import DIRECTIONS, SYMBOLS, claim_conditions
from factrank.report.study.study_findings import is_exploratory, published_text, spread_text

KINDS = {"finished": "yes", "stopped": "yes", "failed": "no", "diverged": "no"}
OURS = "our extension (not in the paper)"
EXPLORATORY = "exploratory (written or changed after the run; not counted)"
MOST_VALUES = 20


def tally(found: StudyResults) -> list[tuple[str, str]]:
    """Return (kind, text) pairs that count trials and searches by status."""
    items = [("", many(found.n_trials, "trial"))]
    items += [(KINDS.get(status, "open"), f"{count:,} {status}") for status, count in found.statuses.items()]
    items += [("", many(found.n_searches, "search"))] if found.n_searches else []
    return items + [
        (KINDS.get(status, "open"), f"{many(count, 'search')} {status}")
        for status, count in found.search_statuses.items()
        if status not in SOUND
    ]


class ClaimRow(NamedTuple):
    """A claim: the published value, ours, and the verdict."""

    statement: str
    about: str
    conditions: str
    note: str
    published: str
    ours: str
    interval: str
    seeds: str
    kind: str
    badge: str
    why: str
    detectable: str
    spread: str


def claim_rows(found: StudyResults) -> list[ClaimRow]:
    """Return a row for each claim."""
    return [
        ClaimRow(
            statement=claim.statement,
            about=", ".join(filter(None, _about(claim, found))),
            conditions=claim_conditions(claim),
            note=claim.note,
            published=published_text(claim, DIRECTIONS),
            ours=_number(verdict.value),
            interval="–" if verdict.interval is None else _ends(verdict.interval),
            seeds=str(verdict.n_seeds or "–"),
            kind=SYMBOLS[verdict.status][0],
            badge=f"{SYMBOLS[verdict.status][1]} {verdict.status}",
            why=verdict.why,
            detectable=_number(verdict.detectable),
            spread=spread_text(verdict),
        )
        for claim, verdict in found.judged
    ]


def _about(claim: Claim, found: StudyResults) -> list[str]:
    quote = claim.quote and f"“{claim.quote}”"
    return [quote, claim.place, OURS * claim.extension, EXPLORATORY * is_exploratory(claim, found)]


class FitRow(NamedTuple):
    """A fit as a formula, with its errors, the errors of the mean alone, and the number of settings."""

    title: str
    formula: str
    intervals: str
    why: str
    numbers: list[str]


def fit_rows(fits: Sequence[tuple[Fit, FitResult]]) -> list[FitRow]:
    """Return a row for each fit."""
    rows = []
    for fit, result in fits:
        errors = (result.error, result.left_out, result.constant_error, result.constant_left_out, result.r_squared)
        without = f" ({result.n_without:,} without a value)" if result.n_without else ""
        ends = ", ".join(map(_ends, result.intervals or ()))
        intervals = f"95 % over settings: {ends}" if ends else ""
        numbers = [*map(_number, errors), f"{result.n_settings:,}{without}"]
        rows.append(FitRow(fit.title, result.formula, intervals, result.why, numbers))
    return rows


def searches_text(found: StudyResults) -> str:
    """Describe how the searches ended; empty if there are none."""
    searches = found.tables.searches
    if not searches.num_rows:
        return ""
    if "probes" not in searches.column_names:
        return (
            f"{many(searches.num_rows, 'search')} for settings. Each compares settings on trials that are not counted, "
            "and then requests the trials that are."
        )
    probes = [number for number in _column(searches, "probes") if isinstance(number, int)]
    uneven = sum(value is False for value in _column(searches, "monotone"))
    said = (
        f"{many(searches.num_rows, 'search')} over sizes. Each requests trials round by round until the largest size "
        "that meets its criterion and the smallest tested size above it, which does not, are close; both were run."
    )
    said += f" {min(probes)} to {max(probes)} sizes were run for each." if probes else ""
    return said + (f" In {many(uneven, 'search')} a size met the criterion above one that did not." if uneven else "")


def unanswered(searches: pa.Table) -> list[str]:
    """Return the searches without an answer, grouped by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for status, why, name in zip(*(_texts(searches, name) for name in ("status", "why", "search")), strict=True):
        if status not in SOUND:
            reasons.setdefault((status, why), []).append(name)
    return [
        f"{many(len(names), 'search')}, first {names[0]}: {status}: {why}" for (status, why), names in reasons.items()
    ]


def setting_rows(trials: pa.Table) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Return the settings that vary and those that are the same in all trials, each as (label, values, column)."""
    varied: list[tuple[str, str, str]] = []
    fixed: list[tuple[str, str, str]] = []
    for name in trials.column_names:
        if name.startswith(TRIAL_GROUPS):
            found = list(dict.fromkeys(trials.column(name).to_pylist()))
            (varied if len(found) > 1 else fixed).append((label(name), _values_text(found), name))
    return varied, fixed


def run_rows(trials: pa.Table) -> list[tuple[str, str]]:
    """Return the engines, devices, versions and times of the trials."""
    rows = []
    for name, title in (("engine", "Engine"), ("device", "Device")):
        counts = Counter(filter(None, _texts(trials, name)))
        if counts:
            rows.append((title, ", ".join(f"{found} ({many(count, 'trial')})" for found, count in counts.items())))
    for name in ("factrank", "jax", "numba", "python"):
        versions = sorted(set(filter(None, _texts(trials, name))))
        if versions:
            rows.append((f"Version of {name}", ", ".join(versions)))
    seconds = [value for value in _column(trials, "seconds") if isinstance(value, int | float)]
    if seconds:
        rows.append(("Time", f"{sum(seconds):,.1f} s in all, {sum(seconds) / len(seconds):.3g} s per trial"))
    return rows


class FailureRow(NamedTuple):
    """Trials that failed with the same error; `first` is the beginning of the first one's hash."""

    n_trials: str
    status: str
    first: str
    error: str


def failure_rows(trials: pa.Table) -> list[FailureRow]:
    """Return the trials that failed or diverged, grouped by error."""
    failed: dict[tuple[str, str], list[str]] = {}
    for status, found, error in zip(*(_texts(trials, name) for name in ("status", "hash", "error")), strict=True):
        if status in ("failed", "diverged"):
            failed.setdefault((status, error), []).append(found)
    return [FailureRow(f"{len(found):,}", status, found[0][:12], error) for (status, error), found in failed.items()]


# ---------------------------------------------------------------- cells


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


def _ends(interval: tuple[float, float]) -> str:
    return " to ".join(map(_number, interval))


def _column(trials: pa.Table, name: str) -> list[Value]:
    found: list[Value] = trials.column(name).to_pylist() if name in trials.column_names else [None] * trials.num_rows
    return found


def _texts(trials: pa.Table, name: str) -> list[str]:
    return ["" if value is None else str(value) for value in _column(trials, name)]


def _values_text(found: Sequence[Value]) -> str:
    numeric = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numeric) == len(found):
        ordered = sorted(numeric)
        if len(ordered) > 2 and ordered == list(range(int(ordered[0]), int(ordered[0]) + len(ordered))):
            return f"{ordered[0]} to {ordered[-1]}"
        if len(ordered) > MOST_VALUES:
            return f"{len(ordered):,} values from {ordered[0]:g} to {ordered[-1]:g}"
        return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in ordered)
    texts = ["none" if value is None else str(value) for value in found]
    more = len(texts) - MOST_VALUES
    return ", ".join(texts[:MOST_VALUES]) + (f" and {more:,} more" if more > 0 else "")
