"""One answer of a layer, with everything that can be said about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from factrank.models import Verdict
from factrank.report.plain import name_text, number, probability, shown_name

MOST_PATHS = 20


@dataclass(frozen=True)
class Answer:
    """What a layer answers to one (key, query), and what the database it was trained on says.

    Arguments:
        key, query: the question.
        answer: the value with the largest logit.
        probability: its probability under softmax.
        margin: its logit minus the largest other; infinite where the layer knows one value only.
        competitor: the value with the largest other logit.
        tau: the probability from which an answer is confident.
        verdict: a fact, an error or an artifact; a tie between a fact and another value is an error.
        facts: the values that the database has there.
        top: the most probable values with their probabilities.
        direct: what the direct path contributes to the margin; None where the model has no such parts.
        heads: what each head contributes.
    """

    key: str
    query: str
    answer: str
    probability: float
    margin: float
    competitor: str | None
    tau: float
    verdict: Verdict
    facts: tuple[str, ...]
    top: tuple[tuple[str, float], ...]
    direct: float | None
    heads: tuple[float, ...] | None

    @property
    def confident(self) -> bool:
        """Whether the probability reaches tau."""
        return self.probability >= self.tau

    @property
    def tie(self) -> bool:
        """Whether another value has the same logit."""
        return self.margin == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = asdict(self)
        top = [{"value": value, "probability": share} for value, share in self.top]
        contributions = None if self.heads is None else {"direct": self.direct, "heads": list(self.heads)}
        rest = {name: item for name, item in plain.items() if name not in ("top", "direct", "heads")}
        return {**rest, "confident": self.confident, "top": top, "contributions": contributions}


def answer_tables(answer: Answer) -> RenderableType:
    """The answer, the verdict, the most probable values, and what each path contributes to the margin."""
    question = Text(f"({shown_name(answer.key)}, {shown_name(answer.query)}) -> ", style="bold")
    lead = f"probability {probability(answer.probability)}"
    if answer.competitor is not None:
        lead += f", margin {number(answer.margin)} over {shown_name(answer.competitor)}"
    parts: list[RenderableType] = [
        question + name_text(answer.answer, longest=None, style="bold"),
        Text(verdict_in_words(answer), style="green" if answer.verdict == "fact" else "yellow"),
        Text(lead),
        Text(),
        _values(answer),
    ]
    if answer.heads is not None and isfinite(answer.margin):
        parts += [Text(), _paths(answer)]
    return Group(*parts)


def verdict_in_words(answer: Answer) -> str:
    """A fact, an error and what the fact is, or an artifact and whether it is a confident one."""
    sure = f"probability {'>=' if answer.confident else '<'} {answer.tau:g}"
    if answer.verdict == "fact":
        others = [shown_name(value) for value in answer.facts if value != answer.answer]
        return f"a fact{f'; so is {_listed(others)}' if others else ''}"
    if answer.verdict == "error":
        tie = f"a tie with {shown_name(answer.competitor)}; " if answer.tie and answer.competitor is not None else ""
        names = [shown_name(value) for value in answer.facts]
        return f"an error: {tie}the fact{'s are' if len(names) > 1 else ' is'} {_listed(names)}"
    if answer.confident:
        return f"an artifact: the database says nothing here, yet the layer is confident ({sure})"
    return f"no fact to recall: the database says nothing here, and the layer is not confident ({sure})"


def _listed(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _values(answer: Answer) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("value", "probability", ""):
        table.add_column(name, justify="right" if name == "probability" else "left", header_style="bold")
    for value, share in answer.top:
        table.add_row(name_text(value), probability(share), "fact" if value in answer.facts else "")
    return table


def _paths(answer: Answer) -> RenderableType:
    """The contributions; in order, or the largest where there are too many."""
    paths = [("direct", answer.direct or 0.0), *((f"head {at}", lead) for at, lead in enumerate(answer.heads or ()))]
    shown = paths if len(paths) <= MOST_PATHS else sorted(paths, key=lambda path: -abs(path[1]))[:MOST_PATHS]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("path", header_style="bold")
    table.add_column("adds to the margin", justify="right", header_style="bold")
    for name, lead in shown:
        table.add_row(name, f"{lead:+.2f}")
    if len(shown) == len(paths):
        return table
    return Group(table, Text(f"... the {MOST_PATHS} largest of {len(paths):,} paths; --json has all"))
