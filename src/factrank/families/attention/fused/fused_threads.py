"""The CPU backend of the fused engine: worker threads that release the interpreter lock, each training one model.

A worker trains its model in chunks of epochs, on private copies of the arrays, and then replaces the old state by a new
one, so other threads always see a complete state. Kernels give the same bits however a run is divided, so results do
not depend on the number of threads, their order, or the length of chunks.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from types import ModuleType

import jax
import numpy as np

from factrank.errors import InputError
from factrank.experiments import use_compilation_cache
from factrank.families.attention.attention_work import products
from factrank.families.attention.fused.fused_run import RIGHT, Evaluation, Run, State

KERNEL = "factrank.families.attention.fused.fused_cpu"
"""Module of compiled functions; it imports numba, so it is loaded on first use."""

SOURCES = (KERNEL, "factrank.families.attention.fused.simd")
"""Modules whose source determines the computed bits."""

NO_COMPILER = "NUMBA_DISABLE_JIT"
VARIABLE = "FACTRANK_THREADS"
"""Environment variable that limits the number of threads."""

CHUNK_SECONDS = 0.2
"""Approximate time that a worker trains before it stores a state and checks whether to stop."""

HEARTBEAT_SECONDS = 0.2
"""Longest time between signs of life to the caller."""


def thread_count() -> int:
    """Return the number of processors available to this process, or fewer if the environment variable is set."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return usable
    if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 9 or int(wanted) < 1:
        raise InputError(f"{VARIABLE} must be a number of threads, at least 1; got {wanted!r}")
    return min(usable, int(wanted))


class Threads:
    """Trains runs; iteration yields those that have ended, and empty lists while there are none.

    The iterator of runs is advanced when a worker is free. `close` ends the workers after their current chunk, or after
    the compilation that the first of them is waiting for.
    """

    def __init__(self, runs: Iterator[Run], n_runs: int) -> None:
        n_threads = min(thread_count(), n_runs)
        self._runs, self._kernel = runs, kernel()
        self._drawing, self._lock = Lock(), Lock()
        self._news: SimpleQueue[None] = SimpleQueue()  # an interruption inside is harmless, as in an Event
        self._closing = False
        self._flying: dict[int, Run] = {}
        self._failure: BaseException | None = None
        self._working = n_threads
        self._threads = [Thread(target=self._work, name=f"fused-{at}", daemon=True) for at in range(n_threads)]

    def __iter__(self) -> Iterator[list[Run]]:
        for thread in self._threads:
            thread.start()
        working = True
        while working:
            with suppress(Empty):
                self._news.get(timeout=HEARTBEAT_SECONDS)
            working = self._working > 0  # read first: runs that end later notify again
            ended = [run for run in self.in_flight() if run.evaluation is not None]
            yield ended
            with self._lock:
                for run in ended:
                    del self._flying[run.place]
        if self._failure is not None:
            raise self._failure

    def in_flight(self) -> list[Run]:
        """Return the runs that were started and not yet yielded; a yielded run leaves when the next is requested."""
        with self._lock:
            return list(self._flying.values())

    def model_epochs(self) -> int:
        """Return the total number of epochs of the runs in training."""
        return sum(run.state.epoch for run in self.in_flight() if run.evaluation is None)

    def close(self) -> None:
        """Stop the workers and wait for them; states in flight are kept."""
        self._closing = True
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    @staticmethod
    def missing() -> str | None:
        """Return why the CPU cannot be used: its compiler may be disabled."""
        switched_off = os.environ.get(NO_COMPILER, "").strip() not in ("", "0")
        return f"its compiler is switched off by {NO_COMPILER} in the environment" if switched_off else None

    @staticmethod
    def marks() -> dict[str, str]:
        """Return everything on which the bits of a run depend: the processor type, the kernel, and its compiler."""
        from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped] # noqa: PLC0415 - as numba
        from numba import __version__  # noqa: PLC0415 - slow, and needed only by this backend

        kernel()
        texts = [Path(str(sys.modules[name].__file__)).read_bytes() for name in SOURCES]
        digest = hashlib.sha256(b"".join(texts)).hexdigest()
        return {
            "device": f"{platform.machine()} {get_host_cpu_name()}",
            "kernel": f"{digest[:12]} by numba {__version__}",
        }

    # ---------------------------------------------------------------- in the workers

    def _work(self) -> None:
        try:
            budget = 1.0
            while (run := self._next_run()) is not None:
                while not run.ended:
                    if self._closing:
                        return
                    budget = self._advance(run, budget)
                run.evaluation = evaluate(self._kernel, run)
                self._news.put(None)
        except BaseException as error:  # re-raised by the consumer
            self._failure = self._failure or error
            self._closing = True
        finally:
            with self._lock:
                self._working -= 1
            self._news.put(None)

    def _next_run(self) -> Run | None:
        with self._drawing:
            run = None if self._closing else next(self._runs, None)
        if run is not None:
            with self._lock:
                self._flying[run.place] = run
        return run

    def _advance(self, run: Run, budget: float) -> float:
        """Train for about `budget` products; return the budget of the next chunk."""
        each, before = products(run.sizes, len(run.fibers.values)), run.state.epoch
        n_epochs = max(1, int(budget / each))
        started = perf_counter()
        run.state = later_state(self._kernel, run, n_epochs)
        seconds = perf_counter() - started
        if run.state.epoch < before + n_epochs:
            return budget
        # Grow by at most 4x, because the first chunk includes compilation.
        return n_epochs * each * min(4.0, CHUNK_SECONDS / max(seconds, 1e-6))


def later_state(kernel: ModuleType, run: Run, n_epochs: int) -> State:
    """Return the state `n_epochs` later, or at the end of the run."""
    state = run.state
    arrays = state.weights.copy(), state.first.copy(), state.second.copy()
    epoch, records = state.epoch, [state.records]
    for piece in run.pieces(n_epochs):
        noted = np.zeros((len(piece.checks) + 1, RIGHT + 1 + len(run.taus)))
        options = run.numbers, piece.stop_column, run.taus
        epoch, n_noted = kernel.run_epochs(
            arrays, run.fibers.arrays, run.sizes, options, run.trained, piece.span, piece.checks, noted
        )
        if n_noted:
            records.append(noted[:n_noted])
        if epoch < piece.span[1]:
            return State(epoch, *arrays, np.concatenate(records), stopped=True)
    return State(epoch, *arrays, np.concatenate(records) if len(records) > 1 else state.records)


def evaluate(kernel: ModuleType, run: Run) -> Evaluation:
    """Return loss, margins and probabilities of the run's model as it is now."""
    weights, n_facts = run.state.weights, len(run.fibers.values)
    margins, probabilities = np.empty(n_facts), np.empty(n_facts)
    loss = kernel.evaluate(weights, run.fibers.arrays, run.sizes, run.numbers[0], margins, probabilities)
    return Evaluation(float(loss), margins, probabilities)


# -------------------------------------------------------------------- numba


def kernel() -> ModuleType:
    """Return the compiled functions that train."""
    return compiled_module(KERNEL)


@cache
def compiled_module(name: str) -> ModuleType:
    """Return a module of compiled functions; their disk cache is next to JAX's unless NUMBA_CACHE_DIR is set."""
    use_compilation_cache()
    from numba import config  # noqa: PLC0415 - slow, and needed only by this backend

    set_already = config.CACHE_DIR
    beside: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if not set_already and beside and "://" not in beside:
        config.CACHE_DIR = str(Path(beside) / "numba")
    try:
        return import_module(name)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        config.CACHE_DIR = tempfile.mkdtemp(prefix="factrank-")  # nothing else is writable: compile anew each time
        return import_module(name)
    finally:
        config.CACHE_DIR = set_already  # leaves the user's own functions where they were
