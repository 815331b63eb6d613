"""Results of a study: everything that a terminal, a page or a report shows, computed once.

Renderers read a `StudyResults` and compute nothing. Its parts are computed lazily and cached: a run without a report
computes no summaries, and claims are never evaluated twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from factrank.display import Drawn
from factrank.experiments.specs import Trial
from factrank.experiments.statistics import (
    SOUND,
    Claim,
    Fit,
    FitResult,
    Judged,
    Statement,
    Summary,
    Verdict,
    counts,
    evaluate,
    fit_result,
    fixed,
    statements_of,
    summary_table,
)
from factrank.experiments.store import Tables
from factrank.experiments.study.chart_records import Records, chart_records
from factrank.experiments.study.study import Chart, Size, Study
from factrank.experiments.study.summary_records import summary_records
from factrank.experiments.study.trials_of_study import MISSING, study_tables
from factrank.foreign_text import shown_name

COUNTED = ("before the run", "unknown")
"""When a claim that counts was fixed; tables from before version 0.2 have no record."""


@dataclass(frozen=True, eq=False)
class StudyResults(Drawn):
    """Results of a study in one size.

    Arguments:
        tables: Tables of this study, with a row for each of its trials, including trials that were never run
            (`trials_of_study.study_tables`).
        fixed: Hashes of the claims that were recorded before the run; None if there is no record.
    """

    study: Study
    size: Size
    tables: Tables
    fixed: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {status}" for status, count in self.statuses.items())
        trials = f"{self.n_trials:,} trials ({counts})"
        return f"StudyResults({shown_name(self.study.name)}, {self.size}: {trials}, {len(self.study.claims):,} claims)"

    @property
    def table(self) -> pa.Table:
        """One row per trial: settings, status and metrics."""
        return self.tables.trials

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table of trials to polars, pandas, DuckDB and other readers of Arrow streams."""
        return self.table.__arrow_c_stream__(requested_schema)

    @cached_property
    def judged(self) -> list[tuple[Claim, Verdict]]:
        """Claims with their verdicts."""
        own = self.tables
        return [(claim, evaluate(claim, own.rows(claim.data), own.beside(claim.data))) for claim in self.study.claims]

    @cached_property
    def counted(self) -> list[Judged]:
        """The published claims that could fail and were not written after the results, with the name of the study."""
        return [
            (self.study.name, claim, verdict)
            for claim, verdict in self.judged
            if counts(claim, verdict) and fixed(claim, self.fixed) in COUNTED
        ]

    @cached_property
    def summaries(self) -> list[tuple[Summary, pa.Table]]:
        """Summaries with their tables."""
        own = self.tables
        return [
            (summary, summary_table(summary, own.rows(summary.data), own.beside(summary.data)))
            for summary in self.study.summaries
        ]

    @cached_property
    def fits(self) -> list[tuple[Fit, FitResult]]:
        """Fits with their results, computed from the summaries."""
        by_name = {summary.name: table for summary, table in self.summaries}
        return [(fit, fit_result(fit, by_name[fit.summary])) for fit in self.study.fits]

    @cached_property
    def charts(self) -> list[tuple[Chart, Records]]:
        """Charts with their records."""
        return [(chart, chart_records(chart, self.tables)) for chart in self.study.charts]

    @cached_property
    def summary_charts(self) -> list[tuple[Summary, Records]]:
        """Summaries with the records of their charts."""
        return [(summary, summary_records(summary, table)) for summary, table in self.summaries]

    @property
    def drawn(self) -> list[tuple[Chart | Summary, Records]]:
        """Charts and summaries with at least one record, and their records."""
        parts: list[tuple[Chart | Summary, Records]] = [*self.charts, *self.summary_charts]
        return [(part, records) for part, records in parts if records.rows]

    @cached_property
    def statuses(self) -> Counter[str]:
        """Number of trials by status, in order of appearance; "missing" trials were never run."""
        return Counter(_texts(self.tables.trials, "status"))

    @cached_property
    def search_statuses(self) -> Counter[str]:
        """Number of searches by status."""
        return Counter(_texts(self.tables.searches, "status"))

    @property
    def n_trials(self) -> int:
        """Number of trials."""
        return self.statuses.total()

    @property
    def n_missing(self) -> int:
        """Number of trials that were never run."""
        return self.statuses[MISSING]

    @property
    def errors(self) -> list[str]:
        """Error messages of failed trials."""
        trials = self.tables.trials
        cells = zip(_texts(trials, "error"), _texts(trials, "status"), strict=True)
        return [error for error, status in cells if status == "failed"]

    @property
    def n_searches(self) -> int:
        """Number of searches."""
        return self.search_statuses.total()

    @property
    def n_unfinished(self) -> int:
        """Number of searches without a complete interval."""
        return sum(count for status, count in self.search_statuses.items() if status not in SOUND)

    @property
    def is_refuted(self) -> bool:
        """True if a published claim is not reproduced."""
        return any(verdict.status == "not reproduced" for *_, verdict in self.counted)


Results = Mapping[str, StudyResults]
"""Results of the studies of a paper, by name."""


def paper_statements(results: Results) -> list[Statement]:
    """Return the statements of a paper with their verdicts: one per published sentence."""
    return statements_of(judged for found in results.values() for judged in found.counted)


def results_of(
    study: Study,
    size: Size,
    tables: Tables,
    fixed_claims: Mapping[str, str] | None = None,
    trials: Sequence[Trial] | None = None,
) -> StudyResults:
    """Return the results of a study in one size, from tables that may contain other trials too.

    `fixed_claims` are the hashes of the claims that were recorded before the run (`Store.fixed_claims`), `trials` the
    trials of the study, if they are listed already (`asked_trials`).

    >>> import tempfile
    >>> from factrank import Claim, LayerShape, Quantity, Store, Study, Training, Trial, generated, train_many
    >>> facts, training = generated("unit", n=3), Training(epochs=20)
    >>> def trials(size):
    ...     return [Trial(facts, LayerShape(3, 1, 1, 2), training, seed=seed) for seed in (0, 1)]
    >>> claim = Claim("learns", "Recall is high.", Quantity("mean", "recall"), None)
    >>> study = Study("mine", "A study of mine", None, "Does it learn?", "Two seeds.", trials, claims=(claim,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.append(train_many(trials("quick")))
    ...     found = results_of(study, "quick", store.tables())
    >>> found.n_missing, len(found.tables.trials)
    (0, 2)
    """
    return StudyResults(study, size, study_tables(study, size, tables, trials), fixed_claims)


def _texts(table: pa.Table, name: str) -> list[str]:
    """Convert the cells of a column to strings; null becomes ""."""
    cells = table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows
    return ["" if cell is None else str(cell) for cell in cells]
