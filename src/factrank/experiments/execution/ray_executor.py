"""Run bundles on a Ray cluster (extra `ray`), on all its CPU cores and GPUs.

Bundles of the fused engine are split into small ones, and the largest run first. Each bundle is a task for one core or
one GPU. Tasks return results without models unless weights are kept. If a worker dies, Ray retries the task, and then
it is split in halves. Results are recorded when they arrive, so a lost machine loses only its current tasks. All
machines need the same version of factrank; databases that trials refer to are sent along.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from time import sleep
from typing import Any, Literal

from factrank.errors import InputError
from factrank.experiments.bundles import Bundle
from factrank.experiments.execution.executors import (
    Databases,
    Recorder,
    fingerprints,
    require_known_elsewhere,
    run_bundle,
)
from factrank.experiments.execution.outcomes import Failure, Outcome, describe
from factrank.experiments.execution.study_bundles import bundles_again
from factrank.experiments.specs import Data, Trial

RETRIES = 3
"""How often Ray restarts a task whose worker died."""

LEAST_PRODUCTS, MOST_PRODUCTS = 1e9, 4e10
"""Work per task of the fused engine: about 0.5 to 20 seconds on one core."""

TASKS_PER_CORE = 8
GPU_FACTOR = 64
"""How many times larger the bundles of a GPU are, which trains many models in parallel."""

WAIT_SECONDS = 0.25

CONNECT_SECONDS = 10.0
"""Timeout for connecting to a cluster."""

Kind = Literal["cpu", "gpu"]
ONE_CORE = {"FACTRANK_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


@dataclass
class RayExecutor:
    """Runs bundles on the cluster that `ray.init` finds: RAY_ADDRESS, a running cluster, or a new local one."""

    keep_weights: bool = False
    address: str | None = None
    _ray: Any = field(default=None, repr=False)

    def run(
        self, bundles: Sequence[Bundle], wanted: AbstractSet[str], databases: Databases, recorder: Recorder
    ) -> None:
        """Run the bundles."""
        require_known_elsewhere(bundles, "the workers of a Ray cluster")
        self._ray = _ray()
        ours = not self._ray.is_initialized()
        if ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
            _require_reachable(self.address or os.environ.get("RAY_ADDRESS", ""))
            with warnings.catch_warnings():  # forked processes exec immediately, so JAX is unaffected
                warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
                self._ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
        try:
            _Flight(self._ray, wanted, databases, recorder, keep_weights=self.keep_weights).run(bundles)
        finally:
            if ours:
                self._ray.shutdown()


def _require_reachable(address: str) -> None:
    """Test the connection, because Ray itself waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {error}") from None


class _Flight:
    """Tasks of one run, at most one per core and per GPU."""

    def __init__(
        self, ray: Any, wanted: AbstractSet[str], databases: Databases, recorder: Recorder, *, keep_weights: bool
    ) -> None:
        self._ray, self._wanted, self._recorder, self._keep_weights = ray, wanted, recorder, keep_weights
        self._databases = {fingerprint: ray.put(database) for fingerprint, database in databases.items()}
        self._tasks: dict[Any, tuple[Kind, Bundle]] = {}
        self._waiting: deque[Bundle] = deque()
        cpu: dict[str, Any] = {"num_cpus": 1, "runtime_env": {"env_vars": ONE_CORE}}
        options: dict[Kind, dict[str, Any]] = {"cpu": cpu, "gpu": {"num_cpus": 1, "num_gpus": 1}}
        self._remote = {
            kind: ray.remote(_run_task).options(max_retries=RETRIES, **wanted) for kind, wanted in options.items()
        }

    def run(self, bundles: Sequence[Bundle]) -> None:
        small = [part for bundle in bundles for part in self._cut(bundle)]
        self._waiting = deque(sorted(small, key=lambda bundle: bundle.products, reverse=True))
        try:
            while self._waiting or self._tasks:
                self._submit()
                for task in self._ready(WAIT_SECONDS):
                    self._take(task)
                self._recorder.tick()
        except BaseException as reason:
            self._end(keep=isinstance(reason, KeyboardInterrupt))
            raise

    def _slots(self) -> dict[Kind, int]:
        """Count the cores and GPUs of the cluster now; one core is reserved for each GPU."""
        found = self._ray.cluster_resources()
        gpus = int(found.get("GPU", 0))
        return {"cpu": max(int(found.get("CPU", 1)) - gpus, 0 if gpus else 1), "gpu": gpus}

    def _cut(self, bundle: Bundle) -> list[Bundle]:
        """Split a bundle into parts of about equal work; bundles of lanes are not split."""
        if bundle.engine is None:
            return [bundle]
        slots = self._slots()
        workers = slots["cpu"] + GPU_FACTOR * slots["gpu"]
        most = min(max(bundle.products / (TASKS_PER_CORE * max(workers, 1)), LEAST_PRODUCTS), MOST_PRODUCTS)
        parts, taken = list[set[str]](), most
        for member in bundle.members:
            if taken + member.products > most or not parts:
                parts.append(set())
                taken = 0
            parts[-1].add(member.trial.hash)
            taken += member.products
        return [bundle.among(part) for part in parts]

    def _submit(self) -> None:
        """Start tasks on all free cores and GPUs; the largest bundles run on GPUs, several per task."""
        slots = self._slots()
        for kind in ("gpu", "cpu"):
            busy = sum(1 for used, _ in self._tasks.values() if used == kind)
            while self._waiting and busy < slots[kind]:
                self._start(kind, self._next(kind))
                busy += 1

    def _next(self, kind: Kind) -> Bundle:
        bundle = self._waiting.popleft()
        taken = [bundle]
        while kind == "gpu" and bundle.engine is not None and len(taken) < GPU_FACTOR and self._waiting:
            if self._waiting[0].engine is not bundle.engine or len(self._waiting) <= len(taken):
                break
            taken.append(self._waiting.popleft())
        members, places = zip(*((one.members, one.places) for one in taken), strict=True)
        return Bundle(tuple(chain(*members)), tuple(chain(*places)))

    def _start(self, kind: Kind, bundle: Bundle) -> None:
        trials, wanted = bundle.trials, self._wanted & {trial.hash for trial in bundle.trials}
        given = [self._databases[name] for name in fingerprints(trials)]
        self._tasks[self._remote[kind].remote(trials, bundle.padded, wanted, self._keep_weights, *given)] = kind, bundle

    def _ready(self, seconds: float) -> list[Any]:
        """Wait up to this many seconds for tasks that have ended."""
        if not self._tasks:
            sleep(seconds)  # no free core
            return []
        first, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        others, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return others if first else []

    def _take(self, task: Any) -> None:
        """Record the results of a task; if its worker died repeatedly, split the bundle to find the failing trial."""
        _, bundle = self._tasks.pop(task)
        try:
            outcomes: list[Outcome] = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            if len(bundle.members) > 1:
                for half in bundle.halves():
                    self._waiting.appendleft(half)
                return
            outcomes = [Failure(trial, describe(error)) for trial in bundle.trials if trial.hash in self._wanted]
        for outcome in outcomes:
            self._recorder.take(outcome)

    def _end(self, *, keep: bool) -> None:
        """Cancel all tasks; if `keep`, record finished ones first."""
        for task in self._ready(0.0) if keep else []:
            self._take(task)
        for task in self._tasks:
            self._ray.cancel(task, force=True)


class _Collected:
    """Collects the outcomes of one task."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:  # noqa: ARG002
        self.outcomes.append(outcome)

    def tick(self, epochs: int = 0) -> None:
        pass


def _run_task(
    trials: Sequence[Trial], padded: bool, wanted: AbstractSet[str], keep_weights: bool, *given: Data
) -> list[Outcome]:
    """Run the trials of a bundle on a worker, prepared for its device, and return their outcomes."""
    collected = _Collected()
    bundles, failures = bundles_again(trials, given, padded=padded)
    collected.outcomes += [failure for failure in failures if failure.trial.hash in wanted]
    for bundle in bundles:
        run_bundle(bundle, wanted, collected, keep_weights=keep_weights)
    return collected.outcomes


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise InputError("a Ray cluster needs the extra ray: pip install 'factrank[ray]'") from None
