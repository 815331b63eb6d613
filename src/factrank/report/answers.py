"""One answer of a layer, with everything that can be said about it."""

from __future__ import annotations

from math import isfinite

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.families.attention.circuits import Answer
from factrank.foreign_text import shown_name
from factrank.report.plain_output import contribution, name_text, number, probability
from factrank.report.terminal_tables import PlainTable, plain_table

MOST_PATHS = 20


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


def _values(answer: Answer) -> PlainTable:
    table = plain_table(("value", "name"), ("probability", "number"), ("", "word"))
    for value, share in answer.top:
        table.add_row(name_text(value), probability(share), "fact" if value in answer.facts else "")
    return table


def _paths(answer: Answer) -> RenderableType:
    """The contributions; in order, or the largest where there are too many."""
    paths = [("direct", answer.direct or 0.0), *((f"head {at}", lead) for at, lead in enumerate(answer.heads or ()))]
    shown = paths if len(paths) <= MOST_PATHS else sorted(paths, key=lambda path: -abs(path[1]))[:MOST_PATHS]
    table = plain_table(("path", "word"), ("adds to the margin", "number"))
    for name, lead in shown:
        table.add_row(name, contribution(lead))
    if len(shown) == len(paths):
        return table
    return Group(table, Text(f"... the {MOST_PATHS} largest of {len(paths):,} paths; --json has all"))
