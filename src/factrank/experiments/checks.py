"""Checks: when a model is evaluated during training, and when a run stops. Used by all engines.

A check is *regular* if it is made every `check_every` epochs or at the last epoch, in trials that may stop early or
that measure `EpochsTo`. Checks for curves only record numbers; they never change a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from factrank.experiments.specs import Best, EpochsTo, Trial
from factrank.experiments.task import Reading, Task, tau_recall

RunStatus = Literal["finished", "stopped", "diverged", "interrupted"]


@dataclass(frozen=True)
class Checks:
    """Epochs of all checks; training stops if the metric `stop` is at least `stop_at` at a regular check."""

    every: int | None
    at: tuple[int, ...]
    last: int
    stop: str | None
    stop_at: float = 1.0

    @classmethod
    def of(cls, trial: Trial) -> Checks:
        """Return the checks of a trial."""
        training, tau = trial.training, trial.taus[0]
        stop = {"never": None, "recall_tau": tau_recall(tau)}.get(training.stop, training.stop)
        regular = stop is not None or trial.measure(EpochsTo) is not None
        every = training.check_every if regular else None
        return cls(every, trial.curve_epochs, training.epochs, stop, training.stop_at)

    def __contains__(self, epoch: int) -> bool:
        return self.regularly(epoch) or epoch in self.at

    def regularly(self, epoch: int) -> bool:
        """Return whether a check at this epoch is regular, so the run may stop here."""
        return self.every is not None and (epoch % self.every == 0 or epoch == self.last)

    def after(self, epoch: int) -> int:
        """Return the next epoch with a check, or the last epoch."""
        regular = [(epoch // self.every + 1) * self.every] if self.every else []
        return min([self.last, *regular, *(point for point in self.at if point > epoch)])

    def between(self, start: int, stop: int) -> Int64[np.ndarray, " checks"]:
        """Return the epochs of all checks with `start <= epoch < stop`; `stop` must not exceed the last epoch.

        >>> Checks(every=10, at=(4, 20), last=100, stop=None).between(0, 25).tolist()
        [0, 4, 10, 20]
        """
        curves = [epoch for epoch in self.at if start <= epoch < stop]
        regular = np.arange(-(-start // self.every) * self.every, stop, self.every) if self.every else np.arange(0)
        return np.union1d(regular, curves).astype(np.int64) if curves else regular.astype(np.int64)


@dataclass
class Finished:
    """Result of one model; `place` is the index of its trial in the list."""

    place: int
    status: RunStatus
    epochs: int
    model: Any
    metrics: dict[str, float]
    curves: dict[str, list[float | int]]
    epochs_to: dict[str, int | None]
    width: int
    readings: list[Reading]


@dataclass
class Record:
    """Running record of one model during training."""

    place: int
    trial: Trial
    task: Task
    checks: Checks
    end: int | None = None
    stopped: bool = False
    diverged: bool = False
    curves: dict[str, list[float | int]] = field(default_factory=dict)
    epochs_to: dict[str, int | None] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)

    def note(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Record curves and first full recalls, and decide whether the run stops.

        If the trial may stop early, it stops at enough recall, or if its loss is NaN or infinite. `numbers` are the
        results of `Task.check`.
        """
        if epoch in self.checks.at:
            for name, number in {"epoch": epoch, **self.task.exact(dict(numbers))}.items():
                self.curves.setdefault(name, []).append(number)
        if self.trial.measure(Best) is not None:
            for name in filter(_is_recall, numbers):  # ignores NaN
                self.best[name] = max(self.best.get(name, 0.0), numbers[name])
        if not self.checks.regularly(epoch):
            return
        for name, number in numbers.items():
            if name != "loss" and number >= 1:
                self.epochs_to.setdefault(name, epoch)
        if self.checks.stop is not None:
            self.diverged = not isfinite(numbers["loss"])
            self.stopped = self._enough(numbers, self.checks.stop) or self.diverged
            if self.stopped:
                self.end = epoch

    def _enough(self, numbers: Mapping[str, float], stop: str) -> bool:
        """Compare fractions other than 1 exactly: in float32, 0.99 of the facts may round to either side of 0.99."""
        least = self.checks.stop_at
        return numbers[stop] >= 1 if least == 1 else self.task.exact(dict(numbers))[stop] >= least

    def finished(self, epoch: int, model: Any, numbers: Mapping[str, float], width: int) -> Finished:
        """Return the result of a run that trained to this epoch or stopped earlier; `numbers` are its final metrics."""
        exact = self.task.exact(dict(numbers))
        status: RunStatus = "stopped" if self.stopped else "finished"
        if self.diverged or not isfinite(exact["loss"]):
            status = "diverged"
        finished, more, readings = self.task.finish(model, exact)
        asked = self.trial.measure(EpochsTo) is not None
        wanted = [name for name in exact if asked and name.startswith("recall")]
        return Finished(
            place=self.place,
            status=status,
            epochs=epoch if self.end is None else self.end,
            model=finished,
            metrics=exact | more | {f"best_{name}": value for name, value in self.task.exact(self.best).items()},
            curves=self.curves,
            epochs_to={name: self.epochs_to.get(name) for name in wanted},
            width=width,
            readings=readings,
        )


def _is_recall(name: str) -> bool:
    return name.startswith(("recall", "test_recall"))
