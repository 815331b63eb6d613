"""One bundle of lanes from start to end: epochs in chunks, checks, curves, stopping, dropping of finished lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float

from factrank.training.ladder import rung_above
from factrank.training.lanes import Lanes, Program, arithmetic, mark, take
from factrank.training.task import Task, tau_recall
from factrank.training.trial import Trial

Status = Literal["finished", "stopped", "diverged", "interrupted"]
DROP_AT = 4
"""Lanes are dropped when at most 1/4 of the bundle still trains: each new width costs a compilation."""

CHUNK_SECONDS = 0.5
"""About how long compiled code runs before the interpreter sees Ctrl-C and the meter moves."""


@dataclass
class Finished:
    """What is known of one lane at its end; `place` is that of the trial in the list."""

    place: int
    status: Status
    epochs: int
    model: Any
    metrics: dict[str, float]
    curves: dict[str, list[float | int]]
    epochs_to: dict[str, int | None]
    width: int


@dataclass
class Record:
    """What is noted of one lane while it trains."""

    place: int
    task: Task
    end: int | None = None
    diverged: bool = False
    curves: dict[str, list[float | int]] = field(default_factory=dict)
    epochs_to: dict[str, int | None] = field(default_factory=dict)


@dataclass
class Bundle:
    """Lanes, and the record of each real one; lanes beyond the records are dummies."""

    program: Program
    trial: Trial
    records: list[Record]
    lanes: Lanes
    epoch: int = 0
    _chunk: int = 1

    @classmethod
    def start(
        cls, program: Program, places: Sequence[int], trials: Sequence[Trial], tasks: Sequence[Task], width: int
    ) -> Bundle:
        """The bundle before the first epoch."""
        records = [Record(place, task) for place, task in zip(places, tasks, strict=True)]
        return cls(program, trials[0], records, program.start(trials, tasks, width))

    @property
    def width(self) -> int:
        """Lanes, dummies included."""
        return len(self.lanes.done)

    @property
    def active(self) -> list[int]:
        """The places in the bundle of the lanes that still train."""
        return [at for at, record in enumerate(self.records) if record.end is None]

    def run(self) -> Iterator[list[Finished]]:
        """Train to the end; finished lanes come out as they are dropped, and an empty list after every chunk."""
        while True:
            if self.epoch in self._checks:
                self._check()
            if self.epoch == self.trial.training.epochs or not self.active:
                yield self._hand_out(range(len(self.records)))
                return
            if len(self.active) * DROP_AT <= self.width:
                yield self._drop()
            self._advance()
            yield []

    def stopped(self) -> list[Finished]:
        """The lanes that have stopped and were not handed out yet: what an interruption must not lose."""
        return self._hand_out([at for at, record in enumerate(self.records) if record.end is not None])

    @property
    def model_epochs(self) -> int:
        """Epochs behind the lanes that were not handed out yet; one that stopped has them all behind it."""
        total = self.trial.training.epochs
        return sum(self.epoch if record.end is None else total for record in self.records)

    # ---------------------------------------------------------------- epochs

    @property
    def _checks(self) -> _Checks:
        training = self.trial.training
        regular = training.stop != "never" or self.trial.measures.epochs_to
        return _Checks(training.check_every if regular else None, self.trial.curve_epochs, training.epochs)

    def _advance(self) -> None:
        """Run a chunk of epochs that ends at a check at the latest."""
        n_epochs = min(self._chunk, self._checks.after(self.epoch) - self.epoch)
        started = perf_counter()
        with arithmetic(self.trial.training.precision):
            self.lanes = self.program.advance(self.lanes, self.epoch, n_epochs)
            jax.block_until_ready(self.lanes)  # type: ignore[no-untyped-call]
        seconds = perf_counter() - started
        self.epoch += n_epochs
        if n_epochs == self._chunk:
            # Grow by at most 4x: the first chunk also compiles.
            self._chunk = max(1, min(4 * self._chunk, int(self._chunk * CHUNK_SECONDS / max(seconds, 1e-6))))

    def _check(self) -> None:
        """Note curves and first full recalls; lanes with full recall, or without a finite loss, are done."""
        with arithmetic(self.trial.training.precision, exact=True):
            metrics = {name: np.asarray(value) for name, value in self.program.check(self.lanes).items()}
        stop, regular = self._stop_metric, self._checks.regularly(self.epoch)
        for at, record in enumerate(self.records):
            if record.end is not None:
                continue
            if self.epoch in self.trial.curve_epochs:
                numbers = record.task.exact({name: float(value[at]) for name, value in metrics.items()})
                for name, number in {"epoch": self.epoch, **numbers}.items():
                    record.curves.setdefault(name, []).append(number)
            if not regular:  # a curve only looks: with or without it a run is the same
                continue
            for name in metrics.keys() - {"loss"}:
                if metrics[name][at] >= 1:
                    record.epochs_to.setdefault(name, self.epoch)
            if stop is not None:
                record.diverged = not np.isfinite(metrics["loss"][at])
                if metrics[stop][at] >= 1 or record.diverged:
                    record.end = self.epoch
        if stop is not None:
            done = np.ones(self.width, dtype=bool)
            done[self.active] = False
            self.lanes = mark(self.lanes, done)

    @property
    def _stop_metric(self) -> str | None:
        tau = self.trial.measures.taus[0]
        return {"never": None, "recall": "recall", "recall_tau": tau_recall(tau)}[self.trial.training.stop]

    # ---------------------------------------------------------------- lanes that have ended

    def _drop(self) -> list[Finished]:
        """Hand out the lanes that are done and go on with the others on a narrower rung."""
        active, ended = self.active, [at for at, record in enumerate(self.records) if record.end is not None]
        finished = self._collect(ended)
        width = rung_above(len(active))
        places = [*active, *[active[0]] * (width - len(active))]
        self.lanes = take(self.lanes, places, len(active))
        self.records = [self.records[at] for at in active]
        return finished

    def _hand_out(self, places: Sequence[int]) -> list[Finished]:
        """The results of these lanes, which are forgotten."""
        finished = self._collect(places)
        self.records = []
        return finished

    def _collect(self, places: Sequence[int]) -> list[Finished]:
        """The results of these lanes."""
        if not places:
            return []
        with arithmetic(self.trial.training.precision, exact=True):
            metrics = {name: np.asarray(value) for name, value in self.program.measure(self.lanes).items()}
            models = self.program.models(self.lanes, places)
        return [self._finished(at, model, metrics) for at, model in zip(places, models, strict=True)]

    def _finished(self, at: int, model: Any, metrics: dict[str, Float[np.ndarray, " lanes"]]) -> Finished:
        record = self.records[at]
        numbers = record.task.exact({name: float(value[at]) for name, value in metrics.items()})
        status: Status = "finished" if record.end is None else "stopped"
        if record.diverged or not np.isfinite(numbers["loss"]):
            status = "diverged"
        model, more = record.task.finish(model)
        wanted = [name for name in numbers if name.startswith("recall")] if self.trial.measures.epochs_to else []
        return Finished(
            place=record.place,
            status=status,
            epochs=self.epoch if record.end is None else record.end,
            model=model,
            metrics=numbers | more,
            curves=record.curves,
            epochs_to={name: record.epochs_to.get(name) for name in wanted},
            width=self.width,
        )


@dataclass(frozen=True)
class _Checks:
    """The epochs at which lanes are checked: every so often, at those of the curves, and at the end."""

    every: int | None
    at: tuple[int, ...]
    last: int

    def __contains__(self, epoch: int) -> bool:
        return self.regularly(epoch) or epoch in self.at

    def regularly(self, epoch: int) -> bool:
        """Whether a run may stop here: every so often, and at the end."""
        return self.every is not None and (epoch % self.every == 0 or epoch == self.last)

    def after(self, epoch: int) -> int:
        """The next such epoch, or the last."""
        regular = [(epoch // self.every + 1) * self.every] if self.every else []
        return min([self.last, *regular, *(point for point in self.at if point > epoch)])
