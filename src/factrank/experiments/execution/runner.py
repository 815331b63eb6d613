"""The runner: run the trials of a study that are not in the store yet, and store them as they end.

Results are stored about once per second, many in one part. A killed run therefore loses at most one second of results
and the unfinished trials. The same call resumes the run, and produces the same table as an uninterrupted run, bit for
bit for trials of the fused engine.

A study with searches runs in rounds: the listed trials, then the first round of all searches, and so on. Bundles are
formed within a round, and each round depends only on earlier rounds.
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

from factrank.display import Shown
from factrank.experiments.execution.executors import Executor, LocalExecutor
from factrank.experiments.execution.outcomes import Failure, Outcome
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.execution.trackers import Tracker
from factrank.experiments.lanes import lane_marks
from factrank.experiments.progress import Meter, notebook_meter
from factrank.experiments.registry import built_in_families
from factrank.experiments.specs import Trial
from factrank.experiments.statistics import frozen
from factrank.experiments.store import Row, Store
from factrank.experiments.study import Size, Study, measured_rows, rounds_of
from factrank.experiments.training import TrialResult
from factrank.notebook_progress import tell

PART_SECONDS = 1.0
"""Maximum time in seconds that a result waits for others to be stored in the same part."""


@dataclass(frozen=True)
class RunSummary(Shown):
    """Numbers of trials of a run: all trials of the study, stored before, ended now, failed now.

    Trials of searches count if they were requested before the run ended. If `interrupted`, Ctrl-C ended the run, and
    the same call resumes it.
    """

    n_trials: int
    n_before: int
    n_ended: int
    n_failed: int
    seconds: float
    interrupted: bool = False

    @property
    def n_left(self) -> int:
        """Number of trials without a row."""
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
    """Run and store the trials of a study that are not finished in the store.

    Trials whose curves or readings are lost are run again, as are trials without weights if the executor keeps them. If
    a trial fails, its row contains the error, and the others continue. Ctrl-C keeps trials that have ended: the summary
    is `interrupted`, and the same call resumes.

    Before the first trial of a study, the hashes of its claims are recorded in the store. A claim that is added or
    changed later is exploratory and is not counted (`factrank.experiments.statistics.frozen_claims`).

    Arguments:
        study: The study.
        size: "quick" or "full".
        store: Store to read from and write to.
        executor: Runs the bundles; by default, on this machine.
        meter: Receives progress updates; by default, a line below the cell in notebooks.
        tracker: Receives outcomes after they were stored.
        rerun_failed: Whether to run trials again that failed before.

    >>> import tempfile
    >>> from factrank import LayerShape, Training, generated
    >>> facts, training = generated("unit", n=3), Training(epochs=20)
    >>> def trials(size):
    ...     return [Trial(facts, LayerShape(3, 1, 1, 2), training, seed=seed) for seed in (0, 1)]
    >>> study = Study("mine", "A study of mine", None, "Does it run?", "Two seeds.", trials)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_study(study, "quick", Store(folder)).n_ended
    2
    """
    with notebook_meter(meter) as shown:
        summary = _run(study, size, store, executor, shown, tracker, rerun_failed)
    if summary.interrupted:
        tell(f"interrupted: {summary.n_left:,} of {summary.n_trials:,} trials are left; the same call resumes")
    return summary


def _run(
    study: Study,
    size: Size,
    store: Store,
    executor: Executor | None,
    meter: Meter | None,
    tracker: Tracker | None,
    rerun_failed: bool,
) -> RunSummary:
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
                if not before:  # no result has been seen
                    store.fix_claims(study.name, size, frozen(study.claims))
                executor = executor or LocalExecutor(checkpoints=checkpoint_folder(store))
                recorder = StoreRecorder(store, meter, tracker, keep_weights=executor.keep_weights)
            assert executor is not None  # noqa: S101 - for mypy: set with the recorder
            recorder.expect([trial for trial in trials if trial.hash in wanted])
            recorder.tick()
            bundles, failures = study_bundles(trials, wanted, study.databases)
            for failure in failures:
                recorder.take(failure)
            executor.run(bundles, wanted, databases, recorder)
            recorder.flush()  # the next round is computed from the store
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
    """Yield the trials of each round and the hashes to run; the store is read between rounds."""
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
    """Return the hashes of the trials that have to be run."""
    finished = store.finished(with_weights=keep_weights)
    return {trial.hash for trial in trials} - (finished if rerun_failed else finished | store.failed())


def stored_rows(
    store: Store, *, rerun_failed: bool = False, keep_weights: bool = False, but: AbstractSet[str] = frozenset()
) -> dict[str, Row]:
    """Return the rows of trials that do not have to be run again, and of trials that were just run (`but`)."""
    done = store.finished(with_weights=keep_weights) | but | (set() if rerun_failed else store.failed())
    return {name: row for name, row in measured_rows(store.trials()).items() if name in done}


def checkpoint_folder(store: Store) -> Path:
    """Return the folder for states of long runs, one per kind of device and kernel because their last bits differ.

    Engines of other packages do not affect its name, so installing a package does not hide existing states. Every file
    records the marks of its engine.
    """
    device = jax.local_devices()[0].platform
    engines = [engine.marks(device) for family in built_in_families() for engine in family.engines]
    marks = json.dumps([lane_marks(), *engines], sort_keys=True)
    return store.folder / "checkpoints" / hashlib.sha256(marks.encode()).hexdigest()[:12]


class StoreRecorder:
    """Stores outcomes about once per second, and reports the progress of the study."""

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
        self._n_todo = self._n_epochs = self._epochs = self._shown = 0
        self.n_ended = self.n_failed = 0

    def expect(self, trials: Sequence[Trial]) -> None:
        """Add trials to the total of the progress meter."""
        self._n_todo += len(trials)
        self._n_epochs += sum(trial.training.epochs for trial in trials)

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:
        """Record an outcome; it is stored within about a second."""
        self._waiting.append(outcome)
        self._epochs += outcome.trial.training.epochs
        if isinstance(outcome, Failure):
            self.n_failed += 1
        else:
            self.n_ended += 1
        if at_once or self._due():
            self.flush()

    def tick(self, epochs: int = 0) -> None:
        """Report progress, and store outcomes that are due."""
        if self._waiting and self._due():
            self.flush()
        if self._meter is not None:
            self._shown = max(self._shown, min(self._epochs + epochs, self._n_epochs))  # never goes back
            self._meter.update(self.n_ended + self.n_failed, self._n_todo, self._shown, self._n_epochs)

    def flush(self) -> None:
        """Store all recorded outcomes."""
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
        """Pass outcomes to the tracker. If it fails, warn and stop using it; the results are already stored."""
        try:
            if self._tracker is not None:
                self._tracker.log(outcomes)
        except Exception as error:
            self._tracker = None
            warnings.warn(f"the tracker failed and was disabled: {error}", stacklevel=2)

    def _due(self) -> bool:
        return perf_counter() - self._since >= PART_SECONDS
