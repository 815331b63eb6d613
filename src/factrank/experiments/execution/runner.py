"""The runner: the trials of a study that the store does not have yet, run and stored as they end.

Results are stored about once a second, many in one part, so that a killed run loses at most that second and what was in
flight. The same call later runs only what is missing; the table is the same as that of an undisturbed run, bit for bit
for what the fused engine trains.

A study with searches runs in rounds: the listed trials, then what all searches ask for first, and so on. Bundles are
cut from the list of one round, which follows from the rounds before it alone.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import jax

from factrank.experiments.execution.executors import Executor, LocalExecutor
from factrank.experiments.execution.outcomes import Failure, Outcome
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.execution.trackers import Tracker
from factrank.experiments.lanes import lane_marks
from factrank.experiments.progress import Meter
from factrank.experiments.registry import built_in_families
from factrank.experiments.specs import Trial
from factrank.experiments.store import Row, Store
from factrank.experiments.study import Size, Study, measured_rows, rounds_of
from factrank.experiments.training import TrialResult

PART_SECONDS = 1.0
"""How long a result waits for others that are stored with it, at most."""


@dataclass(frozen=True)
class RunSummary:
    """What a run did: all trials of the study, those stored before, those that ended and failed now.

    Of searches, those trials count that were asked for until the run ended. `interrupted`
    says that Ctrl-C ended it; the same call resumes.
    """

    n_trials: int
    n_before: int
    n_ended: int
    n_failed: int
    seconds: float
    interrupted: bool = False

    @property
    def n_left(self) -> int:
        """Trials that have no row yet."""
        return self.n_trials - self.n_before - self.n_ended - self.n_failed


def run_study(
    study: Study,
    size: Size,
    store: Store,
    *,
    executor: Executor | None = None,
    meter: Meter | None = None,
    tracker: Tracker | None = None,
    rerun_failed: bool = False,
) -> RunSummary:
    """Run the trials of a study that are not finished in the store, and store them.

    Trials whose curves or readings are lost are run again, and so are those without weights if the executor keeps them.
    Trials that failed before are run again with `rerun_failed`. A trial that fails becomes a row with its error, and
    the others go on. Ctrl-C keeps what has ended.
    """
    started = perf_counter()
    recorder: StoreRecorder | None = None
    asked, before, interrupted = set[str](), set[str](), False
    databases = {one.fingerprint: one for one in study.databases}
    try:
        keep_weights = executor is not None and executor.keep_weights
        for trials, wanted in _rounds(study, size, store, rerun_failed, keep_weights):
            before |= {trial.hash for trial in trials} - wanted - asked
            asked |= {trial.hash for trial in trials}
            if not wanted:
                continue
            if recorder is None:
                store.require_writable()
                executor = executor or LocalExecutor(checkpoints=checkpoint_folder(store))
                recorder = StoreRecorder(store, meter, tracker, keep_weights=executor.keep_weights)
            assert executor is not None  # noqa: S101 - for mypy: made with the recorder
            recorder.expect([trial for trial in trials if trial.hash in wanted])
            recorder.tick()
            bundles, failures = study_bundles(trials, wanted, study.databases)
            for failure in failures:
                recorder.take(failure)
            executor.run(bundles, wanted, databases, recorder)
            recorder.flush()  # the next round follows from the store
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if recorder is not None:
            recorder.flush()
    return RunSummary(
        n_trials=len(asked),
        n_before=len(before),
        n_ended=recorder.n_ended if recorder is not None else 0,
        n_failed=recorder.n_failed if recorder is not None else 0,
        seconds=perf_counter() - started,
        interrupted=interrupted,
    )


def _rounds(
    study: Study, size: Size, store: Store, rerun_failed: bool, keep_weights: bool
) -> Iterator[tuple[list[Trial], set[str]]]:
    """Round after round its trials and which of them are to be run; between two rounds the store is read."""
    listed, searches = study.trials_of(size), study.searches_of(size)
    wanted = missing(listed, store, rerun_failed=rerun_failed, keep_weights=keep_weights)
    if listed:
        yield listed, wanted
    tried, at = set(wanted), 0
    while searches:
        rows = stored_rows(store, rerun_failed=rerun_failed, keep_weights=keep_weights, but=tried)
        rounds = rounds_of(searches, rows)
        wanted = set()
        while at < len(rounds) and not wanted:
            wanted = {trial.hash for trial in rounds[at]} - rows.keys()
            tried |= wanted
            yield rounds[at], wanted
            at += 1
        if not wanted:
            return


def missing(
    trials: Sequence[Trial], store: Store, *, rerun_failed: bool = False, keep_weights: bool = False
) -> set[str]:
    """The hashes of the trials that are to be run."""
    finished = store.finished(with_weights=keep_weights)
    return {trial.hash for trial in trials} - (finished if rerun_failed else finished | store.failed())


def stored_rows(
    store: Store, *, rerun_failed: bool = False, keep_weights: bool = False, but: AbstractSet[str] = frozenset()
) -> dict[str, Row]:
    """The measured rows of the trials that are not to be run again, and of those that were run just now (`but`)."""
    done = store.finished(with_weights=keep_weights) | but | (set() if rerun_failed else store.failed())
    return {name: row for name, row in measured_rows(store.trials()).items() if name in done}


def checkpoint_folder(store: Store) -> Path:
    """Where the states of long runs lie: a folder for each kind of device and kernel, on which their bits depend.

    Engines of other packages have no part in its name: states would be lost when a package is added. Each file has the
    marks of its own engine.
    """
    device = jax.local_devices()[0].platform
    engines = [engine.marks(device) for family in built_in_families() for engine in family.engines]
    marks = json.dumps([lane_marks(), *engines], sort_keys=True)
    return store.folder / "checkpoints" / hashlib.sha256(marks.encode()).hexdigest()[:12]


class StoreRecorder:
    """Stores outcomes, about once a second, and shows the progress of a whole study."""

    def __init__(
        self,
        store: Store,
        meter: Meter | None = None,
        tracker: Tracker | None = None,
        *,
        keep_weights: bool = False,
    ) -> None:
        self._store, self._meter, self._tracker, self._keep_weights = store, meter, tracker, keep_weights
        self._waiting: list[Outcome] = []
        self._since = perf_counter()
        self._n_todo = self._n_epochs = self._epochs = 0
        self.n_ended = self.n_failed = 0

    def expect(self, trials: Sequence[Trial]) -> None:
        """Count on the outcomes of further trials."""
        self._n_todo += len(trials)
        self._n_epochs += sum(trial.training.epochs for trial in trials)

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:
        """Keep an outcome; it is stored within a second."""
        self._waiting.append(outcome)
        self._epochs += outcome.trial.training.epochs
        if isinstance(outcome, Failure):
            self.n_failed += 1
        else:
            self.n_ended += 1
        if at_once or self._due():
            self.flush()

    def tick(self, epochs: int = 0) -> None:
        """Show the progress, and store what has waited for long enough."""
        if self._waiting and self._due():
            self.flush()
        if self._meter is not None:
            behind = min(self._epochs + epochs, self._n_epochs)
            self._meter.update(self.n_ended + self.n_failed, self._n_todo, behind, self._n_epochs)

    def flush(self) -> None:
        """Store what waits."""
        outcomes, self._waiting = self._waiting, []
        if outcomes:
            results = [outcome for outcome in outcomes if isinstance(outcome, TrialResult)]
            failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
            try:
                self._store.append(results, failures, keep_weights=self._keep_weights)
            except BaseException:
                self._waiting = outcomes + self._waiting
                raise
            self._track(outcomes)
        self._since = perf_counter()

    def _track(self, outcomes: Sequence[Outcome]) -> None:
        """Tell the tracker; one that fails is a warning and is told nothing more: the results are stored."""
        try:
            if self._tracker is not None:
                self._tracker.log(outcomes)
        except Exception as error:
            self._tracker = None
            warnings.warn(f"the tracker failed and is left out: {error}", stacklevel=2)

    def _due(self) -> bool:
        return perf_counter() - self._since >= PART_SECONDS
