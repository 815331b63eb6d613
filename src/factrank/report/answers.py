"""Description of one answer of a layer."""

from __future__ import annotations

from math import isfinite

from factrank.families.attention.circuits import Answer
from factrank.foreign_text import shown_name
from factrank.report.display import Description, PlainTable, Words, described, plain_table
from factrank.report.plain_output import contribution, listed, number, probability

MOST_PATHS = 20


def answer_tables(answer: Answer) -> Description:
    """Describe the answer, the verdict, the most probable values, and each path's contribution to the margin."""
    question = f"({shown_name(answer.key)}, {shown_name(answer.query)}) -> {shown_name(answer.answer, None)}"
    lead = f"probability {probability(answer.probability)}"
    if answer.competitor is not None:
        lead += f", margin {number(answer.margin)} over {shown_name(answer.competitor)}"
    parts: list[Words | PlainTable] = [
        Words(question, "title"),
        Words(verdict_in_words(answer), "good" if answer.verdict in {"fact", "abstention"} else "unsure"),
        Words(lead),
        Words(),
        _values(answer),
    ]
    if answer.heads is not None and isfinite(answer.margin):
        parts += [Words(), *_paths(answer)]
    return described(*parts)


def verdict_in_words(answer: Answer) -> str:
    """Return the verdict in words: a fact, an error with the right value, or an answer to a pair without a fact."""
    sure = f"probability {'>=' if answer.confident else '<'} {answer.tau:g}"
    if answer.verdict == "fact":
        others = [value for value in answer.facts if value != answer.answer]
        return f"a fact{f'; so is {listed(others)}' if others else ''}"
    if answer.verdict == "error":
        tie = f"a tie with {shown_name(answer.competitor)}; " if answer.tie and answer.competitor is not None else ""
        return f"an error: {tie}the fact{'s are' if len(answer.facts) > 1 else ' is'} {listed(answer.facts)}"
    if answer.verdict == "abstention":
        return f"the layer abstains: the database has no fact here ({sure})"
    if answer.confident:
        return f"a hallucination: the database has no fact here, yet the layer is confident ({sure})"
    return f"no fact to recall: the database has no fact here, and the layer is not confident ({sure})"


def _values(answer: Answer) -> PlainTable:
    table = plain_table(("value", "name"), ("probability", "number"), ("", "word"))
    for value, chance in answer.top:
        table.add_row(shown_name(value), probability(chance), "fact" if value in answer.facts else "")
    return table


def _paths(answer: Answer) -> list[Words | PlainTable]:
    """Describe the contributions in order, or only the largest if there are many."""
    paths = [("direct", answer.direct or 0.0), *((f"head {at}", lead) for at, lead in enumerate(answer.heads or ()))]
    shown = paths if len(paths) <= MOST_PATHS else sorted(paths, key=lambda path: -abs(path[1]))[:MOST_PATHS]
    table = plain_table(("path", "word"), ("adds to the margin", "number"))
    for name, lead in shown:
        table.add_row(name, contribution(lead))
    if len(shown) == len(paths):
        return [table]
    return [table, Words(f"... the {MOST_PATHS} largest of {len(paths):,} paths", option="; --json has all")]
