"""CapacitySearch: the largest size of a family of trials that meets a criterion, many sizes at a time.

A family gives the trials of a size, in practice one per learning rate, all of one seed: the size is met when any of
them meets the criterion at its end (never in between). `brackets` says which sizes are tried.

The search is a replay: from the rows of the trials that have ended it goes through its rounds again, so that it can go
on from a store, or be checked from a published table, and comes to the same sizes.
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
"""The trials of a size; always the same ones."""

EVERY_FACT = Criterion("recall", 1.0)


@dataclass(frozen=True, eq=False)
class CapacitySearch:
    """A search that a study runs (`Study.searches`): one for each setting and seed, by names of their own.

    The fields after `criterion` are those of `Sizes`. `labels` are further columns of its row: what the family is,
    where no setting of its trials says it. A search `after` another one of the same family, with another criterion,
    takes all sizes of that one as its own first rounds and then continues by its own criterion.

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
            raise InputError(f"a search has a name; got {self.name!r}")
        if not callable(self.family):
            raise InputError(f"search {self.name}: the family is a function of the size; got {self.family!r}")
        try:
            self.sizes  # noqa: B018 - raises where the sizes make no sense
        except InputError as error:
            raise InputError(f"search {self.name}: {error}") from None

    @property
    def sizes(self) -> Sizes:
        """Where it looks."""
        return Sizes(self.guess, self.least, self.most, self.probes, self.resolution, self.spread)

    def trials(self, size: int) -> tuple[Trial, ...]:
        """The trials of a size."""
        if size not in self._made:
            made = self._listed(size)
            if not made or not all(isinstance(trial, Trial) for trial in made):
                raise InputError(f"search {self.name}: the family gives one Trial or more of a size; got {made!r}")
            self._made[size] = made
        return self._made[size]

    def _listed(self, size: int) -> tuple[Trial, ...]:
        try:
            return tuple(self.family(size))
        except FactrankError as error:
            raise InputError(f"search {self.name}, size {size}: {error}") from None
        except Exception as error:
            what = f"its trials of size {size} cannot be listed: {type(error).__name__}: {error}"
            raise InputError(f"search {self.name}: {what}") from error

    def rounds(self, rows: Rows) -> list[list[Trial]]:
        """The trials asked for so far, round after round."""
        return [[trial for size in sizes for trial in self.trials(size)] for sizes in self._replay(rows)[0]]

    def row(self, rows: Rows) -> Row:
        """The interval as a row."""
        return self.interval(rows).to_row() | dict(self.labels)

    def interval(self, rows: Rows) -> CapacityInterval:
        """What was found so far."""
        rounds, probes, failed, is_waiting = self._replay(rows)
        outcomes = {probe.size: probe.met for probe in probes}
        lower, upper = bracket(outcomes)
        if lower is None:
            upper = None  # without a size that holds, one that does not bounds nothing that was found
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
        """The sizes of each round, the probes of those that were run, sizes that failed, whether one is awaited."""
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
        """The sizes of the next round: those of an earlier search first."""
        if n_rounds < len(earlier):
            return earlier[n_rounds]
        return self.sizes.next({probe.size: probe.met for probe in probes}, failed)

    def _require_column(self, rows: Sequence[Row]) -> None:
        """A number that no sound trial has is a mistake in the criterion, and nothing about the models."""
        column, sound = self.criterion.column, [row for row in rows if row.get("status") in SOUND]
        if sound and all(row.get(column) is None for row in sound):
            measured = [name for name, cell in sound[0].items() if is_measured_number(name, cell)]
            near = get_close_matches(column, measured, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"search {self.name}: no trial has a number {column!r}{hint}")

    def _probe(self, size: int, rows: Rows) -> Probe | str | None:
        """What came of a size: None while a trial is awaited, the word "failed" where one that would decide has."""
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
