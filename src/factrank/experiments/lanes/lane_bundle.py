"""One bundle of lanes from start to end: epochs in chunks, checks, curves, stopping, dropping of finished lanes."""

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
"""Lanes are dropped when at most 1/4 of the bundle still trains: each new width costs a compilation."""

DROP_AT_LENGTHS = 2
"""Half of it where lanes differ in length: then it is known that the others go on for long."""

CHUNK_SECONDS = 0.5
"""About how long compiled code runs before the interpreter sees Ctrl-C and the meter moves."""


@dataclass
class LaneBundle:
    """Lanes, and the record of each real one; lanes beyond the records are dummies."""

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
        """The bundle before the first epoch, or where a checkpoint in this folder has left it."""
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
        """Write the state to resume from; between two chunks alone it is a state."""
        if self.file is not None and self._at_rest and self.epoch:
            state = BundleState(self.lanes, self.records, self._dropped, self.epoch, self._chunk)
            self.file.save(state, self._all)

    @property
    def width(self) -> int:
        """Lanes, dummies included."""
        return len(self.lanes.done)

    @property
    def active(self) -> list[int]:
        """The places in the bundle of the lanes that still train."""
        return [at for at, record in enumerate(self.records) if record.end is None]

    @property
    def checks(self) -> set[Checks]:
        """Those of the lanes that still train; a recipe fixes all of them but the last epoch."""
        return {self.records[at].checks for at in self.active}

    def run(self) -> Iterator[list[Finished]]:
        """Train to the end; finished lanes come out as they are dropped, and an empty list after every chunk.

        Of a bundle that resumes, those come first that had been dropped before.
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
        """The lanes that have stopped and were not handed out yet: what an interruption must not lose."""
        ended = [at for at, record in enumerate(self.records) if record.end is not None and not self._is_out(record)]
        return [lane for lanes in self._hand_out(ended) for lane in lanes]

    @property
    def model_epochs(self) -> int:
        """Epochs behind the lanes that were not handed out yet; one that stopped has them all behind it."""
        left = [record for record in self.records if not self._is_out(record)]
        return sum(self.epoch if record.end is None else record.checks.last for record in left)

    # ---------------------------------------------------------------- epochs

    def _advance(self) -> None:
        """Run a chunk of epochs that ends at a check at the latest."""
        n_epochs = min(self._chunk, *(checks.after(self.epoch) - self.epoch for checks in self.checks))
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
        for at in self.active:
            self.records[at].note(self.epoch, _numbers_of(metrics, at))

    def _end_lanes(self) -> None:
        """End the lanes at their last epoch; those that have ended, here or at a check, change no more."""
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
        """Hand out the lanes that are done and go on with the others on a narrower rung."""
        active, ended = self.active, [at for at, record in enumerate(self.records) if record.end is not None]
        finished = list(self._collect(ended, dropped=True))
        width = rung_above(len(active))
        places = [*active, *[active[0]] * (width - len(active))]
        self.lanes = take(self.lanes, places, len(active))
        self.records, self._n_done = [self.records[at] for at in active], width - len(active)
        return finished

    def _hand_out(self, places: Sequence[int]) -> Iterator[list[Finished]]:
        """The results of these lanes, then all are forgotten; what takes long on the host comes one by one."""
        lanes = self._collect(places)
        one_by_one = any(self.records[at].trial.measures.on_host for at in places)
        for finished in ([lane] for lane in lanes) if one_by_one else [list(lanes)]:
            self._out.update(lane.place for lane in finished)
            yield finished
        self.records = []

    def _is_out(self, record: Record) -> bool:
        return record.place in self._out

    def _collect(self, places: Sequence[int], *, dropped: bool = False) -> Iterator[Finished]:
        """The results of these lanes, each finished when it is asked for; checkpoints keep those that are dropped."""
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
