"""TunedRate: a search that chooses the learning rate on seeds of its own, and then trains the seeds that count.

Round 1 has every rate on the tuning seeds, round 2 the rate with the largest mean metric on the seeds of the study. The
choice follows from the rows of round 1 alone, so a killed run, or anyone with the published table, makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan

from factrank.experiments.specs import Trial
from factrank.experiments.store import Row
from factrank.experiments.study import Rows

TrialsOfRate = Callable[[float, int], Sequence[Trial]]
"""Returns the trials of a learning rate and a seed; must be deterministic."""


@dataclass(frozen=True, eq=False)
class TunedRate:
    """Choice of a learning rate.

    Arguments:
        name: Name of the search in its study.
        tuned: Returns the trials that compare rates.
        counted: Returns the trials at the chosen rate.
        rates: Learning rates to choose from.
        tuning_seeds: Seeds that compare rates.
        seeds: Seeds that count; none of them is a tuning seed.
        column: Metric whose mean over the tuning trials decides; diverged trials count as the worst.
    """

    name: str
    tuned: TrialsOfRate
    counted: TrialsOfRate
    rates: tuple[float, ...]
    tuning_seeds: tuple[int, ...]
    seeds: tuple[int, ...]
    column: str
    labels: Mapping[str, str | int | float] = field(default_factory=dict)

    def _tuning(self, rate: float) -> list[Trial]:
        return [trial for seed in self.tuning_seeds for trial in self.tuned(rate, seed)]

    def chosen(self, rows: Rows) -> float | None:
        """Return the rate with the largest mean, the smallest of several; None before all tuning trials have ended."""
        trials = {rate: self._tuning(rate) for rate in self.rates}
        if not all(trial.hash in rows for own in trials.values() for trial in own):
            return None

        def mean(rate: float) -> float:
            found = [_sound(rows[trial.hash], self.column) for trial in trials[rate]]
            return sum(found) / len(found)

        return max(sorted(self.rates), key=mean)

    def rounds(self, rows: Rows) -> list[list[Trial]]:
        """Return the tuning trials and, once they have ended, the trials that count."""
        tuning, rate = [trial for rate in self.rates for trial in self._tuning(rate)], self.chosen(rows)
        if rate is None:
            return [tuning]
        return [tuning, [trial for seed in self.seeds for trial in self.counted(rate, seed)]]

    def row(self, rows: Rows) -> Row:
        """Return the chosen rate."""
        missing = sum(trial.hash not in rows for part in self.rounds(rows) for trial in part)
        status = (
            {"status": "finished", "why": ""} if not missing else {"status": "waiting", "why": f"{missing:,} trials"}
        )
        return {**status, "chosen_rate": self.chosen(rows), **self.labels}


def _sound(row: Row, column: str) -> float:
    """Return the metric of a trial; minus infinity if it diverged, failed or is NaN."""
    value = row.get(column)
    good = row.get("status") in ("finished", "stopped") and isinstance(value, int | float) and not isnan(value)
    return float(value) if good and isinstance(value, int | float) else -inf
