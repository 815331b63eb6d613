"""The results of a study: everything that a terminal, a page or a lab report shows, computed once.

Renderers read a `StudyResults` and compute nothing. Its parts are computed when they are first asked for and kept, so
that a run without a report draws up no summaries, and one with a report judges no claim twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from factrank.experiments.statistics import (
    SOUND,
    Claim,
    Fit,
    FitResult,
    Summary,
    Verdict,
    evaluate,
    fit_result,
    summary_table,
)
from factrank.experiments.store import Tables
from factrank.experiments.study.chart_records import Records, chart_records
from factrank.experiments.study.study import Chart, Size, Study
from factrank.experiments.study.summary_records import summary_records
from factrank.experiments.study.trials_of_study import MISSING, study_tables


@dataclass(frozen=True, eq=False)
class StudyResults:
    """What was found in a study of one size.

    Arguments:
        tables: the tables of this study alone: a row for each of its trials, also for those that were never run
            (`trials_of_study.study_tables`).
    """

    study: Study
    size: Size
    tables: Tables

    @cached_property
    def judged(self) -> list[tuple[Claim, Verdict]]:
        """Each claim with our verdict."""
        own = self.tables
        return [(claim, evaluate(claim, own.rows(claim.data), own.beside(claim.data))) for claim in self.study.claims]

    @cached_property
    def summaries(self) -> list[tuple[Summary, pa.Table]]:
        """Each summary with its table."""
        own = self.tables
        return [
            (summary, summary_table(summary, own.rows(summary.data), own.beside(summary.data)))
            for summary in self.study.summaries
        ]

    @cached_property
    def fits(self) -> list[tuple[Fit, FitResult]]:
        """Each fit with its result, from the summaries."""
        by_name = {summary.name: table for summary, table in self.summaries}
        return [(fit, fit_result(fit, by_name[fit.summary])) for fit in self.study.fits]

    @cached_property
    def charts(self) -> list[tuple[Chart, Records]]:
        """Each chart with the records that it draws."""
        return [(chart, chart_records(chart, self.tables)) for chart in self.study.charts]

    @cached_property
    def summary_charts(self) -> list[tuple[Summary, Records]]:
        """Each summary with the records that its picture draws."""
        return [(summary, summary_records(summary, table)) for summary, table in self.summaries]

    @property
    def drawn(self) -> list[tuple[Chart | Summary, Records]]:
        """The charts and summaries that have something to show, with what they show."""
        parts: list[tuple[Chart | Summary, Records]] = [*self.charts, *self.summary_charts]
        return [(part, records) for part, records in parts if records.rows]

    @cached_property
    def statuses(self) -> Counter[str]:
        """How many trials ended so, in order of appearance; "missing" are those that were never run."""
        return Counter(_texts(self.tables.trials, "status"))

    @cached_property
    def search_statuses(self) -> Counter[str]:
        """The same of searches; empty if there are none."""
        return Counter(_texts(self.tables.searches, "status"))

    @property
    def n_trials(self) -> int:
        """The number of its trials."""
        return self.statuses.total()

    @property
    def n_missing(self) -> int:
        """How many of its trials were never run."""
        return self.statuses[MISSING]

    @property
    def errors(self) -> list[str]:
        """The text of the error of each trial that failed."""
        trials = self.tables.trials
        cells = zip(_texts(trials, "error"), _texts(trials, "status"), strict=True)
        return [error for error, status in cells if status == "failed"]

    @property
    def n_searches(self) -> int:
        """The number of its searches."""
        return self.search_statuses.total()

    @property
    def n_unfinished(self) -> int:
        """How many of its searches have not both ends."""
        return sum(count for status, count in self.search_statuses.items() if status not in SOUND)

    @property
    def is_refuted(self) -> bool:
        """Whether a published claim is not reproduced."""
        return any(verdict.status == "not reproduced" and not claim.extension for claim, verdict in self.judged)


Results = Mapping[str, StudyResults]
"""The results of a paper's studies by their names."""


def results_of(study: Study, size: Size, tables: Tables) -> StudyResults:
    """The results of a study in one size, from tables that may hold other trials as well."""
    return StudyResults(study, size, study_tables(study, size, tables))


def _texts(table: pa.Table, name: str) -> list[str]:
    """The cells of a column as texts, empty where there is none."""
    cells = table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows
    return ["" if cell is None else str(cell) for cell in cells]
