"""Study: a question, the trials that answer it, and how the answer is shown, as plain data.

A study lists its trials in two sizes: `quick` for a first look on two cores, `full` for the numbers to be published.
It may also have searches, whose trials are asked for round by round (`searches`).
Charts and claims name columns of the table of results (`store.columns`); nothing here draws or computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, get_args

from factrank.errors import FactrankError, InputError
from factrank.experiments.specs import Data, Given, Trial
from factrank.experiments.statistics import Claim, Fit, Summary, Where, columns_in, frozen_where, require_columns_of
from factrank.experiments.store import DataName, require_data, trial_columns
from factrank.experiments.study.names import require_name
from factrank.experiments.study.searches import Rows, TrialSearch, require_searches, rounds_of

Size = Literal["quick", "full"]
ChartKind = Literal["lines", "points", "heatmap", "bars"]
ChartData = DataName

SETTINGS = ("database.", "model.", "training.")
"""How the columns of what trials are given begin."""


@dataclass(frozen=True)
class Source:
    """Where a study was published: the paper, its figure or table, and a link."""

    paper: str
    figure: str = ""
    link: str = ""


@dataclass(frozen=True)
class Chart:
    """A chart as data: which columns of the table it shows, and how.

    `where` keeps only the rows with these values, as (column, value) pairs or a dictionary. Where a column is named,
    arithmetic on columns may stand (`factrank.experiments.statistics.expressions`). Lines, bars and heat maps
    draw means over the rows that agree in what is shown, in practice over seeds, lines with a band from the least to
    the greatest. `data` says which table is drawn: one row per trial, per trial and recorded epoch or reading, or per
    search.
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

    def __post_init__(self) -> None:
        require_name("the name of a chart", self.name)
        if self.kind not in get_args(ChartKind):
            raise InputError(f"the kind of a chart must be one of {', '.join(get_args(ChartKind))}; got {self.kind!r}")
        require_data("the data of a chart", self.data)
        object.__setattr__(self, "where", frozen_where(self.where))
        if self.kind == "heatmap" and not self.colour:
            raise InputError(f"chart {self.name}: a heat map needs `colour`, the column that its cells show")
        try:
            self.columns  # noqa: B018 - raises where arithmetic is broken
        except InputError as error:
            raise InputError(f"chart {self.name}: {error}") from None

    @property
    def columns(self) -> list[str]:
        """The columns that it shows."""
        texts = [self.x, self.y, *(text for text in (self.colour, self.facet) if text is not None)]
        return [name for text in (*texts, *(name for name, _ in self.where)) for name in columns_in(text)]


def titled_chart(chart: Chart, titles: Mapping[str, str]) -> Chart:
    """The chart, its axes called by these titles if it has none of its own."""
    x_title, y_title = chart.x_title or titles.get(chart.x, ""), chart.y_title or titles.get(chart.y, "")
    return replace(chart, x_title=x_title, y_title=y_title)


def titled_summary(summary: Summary, titles: Mapping[str, str]) -> Summary:
    """The same of a summary; y is what its quantities are means of, if they are means of one column."""
    x_title = summary.x_title or titles.get(summary.x, "")
    return replace(summary, x_title=x_title, y_title=summary.y_title or titles.get(summary.mean_of, ""))


@dataclass(frozen=True, eq=False)
class Study:
    """A named list of trials with its charts, summaries, fits and claims.

    `trials` gives the list for each size (`no_trials` where there are only searches), `searches` what asks for further
    trials. `databases` are those that trials name by fingerprint. `titles` are what axes call columns instead of their
    labels, such as {"model.n_heads": "number of heads H"}, wherever a chart or a summary has no title of its own.

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
                raise InputError(
                    f"study {self.name}: {what} is a function of the size that gives a list; got {given!r}"
                )
        for what, names in (
            ("charts or summaries", [*(chart.name for chart in self.charts), *(one.name for one in self.summaries)]),
            ("fits", [fit.name for fit in self.fits]),
            ("claims", [claim.name for claim in self.claims]),
        ):
            if len(set(names)) < len(names):
                raise InputError(f"study {self.name}: two {what} have one name among {', '.join(names)}")
        summaries = {summary.name: summary for summary in self.summaries}
        for fit in self.fits:
            if fit.summary not in summaries:
                known = ", ".join(summaries) or "none"
                raise InputError(f"study {self.name}, fit {fit.name}: no summary {fit.summary!r}; there are: {known}")
            require_columns_of(fit, summaries[fit.summary])
        if not isinstance(self.titles, Mapping) or not all(
            isinstance(text, str) for pair in self.titles.items() for text in pair
        ):
            raise InputError(f"study {self.name}: titles gives columns their titles, as texts; got {self.titles!r}")
        object.__setattr__(self, "charts", tuple(titled_chart(chart, self.titles) for chart in self.charts))
        object.__setattr__(self, "summaries", tuple(titled_summary(one, self.titles) for one in self.summaries))

    def trials_of(self, size: Size) -> list[Trial]:
        """The listed trials of a size, each once, in the order of the study; those of searches are not among them.

        A database without facts in hand is an error, and so is a setting in charts and claims that no trial has.
        """
        listed = self._listed(size, "trials", self.trials)
        strange = next((item for item in listed if not isinstance(item, Trial)), None)
        if strange is not None:
            raise InputError(f"study {self.name}: its trials must be a list of Trial; got {strange!r} in it")
        trials = list({trial.hash: trial for trial in listed if isinstance(trial, Trial)}.values())
        self._require_given(trials)
        first = [trial for part in rounds_of(self.searches_of(size), {})[:1] for trial in part]
        self._require_columns([*trials, *first])
        return trials

    def searches_of(self, size: Size) -> tuple[TrialSearch, ...]:
        """The searches of a size; none where the study has only listed trials."""
        return _searches(self, size) if self.searches is not None else ()

    def rounds(self, size: Size, rows: Rows) -> list[list[Trial]]:
        """What is asked for so far, round after round: the listed trials, then those of all searches together.

        `rows` are those of the trials that have ended (`factrank.experiments.study.searches.measured_rows`).
        """
        listed, asked = self.trials_of(size), rounds_of(self.searches_of(size), rows)
        for trials in asked:
            self._require_given(trials)
        return [listed, *asked] if listed or not asked else asked

    def _listed(self, size: Size, what: str, function: Callable[[Size], Sequence[object]]) -> list[object]:
        if size not in get_args(Size):
            raise InputError(f"the size of a study is quick or full; got {size!r}")
        try:
            return list(function(size))
        except FactrankError:
            raise
        except Exception as error:
            raise InputError(
                f"study {self.name}: its {what} cannot be listed: {type(error).__name__}: {error}"
            ) from error

    def _require_given(self, trials: Sequence[Trial]) -> None:
        given = {database.fingerprint for database in self.databases}
        for trial in trials:
            if isinstance(trial.database, Given) and trial.database.fingerprint not in given:
                raise InputError(
                    f"study {self.name}: trial {trial.hash[:12]} names the database {trial.database.fingerprint[:12]}, "
                    f"which is not among the databases of the study"
                )

    def _require_columns(self, trials: Sequence[Trial]) -> None:
        """Find misspelt settings in charts and claims before anything is trained; what is measured shows later."""
        kinds = {
            (type(trial.database), getattr(trial.database, "generator", ""), type(trial.model)): trial
            for trial in trials
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


def no_trials(size: Size) -> list[Trial]:  # noqa: ARG001 - what `Study.trials` is called with
    """The list of a study that has only searches."""
    return []


@lru_cache(maxsize=32)  # a search keeps the trials that it has made, and their hashes take time
def _searches(study: Study, size: Size) -> tuple[TrialSearch, ...]:
    if study.searches is None:
        return ()
    try:
        return tuple(require_searches(study._listed(size, "searches", study.searches)))
    except InputError as error:
        place = "" if str(error).startswith("study ") else f"study {study.name}: "
        raise InputError(f"{place}{error}") from None
