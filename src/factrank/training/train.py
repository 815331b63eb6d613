"""Train one model, or thousands: trials in, results out."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from time import perf_counter
from typing import Any

import jax

from factrank.databases import Database
from factrank.errors import InputError
from factrank.models import LayerShape, TransformerShape
from factrank.models.weights import on_device
from factrank.training.bundle import Finished, Status
from factrank.training.facts_task import FactsTask
from factrank.training.lanes_engine import run_lanes
from factrank.training.progress import Meter
from factrank.training.task import Task, tau_recall
from factrank.training.trial import DatabaseSpec, Given, Measures, ModelSpec, Training, Trial

TASKS: dict[type, Callable[[Trial, Database], Task]] = {LayerShape: FactsTask, TransformerShape: FactsTask}
"""What a model is trained on, by the class of its specification."""


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What came of one trial.

    `metrics` holds `loss`, `recall`, `recall_<tau>`, `margin`, `median_margin` and, where asked for,
    `artifacts_<tau>`, over all facts. `curves` has one entry per epoch of the trial's `curve_epochs` up to its end;
    `epochs_to` the first check with full recall, or None. `seconds` is the trial's share of the time of its bundle.
    """

    trial: Trial
    status: Status
    epochs: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[float | int]] = field(default_factory=dict)
    epochs_to: dict[str, int | None] = field(default_factory=dict)
    engine: str = ""
    device: str = ""
    width: int = 0
    seconds: float = 0.0
    weights: Any = None
    """The trained model with its weights on the host; None when there is none."""

    @cached_property
    def model(self) -> Any:
        """The trained model. In float64, JAX computes with it in 64 bits only inside `with jax.enable_x64(True):`."""
        if self.weights is None:
            raise InputError(f"the trial was {self.status}: it has no model")
        return on_device(self.weights)

    @property
    def recall(self) -> float:
        """Share of facts that argmax gets right."""
        return self.metrics.get("recall", float("nan"))

    @property
    def recall_tau(self) -> float:
        """Share of facts that softmax>=tau gets right, for the first tau of the trial."""
        return self.metrics.get(tau_recall(self.trial.measures.taus[0]), float("nan"))


def train(
    database: Database,
    model: ModelSpec,
    training: Training | None = None,
    *,
    seed: int = 0,
    measures: Measures | None = None,
    curve_epochs: Sequence[int] = (),
    meter: Meter | None = None,
) -> TrialResult:
    """Train one model on a database.

    >>> from factrank.databases import sample
    >>> from factrank.models import LayerShape
    >>> result = train(sample("astrid"), LayerShape(d_model=4, n_heads=1, d_qk=2, d_vo=2), Training(epochs=500))
    >>> result.recall
    1.0
    """
    trial = Trial(
        Given(database.fingerprint), model, training or Training(), seed, measures or Measures(), tuple(curve_epochs)
    )
    return train_many([trial], databases=[database], meter=meter)[0]


def train_many(
    trials: Iterable[Trial],
    *,
    databases: Iterable[Database] = (),
    on_result: Callable[[TrialResult], None] | None = None,
    meter: Meter | None = None,
    memory: int | None = None,
    interruptible: bool = False,
) -> list[TrialResult]:
    """Train many trials at once; results in the order of the trials.

    Trials of equal shape go side by side through one compiled program. `databases` are those that trials name by
    fingerprint. `on_result` is called with each result as soon as it is there, so that an interruption loses only
    what is in flight; with `interruptible`, Ctrl-C ends the run and the unfinished trials have the status
    "interrupted". `memory` is what one bundle may take, in bytes.
    """
    trials = list(trials)
    tasks = _tasks(trials, databases)
    results, device = dict[int, TrialResult](), _device_name()
    total = sum(trial.training.epochs for trial in trials)
    source, since = run_lanes(trials, tasks, memory), perf_counter()

    def take(finished: list[Finished]) -> None:
        nonlocal since
        seconds, since = (perf_counter() - since) / max(1, len(finished)), perf_counter()
        for lane in finished:
            results[lane.place] = _result(trials[lane.place], lane, device, seconds)
            if on_result is not None:
                on_result(results[lane.place])

    def show(in_flight: int) -> None:
        if meter is not None:
            ended = sum(trials[place].training.epochs for place in results)
            meter.update(len(results), len(trials), ended + in_flight, total)

    try:
        show(0)
        for finished, in_flight in source:
            if finished:
                take(finished)
            show(in_flight)
    except KeyboardInterrupt as interruption:
        with suppress(KeyboardInterrupt):  # wherever it struck, lanes that had stopped are not lost
            take(source.throw(interruption)[0])
        if not interruptible:
            raise
    return [results.get(place) or TrialResult(trial, "interrupted") for place, trial in enumerate(trials)]


def best_of(results: Iterable[TrialResult]) -> TrialResult | None:
    """The result with the highest recall, then tau-recall, then least margin; None where no trial has a sound model."""

    def merit(result: TrialResult) -> tuple[float, ...]:
        merits = result.recall, result.recall_tau, result.metrics["margin"]
        return tuple(-inf if isnan(number) else number for number in merits)

    sound = [result for result in results if result.weights is not None and result.status != "diverged"]
    return max(sound, key=merit, default=None)


def _result(trial: Trial, lane: Finished, device: str, seconds: float) -> TrialResult:
    return TrialResult(
        trial=trial,
        status=lane.status,
        epochs=lane.epochs,
        metrics=lane.metrics,
        curves=lane.curves,
        epochs_to=lane.epochs_to,
        engine="lanes",
        device=device,
        width=lane.width,
        seconds=seconds,
        weights=lane.model,
    )


def _tasks(trials: Sequence[Trial], databases: Iterable[Database]) -> list[Task]:
    """The task of each trial; a database that several trials share is built once."""
    given = {database.fingerprint: database for database in databases}
    built: dict[DatabaseSpec, Database] = {}
    tasks = []
    for place, trial in enumerate(trials):
        if trial.training.engine == "fused":
            raise InputError(f"trial {place}: there is no fused engine yet; use lanes or auto")
        spec = trial.database
        if spec not in built:
            built[spec] = _find(spec.fingerprint, given, place) if isinstance(spec, Given) else spec.build()
        tasks.append(TASKS[type(trial.model)](trial, built[spec]))
    return tasks


def _find(fingerprint: str, given: Mapping[str, Database], place: int) -> Database:
    if fingerprint not in given:
        raise InputError(f"trial {place}: its database {fingerprint[:12]} is not among the {len(given)} given")
    return given[fingerprint]


def _device_name() -> str:
    device = jax.local_devices()[0]
    return platform.machine() if device.platform == "cpu" else str(device.device_kind)
