"""Descriptions of results: recall, answers, diagnoses, attributions, plans, studies and searches."""

from __future__ import annotations

import numpy as np

from factrank.bridges import Examination
from factrank.experiments.capacity import CapacityInterval
from factrank.experiments.execution import RunSummary
from factrank.experiments.study import StudyResults
from factrank.families.attention.circuits import Answer, Attribution, Diagnosis
from factrank.foreign_text import shown_name
from factrank.planning import Plan
from factrank.readouts import RankingReport, RecallReport, percent
from factrank.report.answers import answer_tables
from factrank.report.display.description import MOST_ROWS, Description, Words, described, plain_table
from factrank.report.plain_output import contribution, fact_text, many, number
from factrank.report.planned_tables import plan_tables
from factrank.report.recalls import diagnosis_words, examination_tables, ranking_tables, recall_numbers
from factrank.report.study import claims_table

SHOWN_FACTS, SHOWN_HEADS = 8, 6


def describe_recall(found: RecallReport) -> Description:
    """Describe the recall of a layer overall, by query and by head."""
    return described(Words(f"Recall of {found.n_facts:,} facts", "title"), recall_numbers(found))


def describe_ranking(found: RankingReport) -> Description:
    """Describe the ranks of held-out facts, overall and by query."""
    return described(Words(f"Ranks of {len(found.facts):,} held-out facts", "title"), ranking_tables(found))


def describe_examination(found: Examination) -> Description:
    """Describe everything that an examination found: recall, diagnosis, rank and certificate."""
    model, n_facts = type(found.model).__name__, found.database.n_facts
    title = f"{model} of {found.parameters:,} parameters on {n_facts:,} facts"
    return described(Words(title, "title"), examination_tables(found))


def describe_answer(answer: Answer) -> Description:
    """Describe an answer: the verdict, the most probable values, and the contribution of each path."""
    return answer_tables(answer)


def describe_diagnosis(diagnosis: Diagnosis) -> Description:
    """Describe what keeps a layer from recalling more, and its recall."""
    return described(Words("Diagnosis", "title"), diagnosis_words(diagnosis), recall_numbers(diagnosis.recall))


def describe_attribution(found: Attribution) -> Description:
    """Describe the paths of a layer: the facts that each gets right alone, and the facts with the least margin."""
    alone = plain_table(("path", "word"), ("right alone", "number"), ("mean contribution", "number"))
    parts = np.column_stack([found.direct, found.heads])
    for path, right, column in list(zip(found.paths, found.right_alone.T, parts.T, strict=True))[:MOST_ROWS]:
        usual = column[np.isfinite(column)]
        alone.add_row(path, percent(float(right.mean())) if len(right) else "-", _mean(usual))
    weakest = plain_table(("weakest facts", "name"), ("margin", "number"), *((path, "number") for path in _few(found)))
    for row in np.argsort(found.margins, kind="stable")[:SHOWN_FACTS].tolist():
        numbers = (contribution(value) for value in parts[row, : SHOWN_HEADS + 1].tolist())
        weakest.add_row(fact_text(found.database, row, 20), number(float(found.margins[row])), *numbers)
    words = f"{percent(found.additive_share)} of the facts are right only in the sum of all paths"
    title = f"Contributions of {len(found.paths):,} paths to {len(found.margins):,} facts"
    return described(Words(title, "title"), Words(words), alone, weakest)


def _few(found: Attribution) -> tuple[str, ...]:
    return found.paths[: SHOWN_HEADS + 1]


def _mean(column: np.ndarray) -> str:
    return contribution(float(column.mean())) if len(column) else "-"


def describe_plan(plan: Plan) -> Description:
    """Describe a plan: what is proved, trained and excluded."""
    return plan_tables("Plan", plan)


def describe_study(found: StudyResults) -> Description:
    """Describe the results of a study: its trials by status, and the verdict on each claim."""
    counts = ", ".join(f"{count:,} {status}" for status, count in found.statuses.items())
    trials = f"{many(found.n_trials, 'trial')}{f': {counts}' if counts else ''}"
    claims = [claims_table(found)] if found.study.claims else []
    title = f"{shown_name(found.study.title, None)} ({found.size})"
    return described(Words(title, "title"), Words(trials), *claims)


def describe_run(summary: RunSummary) -> Description:
    """Describe a run of a study, and how to continue it."""
    ended = f"{summary.n_ended:,} of {many(summary.n_trials, 'trial')} ended now, {summary.n_before:,} before"
    failed = [Words(f"{many(summary.n_failed, 'trial')} failed", "bad")] if summary.n_failed else []
    left = f"interrupted with {summary.n_left:,} left: the same call resumes"
    more = [Words(left, "unsure")] if summary.interrupted else []
    return described(Words("Run of a study", "title"), Words(f"{ended}, in {summary.seconds:,.1f} s"), *failed, *more)


def describe_capacity(found: CapacityInterval) -> Description:
    """Describe a capacity: its interval, and the sizes that were run."""
    table = plain_table(("size", "number"), (str(found.criterion), "word"))
    for probe in found.probes[:MOST_ROWS]:
        table.add_row(f"{probe.size:,}", "met" if probe.met else "not met")
    return described(Words("Capacity", "title"), Words(str(found)), table)
