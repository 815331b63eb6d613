"""Study: a question, the trials that answer it, and how to present the answer, as plain data.

A study lists its trials in two sizes: `quick` for a first impression on two cores, `full` for publication. It may also
have searches, which request trials round by round (`searches`). Charts and claims refer to columns of the table of
results (`store.columns`); this module neither draws nor computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, get_args

from factrank.errors import FactrankError, InputError
from factrank.experiments.specs import Data, Given, Trial
from factrank.experiments.statistics import (
    Claim,
    Fit,
    ReferenceLine,
    Summary,
    Where,
    columns_in,
    frozen_lines,
    frozen_where,
    require_columns_of,
)
from factrank.experiments.store import DataName, require_data, trial_columns
from factrank.experiments.study.names import require_name
from factrank.experiments.study.searches import Rows, TrialSearch, require_searches, rounds_of

Size = Literal["quick", "full"]
ChartKind = Literal["lines", "points", "heatmap", "bars"]
ChartData = DataName

SETTINGS = ("data.", "model.", "training.")
"""Prefixes of the columns with settings of trials."""


@dataclass(frozen=True)
class Source:
    """Publication of a study: the paper, its figure or table, and a link."""

    paper: str
    figure: str = ""
    link: str = ""


@dataclass(frozen=True)
class Chart:
    """A chart as data: the columns that it shows, and how.

    Arithmetic on columns is accepted in place of a column (`factrank.experiments.statistics.expressions`). Lines, bars
    and heat maps show means over all rows that agree in the columns shown, typically over seeds; lines have a band from
    minimum to maximum. A panel has at most three lines; further ones get panels of their own.

    Arguments:
        where: Only show rows with these values, given as (column, value) pairs or a dictionary.
        data: Table to draw: one row per trial, per trial and recorded epoch or reading, or per search.
        references: Lines drawn for comparison, such as the diagonal or a published constant. On a heat map a line
            separates the cells above it from the others.
    """

    name: str
    title: str
    kind: ChartKind
    x: str
    y: str
    colour: str | None = None
    facet: str | None = None
    where: Where = ()
    log_x: bool = False
    log_y: bool = False
    x_title: str = ""
    y_title: str = ""
    data: ChartData = "trials"
    references: tuple[ReferenceLine, ...] = ()

    def __post_init__(self) -> None:
        require_name("the name of a chart", self.name)
        if self.kind not in get_args(ChartKind):
            raise InputError(f"the kind of a chart must be one of {', '.join(get_args(ChartKind))}; got {self.kind!r}")
        require_data("the data of a chart", self.data)
        object.__setattr__(self, "where", frozen_where(self.where))
        object.__setattr__(self, "references", frozen_lines(self.references))
        if self.kind == "heatmap" and not self.colour:
            raise InputError(f"chart {self.name}: a heat map needs `colour`, the column that its cells show")
        try:
            self.columns  # noqa: B018 - raises if an expression is invalid
        except InputError as error:
            raise InputError(f"chart {self.name}: {error}") from None

    @property
    def columns(self) -> list[str]:
        """Columns that the chart shows."""
        texts = [self.x, self.y, *(text for text in (self.colour, self.facet) if text is not None)]
        return [name for text in (*texts, *(name for name, _ in self.where)) for name in columns_in(text)]


def titled_chart(chart: Chart, titles: Mapping[str, str]) -> Chart:
    """Return the chart with these axis titles, unless it has its own."""
    x_title, y_title = chart.x_title or titles.get(chart.x, ""), chart.y_title or titles.get(chart.y, "")
    return replace(chart, x_title=x_title, y_title=y_title)


def titled_summary(summary: Summary, titles: Mapping[str, str]) -> Summary:
    """Return the summary with these axis titles, unless it has its own; y has the title of the column it averages."""
    x_title = summary.x_title or titles.get(summary.x, "")
    return replace(summary, x_title=x_title, y_title=summary.y_title or titles.get(summary.mean_of, ""))


@dataclass(frozen=True, eq=False)
class Study:
    """A named list of trials with its charts, summaries, fits and claims.

    Arguments:
        trials: Returns the list of trials for each size; `no_trials` if there are only searches.
        databases: Data that trials refer to by fingerprint.
        searches: Returns searches, which request additional trials.
        titles: Axis titles of columns, such as {"model.n_heads": "number of heads H"}, for charts and summaries without
            their own.

    >>> from factrank import LayerShape
    >>> from factrank import generated
    >>> facts = generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=0)
    >>> def trials(size):
    ...     seeds = range(3 if size == "quick" else 10)
    ...     return [Trial(facts, LayerShape(4, 1, 2, 2), seed=seed) for seed in seeds]
    >>> study = Study("tiny", "Four keys", None, "Does it fit?", "One layer is trained.", trials)
    >>> len(study.trials_of("full"))
    10
    """

    name: str
    title: str
    source: Source | None
    question: str
    method: str
    trials: Callable[[Size], list[Trial]]
    charts: tuple[Chart, ...] = ()
    claims: tuple[Claim, ...] = ()
    databases: tuple[Data, ...] = ()
    summaries: tuple[Summary, ...] = ()
    fits: tuple[Fit, ...] = ()
    searches: Callable[[Size], Sequence[TrialSearch]] | None = None
    titles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_name("the name of a study", self.name)
        for what, given in (("trials", self.trials), ("searches", self.searches)):
            if not callable(given) and (given is not None or what == "trials"):
                raise InputError(f"study {self.name}: {what} must be a function that returns a list; got {given!r}")
        for what, names in (
            ("charts or summaries", [*(chart.name for chart in self.charts), *(one.name for one in self.summaries)]),
            ("fits", [fit.name for fit in self.fits]),
            ("claims", [claim.name for claim in self.claims]),
        ):
            if len(set(names)) < len(names):
                raise InputError(f"study {self.name}: two {what} have the same name among {', '.join(names)}")
        summaries = {summary.name: summary for summary in self.summaries}
        for fit in self.fits:
            if fit.summary not in summaries:
                known = ", ".join(summaries) or "none"
                raise InputError(f"study {self.name}, fit {fit.name}: no summary {fit.summary!r}; there are: {known}")
            require_columns_of(fit, summaries[fit.summary])
        if not isinstance(self.titles, Mapping) or not all(
            isinstance(text, str) for pair in self.titles.items() for text in pair
        ):
            raise InputError(f"study {self.name}: titles must map columns to strings; got {self.titles!r}")
        object.__setattr__(self, "charts", tuple(titled_chart(chart, self.titles) for chart in self.charts))
        object.__setattr__(self, "summaries", tuple(titled_summary(one, self.titles) for one in self.summaries))

    def trials_of(self, size: Size) -> list[Trial]:
        """Return the listed trials of a size without duplicates, in order; trials of searches are not included.

        Raises:
            InputError: If the data of a trial are missing, or charts or claims use a setting that no trial has.
        """
        listed = self._listed(size, "trials", self.trials)
        strange = next((item for item in listed if not isinstance(item, Trial)), None)
        if strange is not None:
            raise InputError(f"study {self.name}: trials must be a list of Trial; it contains {strange!r}")
        trials = list({trial.hash: trial for trial in listed if isinstance(trial, Trial)}.values())
        self._require_given(trials)
        first = [trial for part in rounds_of(self.searches_of(size), {})[:1] for trial in part]
        self._require_columns([*trials, *first])
        return trials

    def searches_of(self, size: Size) -> tuple[TrialSearch, ...]:
        """Return the searches of a size; empty if the study has only listed trials."""
        return _searches(self, size) if self.searches is not None else ()

    def rounds(self, size: Size, rows: Rows) -> list[list[Trial]]:
        """Return the rounds so far: the listed trials, then the rounds of all searches together.

        `rows` are the rows of finished trials (`factrank.experiments.study.searches.measured_rows`).
        """
        listed, asked = self.trials_of(size), rounds_of(self.searches_of(size), rows)
        for trials in asked:
            self._require_given(trials)
        return [listed, *asked] if listed or not asked else asked

    def _listed(self, size: Size, what: str, function: Callable[[Size], Sequence[object]]) -> list[object]:
        if size not in get_args(Size):
            raise InputError(f"the size of a study must be quick or full; got {size!r}")
        try:
            return list(function(size))
        except FactrankError:
            raise
        except Exception as error:
            raise InputError(f"study {self.name}: cannot list its {what}: {type(error).__name__}: {error}") from error

    def _require_given(self, trials: Sequence[Trial]) -> None:
        given = {database.fingerprint for database in self.databases}
        for trial in trials:
            if isinstance(trial.source, Given) and trial.source.fingerprint not in given:
                raise InputError(
                    f"study {self.name}: trial {trial.hash[:12]} refers to the data {trial.source.fingerprint[:12]}, "
                    f"which is not among the databases of the study"
                )

    def _require_columns(self, trials: Sequence[Trial]) -> None:
        """Find misspelt settings in charts and claims before training; metrics are only known later."""
        kinds = {
            (type(trial.data), getattr(trial.source, "generator", ""), type(trial.model)): trial for trial in trials
        }
        known = {name for trial in kinds.values() for name in trial_columns(trial)}
        named = [(f"chart {chart.name}", name) for chart in self.charts for name in chart.columns]
        named += [
            (f"claim {one.name}", name) for one in self.claims for part in one.quantity.parts for name in part.columns
        ]
        named += [(f"summary {summary.name}", name) for summary in self.summaries for name in summary.columns]
        for where, name in named if trials else ():
            if name.startswith(SETTINGS) and name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InputError(f"study {self.name}, {where}: no trial has a setting {name!r}{hint}")


def no_trials(size: Size) -> list[Trial]:  # noqa: ARG001 - signature of `Study.trials`
    """Return the empty list of trials of a study that has only searches.

    >>> no_trials("quick")
    []
    """
    return []


@lru_cache(maxsize=32)  # searches cache their trials, whose hashes are slow to compute
def _searches(study: Study, size: Size) -> tuple[TrialSearch, ...]:
    if study.searches is None:
        return ()
    try:
        return tuple(require_searches(study._listed(size, "searches", study.searches)))
    except InputError as error:
        place = "" if str(error).startswith("study ") else f"study {study.name}: "
        raise InputError(f"{place}{error}") from None
