"""Trackers: follow trials in Weights & Biases or TensorBoard. Optional; the store is complete without them.

Neither package is a dependency: each is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from factrank.errors import InputError
from factrank.experiments.execution.outcomes import Failure, Outcome
from factrank.experiments.store import failed_row, row_of, trial_columns

PROJECT = "factrank"
"""Project of all runs in Weights & Biases."""


@runtime_checkable
class Tracker(Protocol):
    """Receives trials after they were stored."""

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Log these outcomes; each outcome is passed once."""

    def close(self) -> None:
        """End tracking."""


class WandbTracker:
    """One Weights & Biases run per trial, in the group of its study.

    The settings of the trial are the config of its run, curves are logged at their epochs, and the other columns of its
    row are the summary. A trial that failed ends with exit code 1.
    """

    def __init__(self, name: str) -> None:
        self._wandb, self._study = _module("wandb", "wandb"), name

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Log each trial as a run of its own."""
        for outcome in outcomes:
            trial = outcome.trial
            config = {name: value for name, value in trial_columns(trial).items() if name != "trial"}
            row = {name: value for name, value in _row(outcome).items() if name not in config and name != "trial"}
            run = self._wandb.init(
                project=PROJECT,
                group=self._study,
                name=f"{self._study}-{trial.hash[:12]}",
                config=_known(config),
                reinit=True,
            )
            for epoch, numbers in _curve(outcome):
                run.log(numbers, step=epoch)
            run.summary.update(_known(row))
            run.finish(exit_code=1 if isinstance(outcome, Failure) else 0)

    def close(self) -> None:
        """Do nothing: every run is finished when its trial has been logged."""


class TensorBoardTracker:
    """Scalars by trial under the name of the study, and curves of each trial under its hash."""

    def __init__(self, name: str, folder: Path) -> None:
        writers = _module("tensorboardX", "tensorboardX")
        self._writer, self._step = writers.SummaryWriter(str(folder / name)), 0

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Log metrics at the step of the trial, and curves at their epochs."""
        for outcome in outcomes:
            self._step += 1
            if isinstance(outcome, Failure):
                self._writer.add_text("failed", outcome.error, self._step)
                continue
            for name, number in outcome.metrics.items():
                if isfinite(number):
                    self._writer.add_scalar(name, number, self._step)
            epochs = outcome.curves.get("epoch", [])
            for name, numbers in outcome.curves.items():
                if name != "epoch":
                    for epoch, number in zip(epochs, numbers, strict=True):
                        self._writer.add_scalar(f"{outcome.trial.hash[:12]}/{name}", number, epoch)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


def tracker_named(kind: str, study: str, folder: Path) -> Tracker:
    """Return a tracker by name; trackers that write files use `folder`."""
    if kind == "wandb":
        return WandbTracker(study)
    if kind == "tensorboard":
        return TensorBoardTracker(study, folder)
    raise InputError(f"unknown tracker {kind!r}; expected wandb or tensorboard")


def _curve(outcome: Outcome) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the recorded epochs of a trial and its numbers there."""
    curves = {} if isinstance(outcome, Failure) else outcome.curves
    for at, epoch in enumerate(curves.get("epoch", ())):
        yield int(epoch), {name: float(numbers[at]) for name, numbers in curves.items() if name != "epoch"}


def _known(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if value is not None}


def _row(outcome: Outcome) -> dict[str, object]:
    return failed_row(*outcome) if isinstance(outcome, Failure) else row_of(outcome)


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"tracking needs the package {package}: pip install {package}") from None
