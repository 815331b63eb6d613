"""A bundle of lanes from start to end: chunks of epochs, checks, curves, early stopping, removal of finished lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import jax
import numpy as np
from jaxtyping import Float

from factrank.experiments.checks import Checks, Record
from factrank.experiments.checks import Finished as Finished  # noqa: PLC0414 - the engine takes it from here
from factrank.experiments.lanes.ladder import rung_above
from factrank.experiments.lanes.lane_checkpoints import BundleFile, BundleState, Dropped
from factrank.experiments.lanes.lane_programs import Lanes, Program, arithmetic, differ_in_length, mark, take
from factrank.experiments.specs import Trial
from factrank.experiments.task import Task

DROP_AT = 4
"""Finished lanes are removed when at most 1/4 of the bundle is still training: each new width is compiled."""

DROP_AT_LENGTHS = 2
"""The same for lanes of different length, at 1/2: the remaining lanes are known to train for long."""

CHUNK_SECONDS = 0.5
"""Approximate duration of a chunk. Ctrl-C and progress updates wait for the end of a chunk."""


@dataclass
class LaneBundle:
    """Lanes, and the record of each lane; lanes beyond the records are dummies."""

    program: Program
    trial: Trial
    records: list[Record]
    lanes: Lanes
    epoch: int = 0
    file: BundleFile | None = None
    _chunk: int = 1
    _n_done: int = 0
    _out: set[int] = field(default_factory=set)
    _all: tuple[Record, ...] = ()
    _dropped: list[Dropped] = field(default_factory=list)
    _at_rest: bool = True

    @classmethod
    def start(
        cls,
        program: Program,
        places: Sequence[int],
        trials: Sequence[Trial],
        tasks: Sequence[Task],
        width: int,
        checkpoints: Path | None = None,
    ) -> LaneBundle:
        """Return the bundle before the first epoch, or as stored in a checkpoint in this folder."""
        records = [Record(*entry, Checks.of(entry[1])) for entry in zip(places, trials, tasks, strict=True)]
        bundle = cls(program, trials[0], records, program.start(trials, tasks, width), _all=tuple(records))
        if checkpoints is not None:
            bundle.file = BundleFile.of(checkpoints, trials, width)
            state = bundle.file.load(bundle.lanes, records)
            if state is not None:
                bundle.lanes, bundle.records, bundle._dropped = state.lanes, state.records, state.dropped
                bundle.epoch, bundle._chunk = state.epoch, state.chunk
                bundle._n_done = bundle.width - len(bundle.active)
        return bundle

    def save(self) -> None:
        """Write a checkpoint, unless a chunk is in progress."""
        if self.file is not None and self._at_rest and self.epoch:
            state = BundleState(self.lanes, self.records, self._dropped, self.epoch, self._chunk)
            self.file.save(state, self._all)

    @property
    def width(self) -> int:
        """Number of lanes, including dummies."""
        return len(self.lanes.done)

    @property
    def active(self) -> list[int]:
        """Indices of the lanes that are still training."""
        return [at for at, record in enumerate(self.records) if record.end is None]

    @property
    def checks(self) -> set[Checks]:
        """Checks of the lanes that are still training; they differ only in the last epoch."""
        return {self.records[at].checks for at in self.active}

    def run(self) -> Iterator[list[Finished]]:
        """Train to the end. Yields finished lanes when they are removed, and an empty list after every chunk.

        A resumed bundle first yields the lanes that were removed before the checkpoint.
        """
        if self._dropped:
            yield [one.record.finished(one.epoch, one.model, one.numbers, one.width) for one in self._dropped]
        while True:
            self._at_rest = False
            if any(self.epoch in checks for checks in self.checks):
                self._check()
            self._end_lanes()
            if not self.active:
                yield from self._hand_out(range(len(self.records)))
                return
            if len(self.active) * self._drop_at <= self.width:
                yield self._drop()
            self._advance()
            self._at_rest = True
            yield []

    def stopped(self) -> list[Finished]:
        """Return the lanes that have ended but were not yielded yet, so an interruption does not lose them."""
        ended = [at for at, record in enumerate(self.records) if record.end is not None and not self._is_out(record)]
        return [lane for lanes in self._hand_out(ended) for lane in lanes]

    @property
    def model_epochs(self) -> int:
        """Epochs completed by lanes that were not yielded yet; a lane that stopped early counts all its epochs."""
        left = [record for record in self.records if not self._is_out(record)]
        return sum(self.epoch if record.end is None else record.checks.last for record in left)

    # ---------------------------------------------------------------- epochs

    def _advance(self) -> None:
        """Run a chunk of epochs, at most up to the next check."""
        n_epochs = min(self._chunk, *(checks.after(self.epoch) - self.epoch for checks in self.checks))
        started = perf_counter()
        with arithmetic(self.trial.training.precision):
            self.lanes = self.program.advance(self.lanes, self.epoch, n_epochs)
            jax.block_until_ready(self.lanes)  # type: ignore[no-untyped-call]
        seconds = perf_counter() - started
        self.epoch += n_epochs
        if n_epochs == self._chunk:
            # Grow by at most 4x, because the first chunk includes compilation.
            self._chunk = max(1, min(4 * self._chunk, int(self._chunk * CHUNK_SECONDS / max(seconds, 1e-6))))

    def _check(self) -> None:
        """Evaluate all lanes; lanes with enough recall, or a loss that is NaN or infinite, stop."""
        with arithmetic(self.trial.training.precision, exact=True):
            metrics = {name: np.asarray(value) for name, value in self.program.check(self.lanes).items()}
        for at in self.active:
            self.records[at].note(self.epoch, _numbers_of(metrics, at))

    def _end_lanes(self) -> None:
        """End lanes that reached their last epoch, and freeze all lanes that have ended."""
        for at in self.active:
            if self.records[at].checks.last == self.epoch:
                self.records[at].end = self.epoch
        active = self.active
        if self.width - len(active) != self._n_done:
            done = np.ones(self.width, dtype=bool)
            done[active] = False
            self.lanes, self._n_done = mark(self.lanes, done), self.width - len(active)

    # ---------------------------------------------------------------- lanes that have ended

    @property
    def _drop_at(self) -> int:
        return DROP_AT_LENGTHS if differ_in_length(self.trial.training) else DROP_AT

    def _drop(self) -> list[Finished]:
        """Collect the lanes that have ended, and continue with the others in a narrower bundle."""
        active, ended = self.active, [at for at, record in enumerate(self.records) if record.end is not None]
        finished = list(self._collect(ended, dropped=True))
        width = rung_above(len(active))
        places = [*active, *[active[0]] * (width - len(active))]
        self.lanes = take(self.lanes, places, len(active))
        self.records, self._n_done = [self.records[at] for at in active], width - len(active)
        return finished

    def _hand_out(self, places: Sequence[int]) -> Iterator[list[Finished]]:
        """Yield the results of these lanes, one by one if they are measured on the host; then remove all lanes."""
        lanes = self._collect(places)
        one_by_one = any(self.records[at].trial.measured_on_host for at in places)
        for finished in ([lane] for lane in lanes) if one_by_one else [list(lanes)]:
            self._out.update(lane.place for lane in finished)
            yield finished
        self.records = []

    def _is_out(self, record: Record) -> bool:
        return record.place in self._out

    def _collect(self, places: Sequence[int], *, dropped: bool = False) -> Iterator[Finished]:
        """Yield the results of these lanes lazily; checkpoints keep the lanes that are dropped."""
        if not places:
            return
        with arithmetic(self.trial.training.precision, exact=True):
            metrics = {name: np.asarray(value) for name, value in self.program.measure(self.lanes).items()}
            models = self.program.models(self.lanes, places)
        for at, model in zip(places, models, strict=True):
            numbers = _numbers_of(metrics, at)
            if dropped and self.file is not None:
                self._dropped.append(Dropped(self.records[at], numbers, model, self.width, self.epoch))
            yield self.records[at].finished(self.epoch, model, numbers, self.width)


def _numbers_of(metrics: dict[str, Float[np.ndarray, " lanes"]], at: int) -> dict[str, float]:
    return {name: float(value[at]) for name, value in metrics.items()}
