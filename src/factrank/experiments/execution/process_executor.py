"""Run bundles in several processes of this machine, which share its cores or its GPU.

A small model leaves most of a GPU idle, and a program that is compiled leaves all of it idle. Processes overlap both:
each takes the largest bundle that is left, reports results and progress when they arrive, and keeps the programs that
it has compiled. On a GPU start NVIDIA's multi-process service first (`nvidia-cuda-mps-control -d`), so kernels of
several processes run at the same time.

The bundles are the same as on one process, so the results are the same bits. If a process dies, its bundle runs again,
and after that in halves until the failing trial is found. On KeyboardInterrupt, processes keep the states of their
trials as checkpoints, and results that have ended are recorded.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from factrank.errors import InputError
from factrank.experiments.bundles import Bundle
from factrank.experiments.execution.executors import (
    Databases,
    Recorder,
    fingerprints,
    require_known_elsewhere,
    run_bundle,
)
from factrank.experiments.execution.outcomes import Failure, Outcome
from factrank.experiments.execution.study_bundles import bundles_again
from factrank.experiments.specs import Data, Trial

WAIT_SECONDS = 0.25
LAST_WORDS_SECONDS = 30.0
"""How long an interrupted process may take to write its checkpoint."""

NOT_STARTED = (
    "the processes cannot start: the first one ended with exit code {} before it read its trials; in a script, run the "
    'study below `if __name__ == "__main__":`, and import the classes of trials from a module'
)

NO_PREALLOCATION = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""JAX reserves most of a GPU's memory for the first process unless this is set before it starts."""


class _Order(NamedTuple):
    """A bundle for a process, which prepares it again."""

    trials: tuple[Trial, ...]
    padded: bool
    wanted: frozenset[str]
    keep_weights: bool
    checkpoints: Path | None
    given: tuple[Data, ...]


class _Progress(NamedTuple):
    """Epochs completed by the unfinished models of a bundle."""

    epochs: int


class _Done(NamedTuple):
    """The end of a bundle: all of its trials have ended. A process that is interrupted ends without it."""


_News = Outcome | _Progress | _Done


@dataclass(frozen=True)
class ProcessExecutor:
    """Runs bundles in several processes.

    Arguments:
        processes: Number of processes.
        keep_weights: Whether results include the trained models.
        checkpoints: Folder for the states of long runs, from which they resume.
    """

    processes: int
    keep_weights: bool = False
    checkpoints: Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.processes, bool) or self.processes < 1:
            raise InputError(f"the number of processes must be 1 or more; got {self.processes}")
        for name, value in NO_PREALLOCATION.items():
            os.environ.setdefault(name, value)

    def run(
        self, bundles: Sequence[Bundle], wanted: AbstractSet[str], databases: Databases, recorder: Recorder
    ) -> None:
        """Run the bundles."""
        require_known_elsewhere(bundles, "other processes")
        each = _EachOnce(recorder)
        waiting = deque(sorted(bundles, key=lambda bundle: bundle.products, reverse=True))
        died = set[tuple[int, ...]]()
        workers = [_Worker.start() for _ in range(min(self.processes, len(waiting)))]
        try:
            while waiting or any(worker.bundle is not None for worker in workers):
                for worker in workers:
                    if worker.bundle is None and waiting:
                        bundle = waiting.popleft()
                        worker.give(bundle, self._order(bundle, wanted, databases))
                _listen(workers, WAIT_SECONDS, each)
                for at, worker in enumerate(workers):
                    if not worker.process.is_alive() and worker.bundle is not None:
                        waiting.extendleft(_left_of(worker, died, wanted, each))
                        worker.end()
                        workers[at] = _Worker.start()
                recorder.tick(sum(worker.epochs for worker in workers))
        except KeyboardInterrupt:
            _interrupt(workers, each)
            raise
        finally:
            for worker in workers:
                worker.end()

    def _order(self, bundle: Bundle, wanted: AbstractSet[str], databases: Databases) -> _Order:
        trials = bundle.trials
        given = tuple(databases[name] for name in fingerprints(trials))
        own = frozenset(wanted & {trial.hash for trial in trials})
        return _Order(trials, bundle.padded, own, self.keep_weights, self.checkpoints, given)


class _EachOnce:
    """A recorder that takes one outcome of each trial: a bundle that runs again repeats those that had ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.ended: set[str] = set()

    def take(self, outcome: Outcome) -> None:
        if outcome.trial.hash not in self.ended:
            self.ended.add(outcome.trial.hash)
            self._recorder.take(outcome)


@dataclass
class _Worker:
    """A process, and the bundle that it runs."""

    process: BaseProcess
    link: Connection
    bundle: Bundle | None = None
    epochs: int = 0
    answered: bool = False

    @classmethod
    def start(cls) -> _Worker:
        context = get_context("spawn")
        link, its_link = context.Pipe()
        process = context.Process(target=_work, args=(its_link,), daemon=True)
        process.start()
        its_link.close()
        return cls(process, link)

    def give(self, bundle: Bundle, order: _Order) -> None:
        self.bundle, self.epochs = bundle, 0
        with suppress(OSError):  # it has died, which the next round finds out
            self.link.send(order)

    def take(self, news: _News, recorder: _EachOnce) -> None:
        self.answered = True
        if isinstance(news, _Progress):
            self.epochs = news.epochs
        elif isinstance(news, _Done):
            self.bundle, self.epochs = None, 0
        else:
            recorder.take(news)

    def end(self) -> None:
        self.link.close()
        self.process.terminate()
        self.process.join()


def _listen(workers: Sequence[_Worker], seconds: float, recorder: _EachOnce) -> None:
    """Take what the processes report within this time."""
    by_link = {worker.link: worker for worker in workers if worker.bundle is not None}
    for link in wait(list(by_link), seconds):
        worker = by_link[link]  # type: ignore[index] # only our links are waited for
        with suppress(EOFError, OSError):  # it has died
            while worker.link.poll():
                worker.take(worker.link.recv(), recorder)


def _left_of(
    worker: _Worker, died: set[tuple[int, ...]], wanted: AbstractSet[str], recorder: _EachOnce
) -> list[Bundle]:
    """Return the bundle of a process that died, in two halves if it `died` before; then a single trial has failed."""
    _listen([worker], 0.0, recorder)
    bundle, code = worker.bundle, worker.process.exitcode
    if bundle is None:
        return []
    if not worker.answered and code is not None and code > 0:  # a signal is no mistake of the caller
        raise InputError(NOT_STARTED.format(code))
    if bundle.places not in died:
        died.add(bundle.places)
        return [bundle]
    left = bundle.among({trial.hash for trial in bundle.trials} - recorder.ended)
    if len(left.members) > 1:
        return left.halves()
    for trial in left.trials:
        if trial.hash in wanted:
            recorder.take(Failure(trial, f"its process ended with exit code {code}; is there enough memory?"))
    return []


def _interrupt(workers: Sequence[_Worker], recorder: _EachOnce) -> None:
    """Interrupt all processes, and record what they report until they have written their checkpoints."""
    for worker in workers:
        if worker.bundle is not None and worker.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(worker.process.pid, signal.SIGINT)
    ends = monotonic() + LAST_WORDS_SECONDS
    while monotonic() < ends and any(worker.bundle is not None and worker.process.is_alive() for worker in workers):
        _listen(workers, WAIT_SECONDS, recorder)
    _listen(workers, 0.0, recorder)  # what a process said right before it ended


# -------------------------------------------------------------------- in the process


class _Reporter:
    """A recorder that sends everything to the process that started this one."""

    def __init__(self, link: Connection) -> None:
        self._link = link

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:  # noqa: ARG002 - it is sent at once
        self._link.send(outcome)

    def tick(self, epochs: int = 0) -> None:
        self._link.send(_Progress(epochs))


def _work(link: Connection) -> None:
    """Run bundles until there are no more, or this process is interrupted."""
    os.setsid()  # Ctrl-C in a terminal reaches the first process alone, which tells the others once
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            order: _Order = link.recv()
            link.send(_Progress(0))
            _run(order, _Reporter(link))
            link.send(_Done())


def _run(order: _Order, reporter: _Reporter) -> None:
    bundles, failures = bundles_again(order.trials, order.given, padded=order.padded)
    for failure in failures:
        if failure.trial.hash in order.wanted:
            reporter.take(failure)
    for bundle in bundles:
        run_bundle(bundle, order.wanted, reporter, keep_weights=order.keep_weights, checkpoints=order.checkpoints)
