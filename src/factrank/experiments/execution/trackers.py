"""Trackers: a hook for whoever wants to follow trials elsewhere; the store is complete without any.

Weights & Biases and TensorBoard stand behind it. Neither is a dependency: each is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from factrank.errors import InputError
from factrank.experiments.execution.outcomes import Failure, Outcome
from factrank.experiments.store import failed_row, row_of


@runtime_checkable
class Tracker(Protocol):
    """Hears of trials when they have been stored."""

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Note these outcomes, each of which comes once."""

    def close(self) -> None:
        """Nothing comes any more."""


class WandbTracker:
    """One run of Weights & Biases per study; each trial is a step with the columns of its row."""

    def __init__(self, name: str) -> None:
        wandb = _module("wandb", "wandb")
        self._run = wandb.init(project="factrank", name=name)

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Each trial is a step."""
        for outcome in outcomes:
            self._run.log({name: value for name, value in _row(outcome).items() if value is not None})

    def close(self) -> None:
        """End the run."""
        self._run.finish()


class TensorBoardTracker:
    """Scalars by trial under the name of the study, and the curves of each trial under its hash."""

    def __init__(self, name: str, folder: Path) -> None:
        writers = _module("tensorboardX", "tensorboardX")
        self._writer, self._step = writers.SummaryWriter(str(folder / name)), 0

    def log(self, outcomes: Sequence[Outcome]) -> None:
        """Metrics at the step of the trial, curves at their epochs."""
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
        """Write what is left."""
        self._writer.close()


def tracker_named(kind: str, study: str, folder: Path) -> Tracker:
    """The tracker of this name; `folder` is where one that writes files puts them."""
    if kind == "wandb":
        return WandbTracker(study)
    if kind == "tensorboard":
        return TensorBoardTracker(study, folder)
    raise InputError(f"there is no tracker {kind!r}; there are wandb and tensorboard")


def _row(outcome: Outcome) -> dict[str, object]:
    return failed_row(*outcome) if isinstance(outcome, Failure) else row_of(outcome)


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"tracking needs the package {package}: pip install {package}") from None
