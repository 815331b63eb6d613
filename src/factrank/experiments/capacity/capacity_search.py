"""CapacitySearch: find the largest size that meets a criterion, trying many sizes at a time.

A function returns the trials of a size, typically one per learning rate and all with the same seed. A size meets the
criterion if any of its trials meets it at the end of training, never at an intermediate epoch. `brackets` chooses the
sizes.

A search is deterministic: it replays its rounds from the rows of finished trials. It can therefore resume from a store,
or be checked against a published table, and arrives at the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from factrank.errors import FactrankError, InputError
from factrank.experiments.capacity.brackets import Sizes, bracket, is_monotone
from factrank.experiments.capacity.capacity_interval import (
    DIVERGED,
    FAILED,
    FINISHED,
    NO_LOWER,
    NO_UPPER,
    WAITING,
    CapacityInterval,
    Criterion,
    Probe,
)
from factrank.experiments.specs import Trial
from factrank.experiments.statistics import SOUND
from factrank.experiments.store import Row
from factrank.experiments.study import Rows, is_measured_number

TrialsOfSize = Callable[[int], Sequence[Trial]]
"""Returns the trials of a size; must be deterministic."""

EVERY_FACT = Criterion("recall", 1.0)


@dataclass(frozen=True, eq=False)
class CapacitySearch:
    """A capacity search of a study (`Study.searches`). A study has one per setting and seed, each with a unique name.

    Arguments:
        family: Returns the trials of a size.
        guess: Size to start from. For `least`, `most`, `probes`, `resolution` and `spread` see `Sizes`.
        criterion: Required value of a metric.
        labels: Additional columns of its row, for anything that the settings of its trials do not show.
        after: Another search of the same family with another criterion. This search repeats all sizes of that one
            first, and then continues with its own criterion.

    >>> from factrank import LayerShape
    >>> from factrank import Training, generated
    >>> def family(size):
    ...     facts = generated("uniform", n_keys=size, n_queries=2, n_values=4, seed=0)
    ...     return [Trial(facts, LayerShape(4, 1, 2, 2), Training(learning_rate=rate)) for rate in (0.01, 0.03)]
    >>> search = CapacitySearch("keys", family, guess=8, probes=3)
    >>> [[len(family(4))] * 3, len(search.rounds({})[0])]
    [[2, 2, 2], 6]
    """

    name: str
    family: TrialsOfSize
    guess: int
    criterion: Criterion = EVERY_FACT
    least: int = 1
    most: int = 2**20
    probes: int = 4
    resolution: int | float = 1.05
    labels: Mapping[str, str | int | float] = field(default_factory=dict)
    spread: int | float = 4
    after: CapacitySearch | None = None
    _made: dict[int, tuple[Trial, ...]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"a search must have a name; got {self.name!r}")
        if not callable(self.family):
            raise InputError(f"search {self.name}: the family must be a function of the size; got {self.family!r}")
        try:
            self.sizes  # noqa: B018 - raises if the sizes are invalid
        except InputError as error:
            raise InputError(f"search {self.name}: {error}") from None

    @property
    def sizes(self) -> Sizes:
        """Search range."""
        return Sizes(self.guess, self.least, self.most, self.probes, self.resolution, self.spread)

    def trials(self, size: int) -> tuple[Trial, ...]:
        """Return the trials of a size."""
        if size not in self._made:
            made = self._listed(size)
            if not made or not all(isinstance(trial, Trial) for trial in made):
                raise InputError(f"search {self.name}: the family must return one or more Trials; got {made!r}")
            self._made[size] = made
        return self._made[size]

    def _listed(self, size: int) -> tuple[Trial, ...]:
        try:
            return tuple(self.family(size))
        except FactrankError as error:
            raise InputError(f"search {self.name}, size {size}: {error}") from None
        except Exception as error:
            what = f"cannot list its trials of size {size}: {type(error).__name__}: {error}"
            raise InputError(f"search {self.name}: {what}") from error

    def rounds(self, rows: Rows) -> list[list[Trial]]:
        """Return the trials requested so far, by round."""
        return [[trial for size in sizes for trial in self.trials(size)] for sizes in self._replay(rows)[0]]

    def row(self, rows: Rows) -> Row:
        """Return the interval as a row."""
        return self.interval(rows).to_row() | dict(self.labels)

    def interval(self, rows: Rows) -> CapacityInterval:
        """Return the interval found so far."""
        rounds, probes, failed, is_waiting = self._replay(rows)
        outcomes = {probe.size: probe.met for probe in probes}
        lower, upper = bracket(outcomes)
        if lower is None:
            upper = None  # an upper end alone is not an interval
        status, why = FINISHED, ""
        if is_waiting:
            waiting = [trial for size in rounds[-1] for trial in self.trials(size) if trial.hash not in rows]
            status, why = WAITING, f"{len(waiting):,} trials of round {len(rounds)} have not been run"
        elif failed and (lower is None or upper is None or not self.sizes.is_narrow(lower, upper)):
            status, why = FAILED, f"trials of size {', '.join(map(str, failed))} failed"
        elif lower is None:
            status, why = NO_LOWER, f"{self.criterion} does not hold at {self.least:,}, the least size"
        elif upper is None:
            status, why = NO_UPPER, f"{self.criterion} still holds at {self.most:,}, the greatest size"
        elif any(probe.diverged for probe in probes if probe.size == upper):
            status, why = DIVERGED, f"every trial of size {upper:,} diverged"
        return CapacityInterval(
            lower=lower,
            upper=upper,
            criterion=self.criterion,
            probes=tuple(sorted(probes, key=lambda probe: probe.size)),
            rounds=len(rounds),
            status=status,
            why=why,
            monotone=is_monotone(outcomes),
        )

    def _replay(self, rows: Rows) -> tuple[list[list[int]], list[Probe], list[int], bool]:
        """Replay the rounds: their sizes, the probes so far, the sizes that failed, and whether trials are missing."""
        rounds: list[list[int]] = []
        probes: list[Probe] = []
        failed: list[int] = []
        earlier = [] if self.after is None else self.after._replay(rows)[0]
        while sizes := self._next(len(rounds), earlier, probes, failed):
            rounds.append(sizes)
            found = [(size, self._probe(size, rows)) for size in sizes]
            if any(probe is None for _, probe in found):
                return rounds, [*probes, *(one for _, one in found if isinstance(one, Probe))], failed, True
            probes += [probe for _, probe in found if isinstance(probe, Probe)]
            failed += [size for size, probe in found if not isinstance(probe, Probe)]
        return rounds, probes, failed, False

    def _next(
        self, n_rounds: int, earlier: Sequence[list[int]], probes: Sequence[Probe], failed: Sequence[int]
    ) -> list[int]:
        """Choose the sizes of the next round, starting with the rounds of an earlier search."""
        if n_rounds < len(earlier):
            return earlier[n_rounds]
        return self.sizes.next({probe.size: probe.met for probe in probes}, failed)

    def _require_column(self, rows: Sequence[Row]) -> None:
        """Raise if no sound trial has this metric: then the criterion is wrong, not the models."""
        column, sound = self.criterion.column, [row for row in rows if row.get("status") in SOUND]
        if sound and all(row.get(column) is None for row in sound):
            measured = [name for name, cell in sound[0].items() if is_measured_number(name, cell)]
            near = get_close_matches(column, measured, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"search {self.name}: no trial has a metric {column!r}{hint}")

    def _probe(self, size: int, rows: Rows) -> Probe | str | None:
        """Evaluate a size; None if a trial is missing, "failed" if a trial that could decide has failed."""
        trials = self.trials(size)
        if not all(trial.hash in rows for trial in trials):
            return None
        self._require_column([rows[trial.hash] for trial in trials])
        best = max(trials, key=lambda trial: self.criterion.value(rows[trial.hash]))
        row, statuses = rows[best.hash], [rows[trial.hash].get("status") for trial in trials]
        met = self.criterion.is_met(row)
        if not met and "failed" in statuses:
            return FAILED
        return Probe(size, met, best.hash, row, all(status == "diverged" for status in statuses))
