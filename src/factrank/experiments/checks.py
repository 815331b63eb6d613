"""Checks of a model while it trains: when they are made, and what follows from them. All engines share this.

A check is *regular* every `check_every` epochs and at the end, where runs may stop or first full recalls are asked for.
Curves only look: with or without them a run is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from factrank.experiments.specs import Trial
from factrank.experiments.task import Reading, Task, tau_recall

RunStatus = Literal["finished", "stopped", "diverged", "interrupted"]


@dataclass(frozen=True)
class Checks:
    """The epochs at which a model is checked, and the number that stops it when it is at least `stop_at`."""

    every: int | None
    at: tuple[int, ...]
    last: int
    stop: str | None
    stop_at: float = 1.0

    @classmethod
    def of(cls, trial: Trial) -> Checks:
        """Those that a trial asks for."""
        training, tau = trial.training, trial.measures.taus[0]
        stop = {"never": None, "recall_tau": tau_recall(tau)}.get(training.stop, training.stop)
        regular = stop is not None or trial.measures.epochs_to
        every = training.check_every if regular else None
        return cls(every, trial.curve_epochs, training.epochs, stop, training.stop_at)

    def __contains__(self, epoch: int) -> bool:
        return self.regularly(epoch) or epoch in self.at

    def regularly(self, epoch: int) -> bool:
        """Whether a run may stop here: every so often, and at the end."""
        return self.every is not None and (epoch % self.every == 0 or epoch == self.last)

    def after(self, epoch: int) -> int:
        """The next such epoch, or the last."""
        regular = [(epoch // self.every + 1) * self.every] if self.every else []
        return min([self.last, *regular, *(point for point in self.at if point > epoch)])

    def between(self, start: int, stop: int) -> Int64[np.ndarray, " checks"]:
        """The epochs of all checks from `start` until before `stop`, which is at most the last epoch.

        >>> Checks(every=10, at=(4, 20), last=100, stop=None).between(0, 25).tolist()
        [0, 4, 10, 20]
        """
        curves = [epoch for epoch in self.at if start <= epoch < stop]
        regular = np.arange(-(-start // self.every) * self.every, stop, self.every) if self.every else np.arange(0)
        return np.union1d(regular, curves).astype(np.int64) if curves else regular.astype(np.int64)


@dataclass
class Finished:
    """What is known of one model at its end; `place` is that of the trial in the list."""

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
    """What is noted of one model while it trains."""

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
        """Note curves and first full recalls; a run that may stop is done with enough recall or without a finite loss.

        `numbers` are those of `Task.check`.
        """
        if epoch in self.checks.at:
            for name, number in {"epoch": epoch, **self.task.exact(dict(numbers))}.items():
                self.curves.setdefault(name, []).append(number)
        if self.trial.measures.best:
            for name in filter(_is_recall, numbers):  # a number that is NaN is never greater
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
        """Shares other than 1 are compared exactly: 0.99 of the facts in float32 may lie on either side of 0.99."""
        least = self.checks.stop_at
        return numbers[stop] >= 1 if least == 1 else self.task.exact(dict(numbers))[stop] >= least

    def finished(self, epoch: int, model: Any, numbers: Mapping[str, float], width: int) -> Finished:
        """The result of a run that trained until this epoch, or stopped before; `numbers` are those of its end."""
        exact = self.task.exact(dict(numbers))
        status: RunStatus = "stopped" if self.stopped else "finished"
        if self.diverged or not isfinite(exact["loss"]):
            status = "diverged"
        finished, more, readings = self.task.finish(model, exact)
        wanted = [name for name in exact if name.startswith("recall")] if self.trial.measures.epochs_to else []
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
