"""First screen of a study's page: the answer in one sentence, a badge for each verdict, and the contents.

Everything is plain text; the page's template adds the markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from factrank.experiments.columns import short_label
from factrank.experiments.statistics import Claim, Value, Verdict, Where
from factrank.experiments.study import MISSING, StudyResults
from factrank.report.plain_output import many
from factrank.report.study.chart_panels import cell_text
from factrank.report.study.study_findings import published_text

SYMBOLS = {
    "reproduced": ("yes", "✓"),
    "not reproduced": ("no", "✗"),
    "undecided": ("open", "?"),
    "by construction": ("measured", "○"),
    "measured": ("measured", "○"),
    "not comparable": ("open", "–"),
}
"""Kind and symbol of each verdict."""

DIRECTIONS = {"greater": "greater than 0", "less": "less than 0", "flat": "flat", "not rising": "does not rise"}
MOST_CHOICES = 12


class Badge(NamedTuple):
    """A verdict and how many claims have it; `kind` is its colour."""

    kind: str
    text: str


def badges(found: StudyResults) -> list[Badge]:
    """Return a badge for each verdict that a claim has, our extensions included."""
    counts: Counter[str] = Counter(verdict.status for _, verdict in found.judged)
    return [
        Badge(kind, f"{symbol} {counts[status]:,} {status}")
        for status, (kind, symbol) in SYMBOLS.items()
        if counts[status]
    ]


def answer(found: StudyResults) -> str:
    """Return one sentence: the first published claim with its verdict, and how many of the others hold.

    A study without such a claim is answered by its first claim, or by how its trials ended.
    """
    n_run = found.n_trials - found.statuses[MISSING]
    if not n_run:
        return f"There is no answer yet: none of {many(found.n_trials, 'trial')} has run."
    counted = [(claim, verdict) for _, claim, verdict in found.counted]
    if not found.judged:
        return f"{n_run:,} of {many(found.n_trials, 'trial')} have run; the charts show what they give."
    decided = [pair for pair in counted if pair[1].value is not None]
    first = (decided or counted or found.judged)[0]
    others = _others([verdict for _, verdict in counted])
    return f"{_claim_text(*first)}{f'; {others}' if len(counted) > 1 else ''}."


def _claim_text(claim: Claim, verdict: Verdict) -> str:
    """Return a claim with its verdict and our number: "Recall rises: reproduced (ours: 0.2; published: rises)"."""
    sentence = claim.statement.strip().removesuffix(".")
    if verdict.value is None:
        return f"{sentence}: {verdict.status}" + (f", because {verdict.why}" if verdict.why else "")
    ends = " to ".join(map(_number, verdict.interval or ()))
    interval = f", 95 % interval {ends}" if ends else ""
    published = "" if claim.published is None else f"; published: {published_text(claim, DIRECTIONS)}"
    mark = "" if sentence.endswith("?") else ":"
    return f"{sentence}{mark} {verdict.status} (ours: {_number(verdict.value)}{interval}{published})"


def _others(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims have each verdict: "of 9 published claims 7 are reproduced and 2 are undecided"."""
    counts: Counter[str] = Counter(verdict.status for verdict in verdicts)
    if len(counts) == 1:
        return f"all {many(len(verdicts), 'published claim')} are {verdicts[0].status}"
    told = [(counts[status], status) for status in SYMBOLS if counts[status]]
    parts = [f"{count:,} {'is' if count == 1 else 'are'} {status}" for count, status in told]
    return f"of {many(len(verdicts), 'published claim')} {_joined(parts, 'and')}"


def conditions(where: Where) -> str:
    """Return a selection of rows in words; empty if it selects all.

    >>> conditions((("model.d_model", 8), ("data.n_keys", 20), ("model.n_heads", 1), ("model.d_vo", (2, 4))))
    'd_model 8, 20 keys, 1 head and d_vo 2 or 4'
    """
    return _joined([_condition(column, wanted) for column, wanted in where], "and")


def _condition(column: str, wanted: Value | tuple[Value, ...]) -> str:
    name, choices = short_label(column), _choices(wanted)
    if re.fullmatch(r"\w+\.n_\w+", column):
        return f"{choices} {name.removesuffix('s') if choices == '1' else name}"
    return f"{name} {choices}" if re.fullmatch(r"[\w.]+", column) else f"{name} = {choices}"


def claim_conditions(claim: Claim) -> str:
    """Return in words which rows a claim uses and what it subtracts; empty if it uses all."""
    own = conditions(claim.quantity.where)
    minus = conditions(claim.quantity.minus.where) if claim.quantity.minus is not None else ""
    parts = [f"For {own}." if own else "", f"Compared with {minus}." if minus else ""]
    return " ".join(filter(None, parts))


def _choices(wanted: Value | tuple[Value, ...]) -> str:
    texts = [_value(one) for one in (wanted if isinstance(wanted, tuple) else (wanted,))]
    if len(texts) > MOST_CHOICES:
        return f"one of {len(texts):,} values from {texts[0]} to {texts[-1]}"
    return _joined(texts, "or") or "nothing"


def _joined(texts: Sequence[str], last: str) -> str:
    """Return texts with commas, and a word before the last one."""
    return f" {last} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def _value(value: Value) -> str:
    names: Mapping[object, str] = {None: "missing", True: "true", False: "false"}
    return names[value] if value is None or isinstance(value, bool) else cell_text(value)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
