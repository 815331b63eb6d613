"""The GPU backend of the fused engine: one model per thread block, compiled at run time by CuPy.

Runs are sent to the device in waves. A wave has runs of one class (`fused_plan`), taken from the queue longest first;
it has its own stream and trains in chunks of epochs. While some waves compute, the host prepares the next ones and
yields the runs that have ended. Results do not depend on waves or chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from factrank.errors import FactrankError
from factrank.families.attention.attention_layer import PARTS
from factrank.families.attention.attention_work import products
from factrank.families.attention.fused.fused_plan import STATIC_BYTES, Class, GpuPlan, Tiles, plan_for
from factrank.families.attention.fused.fused_run import LOSS, RIGHT, Evaluation, Run, State

KERNEL = "fused_gpu_kernel"
KERNEL_PARTS = ("arena.cu", "products.cu", "facts.cu", "loop.cu")
"""Files of the kernel, concatenated in this order."""

CHUNK_SECONDS = 0.4
"""Approximate duration of a launch, after which its runs are inspected."""

SECONDS_PER_PRODUCT, SECONDS_PER_PRODUCT_ALONE = 2e-12, 1e-9
"""Initial estimates of the time per product, with a full device and within one model; later chunks are measured."""

WAVE_RUNS, BUSY_RUNS, RUNS_AHEAD = 1024, 4096, 16384
"""Approximate numbers of runs taken from the queue together, computing, and on the device."""

WAVE_BYTES, BYTES_AHEAD = 2**28, 2**30
"""Approximate bytes of weights and moments of the runs taken together, and of all runs on the device."""

BLOCKS_PER_PROCESSOR = 16
"""Upper limit of resident blocks per multiprocessor; blocks that find the queue empty exit immediately."""

HEARTBEAT_SECONDS, POLL_SECONDS = 0.2, 0.001

COMPILERS = 8
"""Number of classes compiled in parallel."""

FACT_LISTS = ("fibers", "values", "tiles", "key_groups", "query_groups", "by_query")
SIZES = ("n_keys", "n_queries", "n_values", "d_model", "n_heads", "d_qk", "d_vo")
FIELDS = {
    "<i8": ("weights", *FACT_LISTS, "checks", "records", "outcomes", "corrections"),
    "<i4": (
        *(*SIZES, "n_facts", "tile", "n_tiles", "regular", "epoch", "chunk_end", "n_checks", "n_taus"),
        *("stop_column", "trained", "taus", "last_epoch"),
    ),
    "<f4": ("scale", "learning_rate", "shrink", "b1", "b2", "rest_1", "rest_2", "epsilon"),
}
MODEL = np.dtype([(name, kind) for kind, names in FIELDS.items() for name in names], align=True)
"""The struct `Model` of the kernel."""

NO_EPOCHS = np.arange(0)

STOPPED = 2
"""Status of a run that a check has stopped; 1 means that it reached its last epoch."""


# -------------------------------------------------------------------- the device


@cache
def gpu_missing() -> str | None:
    """Return why there is no GPU for this backend, or None if there is one."""
    try:
        import cupy  # noqa: PLC0415 - an extra
    except ImportError:
        return "on a GPU it needs CuPy (pip install 'factrank[cuda]')"
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU ({error})"
    return None if found else "CuPy finds no GPU"


def _source() -> str:
    return "\n".join((files("factrank.families.attention.fused") / KERNEL / part).read_text() for part in KERNEL_PARTS)


@cache
def _kernel(lanes: int, chunks: int, rows: int, registers: int, in_shared: bool) -> Future[Any]:
    """Compile the kernel of a class in the background; CuPy caches it on disk."""

    def compiled() -> Any:
        import cupy  # noqa: PLC0415 - an extra

        settings = {"LANES": lanes, "CHUNKS": chunks, "TILE": rows, "IN_SHARED": int(in_shared)}
        options = [f"-D{name}={value}" for name, value in settings.items()]
        options += ["--std=c++17", "--use_fast_math", f"--maxrregcount={registers}"]
        kernel = cupy.RawModule(code=_source(), options=tuple(options)).get_function("train")
        if in_shared:
            kernel.max_dynamic_shared_size_bytes = shared_room()  # the maximum; each launch requests what it needs
        return kernel

    return _compiler().submit(compiled)


@cache
def _compiler() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(COMPILERS, thread_name_prefix="fused-compiler")


def kernel_of(kind: Class) -> Future[Any]:
    """The kernel of a class, which is compiled when it is first asked for."""
    return _kernel(kind.lanes, kind.chunks, kind.rows, 128 if kind.threads == 512 else 96, kind.in_shared)


# -------------------------------------------------------------------- waves


class Wave:
    """Runs of one class on the device, from upload to end; `training` are the places of unfinished runs."""

    def __init__(self, kind: Class, runs: Sequence[Run], plans: Sequence[GpuPlan], tiles: Sequence[Tiles]) -> None:
        import cupy  # noqa: PLC0415 - an extra

        self.n_bytes = sum(map(state_bytes, runs))
        self.kind, self.runs, self.training, self.busy = kind, list(runs), list(range(len(runs))), False
        self._cupy, self._arena = cupy, max(plan.arena for plan in plans)
        self._stream, self._begun, self._event = (
            cupy.cuda.Stream(non_blocking=True),
            cupy.cuda.Event(),
            cupy.cuda.Event(),
        )
        self._reached = [run.state.epoch for run in runs]
        self._records = [[run.state.records] for run in runs]
        self._chunk, self._kernel = _first_chunk(runs), kernel_of(kind)
        with self._stream:
            self._upload(plans, tiles)

    @property
    def model_epochs(self) -> int:
        """Total epochs of the unfinished runs, as of the last collected chunk."""
        return sum(self._reached[place] for place in self.training)

    def ready(self) -> bool:
        """Return whether the kernel is compiled."""
        return self._kernel.done()

    def done(self) -> bool:
        """Return whether the chunk in flight has ended."""
        return bool(self._event.done)

    def launch(self) -> None:
        """Launch the next chunk of epochs of every unfinished run."""
        models = self._models[self.training]
        starts = np.array([self._reached[place] for place in self.training])
        stops = np.minimum(starts + self._chunk, models["last_epoch"])
        spans = zip(self.training, starts.tolist(), stops.tolist(), strict=True)
        looks = [_looks(self.runs[place], start, stop) for place, start, stop in spans]
        n_checks, columns = np.array(list(map(len, looks))), RIGHT + 1 + models["n_taus"]
        self._rows = _begins((n_checks + 1) * columns)
        models["epoch"], models["chunk_end"], models["n_checks"] = starts, stops, n_checks
        models["checks"], models["records"] = _begins(n_checks)[:-1], self._rows[:-1]
        with self._stream:
            self._start_kernel(models, np.concatenate([*looks, [0]]).astype(np.int32))
        self._since, self.busy = perf_counter(), True

    def collect(self) -> list[Run]:
        """Wait for the chunk in flight, and return the runs that have ended, evaluated."""
        self._event.synchronize()
        self.busy, seconds = False, perf_counter() - self._since
        with self._stream:
            progress, noted = self._progress.get(), self._noted.get()
        if progress[:, 3].any():
            raise FactrankError("an arena is smaller than its model: fused_plan.py and fused_gpu_kernel disagree")
        ended: dict[int, tuple[bool, float]] = {}
        for at, (place, (epoch, n_noted, end, _)) in enumerate(zip(self.training, progress.tolist(), strict=True)):
            rows = noted[self._rows[at] : self._rows[at + 1]].reshape(-1, RIGHT + 1 + len(self.runs[place].taus))
            self._reached[place] = epoch
            rows[:, LOSS] = np.maximum(rows[:, LOSS], 0)  # rounding may make a loss slightly negative
            if n_noted:
                self._records[place].append(rows[:n_noted].copy())
            if end:
                ended[place] = end == STOPPED or self.runs[place].state.stopped, float(rows[n_noted, LOSS])
        self.training = [place for place in self.training if place not in ended]
        # Change by at most 4x, because other waves compute at the same time.
        wanted = int(self._chunk * CHUNK_SECONDS / max(seconds, 1e-6))
        self._chunk = max(1, self._chunk // 4, min(4 * self._chunk, wanted))
        return self._hand_out(ended) if ended else []

    def kernel_seconds(self) -> float:
        """Wait for the chunk in flight, and return its compute time; for benchmarks."""
        self._event.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(self._begun, self._event)) / 1e3

    def settle(self) -> None:
        """Store the reached states in the unfinished runs; no chunk may be in flight."""
        with self._stream:
            states = self._states.get()
        for place in self.training:
            self.runs[place].state = self._state(place, states, stopped=False)

    # ---------------------------------------------------------------- transfers

    def _upload(self, plans: Sequence[GpuPlan], tiles: Sequence[Tiles]) -> None:
        """Upload states, facts and numbers of all runs."""
        runs = self.runs
        states = [(run.state.weights, run.state.first, run.state.second) for run in runs]
        self._states = self._cupy.asarray(np.stack([np.concatenate(kind) for kind in zip(*states, strict=True)]))
        self._weights = _begins([len(run.state.weights) for run in runs])
        self._fibers = _begins([len(run.fibers.keys) for run in runs])
        self._outcomes = self._cupy.empty((self._fibers[-1], 2), dtype=np.float32)
        self._integers, lists = self._joined({id(each): each.integers for each in tiles})
        longest = max(run.trial.training.epochs for run in runs)
        self._corrections, pairs = self._joined(
            {run.numbers[3:5]: adam_corrections(*run.numbers[3:5], longest) for run in runs}
        )
        self._taus, taus = self._joined({tuple(run.taus): run.taus.astype(np.float32) for run in runs})
        n_runs, trainings = len(runs), [run.trial.training for run in runs]
        trained = [sum(1 << bit for bit, part in enumerate(PARTS) if part not in each.frozen) for each in trainings]
        scale, rate, decay, b1, b2, epsilon = zip(*(run.numbers for run in runs), strict=True)
        columns = {
            "weights": self._weights[:-1],
            "outcomes": self._fibers[:-1],
            "corrections": [pairs[run.numbers[3:5]] for run in runs],
            "taus": [taus[tuple(run.taus)] for run in runs],
            **{name: [lists[id(each)] + each.starts[name] for each in tiles] for name in FACT_LISTS},
            **dict(zip(SIZES, zip(*(run.sizes for run in runs), strict=True), strict=True)),
            "n_facts": [len(run.fibers.values) for run in runs],
            "tile": [plan.tile for plan in plans],
            "n_tiles": [each.n_tiles for each in tiles],
            "regular": [each.regular for each in tiles],
            "n_taus": [len(run.taus) for run in runs],
            "stop_column": [run.stop_column for run in runs],
            "trained": trained,
            "last_epoch": [run.state.epoch if run.state.stopped else run.trial.training.epochs for run in runs],
            "scale": scale,
            "learning_rate": rate,
            "shrink": np.multiply(rate, decay),
            "b1": b1,
            "b2": b2,
            "rest_1": 1 - np.array(b1),
            "rest_2": 1 - np.array(b2),
            "epsilon": epsilon,
        }
        self._models = np.zeros(n_runs, dtype=MODEL)
        for name, column in columns.items():
            self._models[name] = column

    def _joined(self, parts: dict[Any, Any]) -> tuple[Any, dict[Any, int]]:
        """Concatenate arrays on the device, and return the offset of each."""
        begins = dict(zip(parts, _begins(list(map(len, parts.values()))).tolist(), strict=False))
        return self._cupy.asarray(np.concatenate(list(parts.values()))), begins

    def _start_kernel(self, models: Any, checks: Int32[np.ndarray, " checks"]) -> None:
        cupy, kind, kernel = self._cupy, self.kind, self._kernel.result()
        shared = 4 * self._arena if kind.in_shared else 0
        n_blocks = min(len(models), processors() * (BLOCKS_PER_PROCESSOR if kind.in_shared else 1))
        spare = cupy.empty(1 if kind.in_shared else n_blocks * self._arena, dtype=np.float32)
        self._progress = cupy.zeros((len(models), 4), dtype=np.int32)
        self._noted = cupy.empty(int(self._rows[-1]), dtype=np.float64)
        queue = cupy.asarray(models.view(np.uint8)), np.int32(len(models)), cupy.zeros(1, dtype=np.int32)
        inputs = spare, np.int32(self._arena), self._integers, self._corrections, self._taus, cupy.asarray(checks)
        outputs = self._states, np.int64(self._weights[-1]), self._noted, self._outcomes, self._progress
        self._begun.record()
        kernel((n_blocks,), (kind.threads,), (*queue, *inputs, *outputs), shared_mem=shared)
        self._keep = queue, inputs  # alive until the launch has ended
        self._event.record()

    def _hand_out(self, ended: dict[int, tuple[bool, float]]) -> list[Run]:
        with self._stream:
            states, outcomes = self._states.get(), self._outcomes.get()
        for place, (stopped, loss) in ended.items():
            run = self.runs[place]
            run.state = self._state(place, states, stopped=stopped)
            margins, probabilities = outcomes[self._fibers[place] : self._fibers[place + 1]].T
            if len(run.fibers.values) > len(run.fibers.keys):  # all facts of a fiber share its numbers
                margins, probabilities = (
                    np.repeat(row, np.diff(run.fibers.starts)) for row in (margins, probabilities)
                )
            run.evaluation = Evaluation(loss, margins.copy(), probabilities.astype(float))
        return [self.runs[place] for place in ended]

    def _state(self, place: int, states: Float32[np.ndarray, "3 n"], *, stopped: bool) -> State:
        weights, first, second = states[:, self._weights[place] : self._weights[place + 1]].copy()
        return State(self._reached[place], weights, first, second, np.concatenate(self._records[place]), stopped)


def state_bytes(run: Run) -> int:
    """Return the bytes of the weights and the two moments of a run, in float32."""
    return 12 * len(run.state.weights)


def _begins(lengths: Any) -> Any:
    """Return the offsets of concatenated lists, and their total length."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _looks(run: Run, start: int, stop: int) -> Any:
    """Return the epochs of the checks of a chunk; the bitwise complement if the run must not stop there."""
    if run.checks.every is None and not run.checks.at:
        return NO_EPOCHS
    epochs = run.checks.between(start, stop)
    if run.stop_column == 0 or not run.checks.at:
        return epochs
    return np.array([epoch if run.checks.regularly(epoch) else ~epoch for epoch in epochs.tolist()], dtype=np.int64)


def _first_chunk(runs: Sequence[Run]) -> int:
    every = [products(run.sizes, len(run.fibers.values)) for run in runs]
    per_epoch = max(sum(every) * SECONDS_PER_PRODUCT, max(every) * SECONDS_PER_PRODUCT_ALONE)
    return max(1, int(CHUNK_SECONDS / per_epoch))


@lru_cache(maxsize=64)
def adam_corrections(b1: float, b2: float, n_epochs: int) -> Float32[np.ndarray, "epochs 2"]:
    """Return the bias corrections 1 / (1 - b^t) of Adam at step t = epoch + 1."""
    steps = np.arange(1, n_epochs + 2)
    return np.stack([1 / (1 - b1**steps), 1 / (1 - b2**steps)], axis=1).astype(np.float32)


@cache
def shared_room() -> int:
    """Return the bytes of shared memory available to a block, in addition to its static allocation."""
    import cupy  # noqa: PLC0415 - an extra

    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]) - STATIC_BYTES


@cache
def processors() -> int:
    """The multiprocessors of the device."""
    import cupy  # noqa: PLC0415 - an extra

    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


# -------------------------------------------------------------------- the backend


class Blocks:
    """Trains runs from an iterator on the GPU.

    A single thread does all work on the device. An interruption reaches only the main thread, so it never leaves a wave
    between two states.
    """

    def __init__(self, runs: Iterator[Run], n_runs: int) -> None:  # noqa: ARG002 - used by Threads
        self._runs, self._waves, self._ended = runs, list[Wave](), list[Run]()
        self._tiles = dict[tuple[int, int], Tiles]()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._settled: SimpleQueue[None] = SimpleQueue()
        self._settling = self._closing = False
        self._failure: BaseException | None = None
        self._working = True
        self._thread = Thread(target=self._work, name="fused-gpu", daemon=True)

    def __iter__(self) -> Iterator[list[Run]]:
        """Yield lists of finished and evaluated runs, and empty lists a few times per second while there are none."""
        self._thread.start()
        working = True
        while working:
            with suppress(Empty):
                self._news.get(timeout=HEARTBEAT_SECONDS)
            working = self._working  # read first: runs that end later notify again
            ended = list(self._ended)
            yield ended
            del self._ended[: len(ended)]  # not earlier, so an interruption loses none
        if self._failure is not None:
            raise self._failure

    def model_epochs(self) -> int:
        """Return the total number of epochs of the runs in flight."""
        return sum(wave.model_epochs for wave in list(self._waves))

    def in_flight(self) -> list[Run]:
        """Return the runs started and not yet yielded, with their newest states; waits for chunks in flight."""
        if self._thread.is_alive():
            self._settling = True
            while self._working:
                with suppress(Empty):
                    self._settled.get(timeout=HEARTBEAT_SECONDS)
                    break
        return [*self._ended, *(wave.runs[place] for wave in list(self._waves) for place in wave.training)]

    def close(self) -> None:
        """Launch no more chunks, and wait for those in flight; their runs keep the states reached."""
        self._closing = True
        if self._thread.ident is not None:
            self._thread.join()

    @staticmethod
    def missing() -> str | None:
        """Return why there is no usable GPU, or None if there is one."""
        return gpu_missing()

    @staticmethod
    def marks() -> dict[str, str]:
        """Return everything on which the bits of a run depend: the device, the kernel, and its compiler."""
        import cupy  # noqa: PLC0415 - an extra

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        digest = hashlib.sha256(_source().encode()).hexdigest()
        compiler = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        return {"device": name, "kernel": f"{digest[:12]} by nvrtc {compiler}"}

    # ---------------------------------------------------------------- in the thread

    def _work(self) -> None:
        try:
            exhausted = False
            while not self._closing and not (exhausted and not self._waves):
                if not exhausted and self._has_room():
                    exhausted = not self._take_wave()
                self._go_on()
                if self._settling:
                    self._settle()
                    self._settling = False
                    self._settled.put(None)
                elif exhausted or not self._waves:
                    sleep(POLL_SECONDS)
            self._settle()
        except BaseException as error:  # re-raised by the consumer
            self._failure = error
        finally:
            self._working = False
            self._news.put(None)

    def _has_room(self) -> bool:
        n_runs, n_bytes = sum(len(wave.training) for wave in self._waves), sum(wave.n_bytes for wave in self._waves)
        return n_runs < RUNS_AHEAD and n_bytes < BYTES_AHEAD

    def _take_wave(self) -> bool:
        """Prepare the next runs of the queue, one wave per class; return False if there are none."""
        groups: dict[Class, list[tuple[Run, GpuPlan, Tiles]]] = {}
        n_bytes = 0
        for run in islice(self._runs, WAVE_RUNS):
            plan = plan_for(run.sizes, len(run.fibers.keys), len(run.taus), shared_room())
            groups.setdefault(plan.kind, []).append((run, plan, self._tiles_of(run, plan.tile)))
            n_bytes += state_bytes(run)
            if n_bytes > WAVE_BYTES:
                break
        for kind, entries in groups.items():
            runs, plans, tiles = zip(*entries, strict=True)
            self._waves.append(Wave(kind, runs, plans, tiles))
        return bool(groups)

    def _tiles_of(self, run: Run, tile: int) -> Tiles:
        """Return the tiles of the run's facts, shared by all runs with these facts while one is training."""
        key = id(run.fibers), tile
        if key not in self._tiles:
            self._tiles[key] = Tiles.of(run.fibers, tile, run.sizes[0] * run.sizes[1], run.sizes[1])
        return self._tiles[key]

    def _go_on(self) -> None:
        """Collect chunks that have ended, and launch the next ones."""
        self._collect([wave for wave in self._waves if wave.busy and wave.done()])
        n_busy = sum(len(wave.training) for wave in self._waves if wave.busy)
        for wave in self._waves:
            if not wave.busy and n_busy < BUSY_RUNS and wave.ready():
                wave.launch()
                n_busy += len(wave.training)

    def _settle(self) -> None:
        """Copy the states of all runs to the host."""
        self._collect([wave for wave in self._waves if wave.busy])
        for wave in self._waves:
            wave.settle()

    def _collect(self, waves: Sequence[Wave]) -> None:
        for wave in waves:
            ended = wave.collect()
            if ended:
                self._ended.extend(ended)
                self._news.put(None)
        self._waves = [wave for wave in self._waves if wave.training]
