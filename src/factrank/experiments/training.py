"""Train one model, or thousands: trials in, results out."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, isnan, nan
from time import perf_counter
from typing import Any, Literal, NamedTuple, cast

import jax

from factrank.databases.database import Database
from factrank.errors import InputError
from factrank.experiments.checks import Finished, RunStatus
from factrank.experiments.lanes.lane_programs import arithmetic, program_for, recipe_of
from factrank.experiments.lanes.lanes_engine import run_lanes
from factrank.experiments.progress import Meter
from factrank.experiments.run_checkpoints import Checkpoints
from factrank.experiments.specs.trial import DatabaseSpec, Given, Measures, ModelSpec, Training, Trial, require_fitting
from factrank.experiments.task import Reading, Task, tau_recall
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_engine import platform_of, run_fused
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser.examples.examples import AnyDatabase, Examples, RandomExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn.weights import on_device


def _memory_task(trial: Trial, database: Database) -> Task:
    from factrank.families.memory.memory_task import MemoryTask  # noqa: PLC0415 - only trials that need it load it

    return MemoryTask(trial, database)


def _sequence_task(trial: Trial, database: Database) -> Task:
    from factrank.families.factual_recall.factual_recall_task import FactualRecallTask  # noqa: PLC0415

    return FactualRecallTask(trial, database)


def _memoriser_task(trial: Trial, examples: Examples) -> Task:
    from factrank.families.memoriser.memoriser_task import MemoriserTask  # noqa: PLC0415

    return MemoriserTask(trial, examples)


TASKS: dict[type, Callable[[Trial, Any], Task]] = {
    LayerShape: FactsTask,
    TransformerShape: FactsTask,
    MemoryShape: _memory_task,
    FactualRecallShape: _sequence_task,
    FactualRecallOneHotShape: _sequence_task,
    MemoriserShape: _memoriser_task,
}
"""What a model is trained on, by the class of its specification."""


def task_of(trial: Trial, database: AnyDatabase) -> Task:
    """The task of a trial on its database, or on its examples."""
    require_fitting(trial.model, database)
    return TASKS[type(trial.model)](trial, database)


class Where(NamedTuple):
    """The engine that trains a trial, and on which platform."""

    engine: Literal["fused", "lanes"]
    platform: str


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What came of one trial.

    `metrics` holds `loss`, `recall`, `recall_<tau>`, `margin`, `median_margin`, over all facts, and what else its
    `Measures` ask for (`further_measures`). `curves` has one entry per epoch of the trial's `curve_epochs` up to its
    end; `epochs_to` the first check with full recall, or None; `readings` a row for each readout of its `Readings`.
    `engine` is the one that trained it, `device` the kind of device, `width` how many trained side by side in its
    bundle. `seconds` is its share of the time since the results before it.
    """

    trial: Trial
    status: RunStatus
    epochs: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[float | int]] = field(default_factory=dict)
    epochs_to: dict[str, int | None] = field(default_factory=dict)
    engine: str = ""
    device: str = ""
    width: int = 0
    seconds: float = 0.0
    readings: list[Reading] = field(default_factory=list)
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
    database: AnyDatabase,
    model: ModelSpec,
    training: Training | None = None,
    *,
    seed: int = 0,
    measures: Measures | None = None,
    curve_epochs: Sequence[int] = (),
    meter: Meter | None = None,
) -> TrialResult:
    """Train one model on a database, or on examples.

    >>> from factrank.databases import sample
    >>> from factrank import LayerShape
    >>> result = train(sample("astrid"), LayerShape(d_model=4, n_heads=1, d_qk=2, d_vo=2), Training(epochs=500))
    >>> result.recall
    1.0
    """
    spec = database if isinstance(database, RandomExamples) else Given(database.fingerprint)
    trial = Trial(spec, model, training or Training(), seed, measures or Measures(), tuple(curve_epochs))
    return train_many([trial], databases=[database], meter=meter)[0]


def train_many(
    trials: Iterable[Trial],
    *,
    databases: Iterable[AnyDatabase] = (),
    on_result: Callable[[TrialResult], None] | None = None,
    meter: Meter | None = None,
    memory: int | None = None,
    interruptible: bool = False,
    checkpoints: str | os.PathLike[str] | None = None,
) -> list[TrialResult]:
    """Train many trials at once; results in the order of the trials.

    Each trial says which engine trains it; by default that is the fused one where it applies and pays, else trials of
    equal shape go side by side through one compiled program (lanes). `databases` are those that trials name by
    fingerprint. `on_result` is called with each result as soon as it is there, so that an interruption loses only
    what is in flight; with `interruptible`, Ctrl-C ends the run and the unfinished trials have the status
    "interrupted". `memory` is what one bundle of lanes may take, in bytes. `checkpoints` is a folder for the states of
    trials in flight, from which the same call resumes after an interruption and gets to the same bits.
    """
    trials = list(trials)
    tasks = _tasks(trials, databases)
    kept = Checkpoints(checkpoints) if checkpoints is not None else None
    source, since = _run(trials, tasks, memory, kept), perf_counter()
    results, waiting = dict[int, TrialResult](), deque[TrialResult]()
    arrived = deque[tuple[Where, list[Finished], float]]()
    total, ended = sum(trial.training.epochs for trial in trials), 0

    def take(where: Where, finished: list[Finished]) -> None:
        nonlocal since
        seconds, since = (perf_counter() - since) / max(1, len(finished)), perf_counter()
        arrived.append((where, finished, seconds))
        work_off()

    def work_off() -> None:
        """Make results of what has arrived and hand them out; an interruption anywhere in it loses none."""
        nonlocal ended
        while arrived:
            where, models, seconds = arrived[0]
            for model in models:
                if model.place not in results:
                    result = _result(trials[model.place], model, where, seconds)
                    waiting.append(result)
                    results[model.place] = result
                    ended += result.trial.training.epochs
            arrived.popleft()
        while waiting:
            result = waiting.popleft()
            if on_result is not None:
                on_result(result)
            if kept is not None:
                kept.remove(result.trial)

    def show(in_flight: int) -> None:
        if meter is not None:
            meter.update(len(results), len(trials), ended + in_flight, total)

    with closing(source):
        try:
            show(0)
            for where, finished, in_flight in source:
                if finished:
                    take(where, finished)
                show(in_flight)
        except KeyboardInterrupt as interruption:
            with suppress(KeyboardInterrupt):  # wherever it struck, what had ended is not lost
                take(*source.throw(interruption)[:2])
            with suppress(KeyboardInterrupt):
                work_off()
            if not interruptible:
                raise
    return [results.get(place) or TrialResult(trial, "interrupted") for place, trial in enumerate(trials)]


News = tuple[Where, list[Finished], int]


def _run(
    trials: Sequence[Trial], tasks: Sequence[Task], memory: int | None, checkpoints: Checkpoints | None
) -> Generator[News, None, None]:
    """One engine after the other: which it was and where, what has ended, and the epochs behind what has not."""
    groups: dict[Where, list[int]] = {}
    device = jax.local_devices()[0].platform
    for place, (trial, task) in enumerate(zip(trials, tasks, strict=True)):
        groups.setdefault(_where(place, trial, task, device), []).append(place)
    lanes = groups.pop(Where("lanes", device), [])
    if groups:
        _require_sound(lanes, trials, tasks)  # before anything is trained
    for where, places in groups.items():
        facts = [cast("FactsTask", tasks[place]) for place in places]
        source = run_fused([trials[place] for place in places], facts, checkpoints, where.platform)
        yield from _placed(where, places, source)
    if lanes:
        source = run_lanes([trials[place] for place in lanes], [tasks[place] for place in lanes], memory, checkpoints)
        yield from _placed(Where("lanes", device), lanes, source)


def _where(place: int, trial: Trial, task: Task, device: str) -> Where:
    try:
        platform = platform_of(trial, task.database.shape, device) if isinstance(task, FactsTask) else None
    except InputError as error:
        raise InputError(f"trial {place}: {error}") from None
    return Where("lanes", device) if platform is None else Where("fused", platform)


def _placed(
    where: Where, places: Sequence[int], source: Generator[tuple[list[Finished], int], None, None]
) -> Generator[News, None, None]:
    """What an engine hands out, with the places in the whole list."""

    def placed(news: tuple[list[Finished], int]) -> News:
        for model in news[0]:
            model.place = places[model.place]
        return where, *news

    with closing(source):
        try:
            for news in source:
                yield placed(news)
        except KeyboardInterrupt as interruption:
            yield placed(source.throw(interruption))
            raise


def _require_sound(places: Sequence[int], trials: Sequence[Trial], tasks: Sequence[Task]) -> None:
    """Find mistakes in the trials of lanes, one of each recipe."""
    first = {recipe_of(trials[place], tasks[place]): place for place in reversed(places)}
    for place in first.values():
        try:
            with arithmetic(trials[place].training.precision):
                program_for(trials[place], tasks[place]).lane_bytes  # noqa: B018 - traces a whole epoch
        except InputError as error:
            raise InputError(f"trial {place}: {error}") from None


def best_of(results: Iterable[TrialResult]) -> TrialResult | None:
    """The result with the highest recall, then tau-recall, least margin, smallest loss; None where none is sound."""

    def merit(result: TrialResult) -> tuple[float, ...]:
        margin, loss = result.metrics.get("margin", nan), result.metrics.get("loss", nan)
        return tuple(-inf if isnan(number) else number for number in (result.recall, result.recall_tau, margin, -loss))

    sound = [result for result in results if result.weights is not None and result.status != "diverged"]
    return max(sound, key=merit, default=None)


def _result(trial: Trial, model: Finished, where: Where, seconds: float) -> TrialResult:
    return TrialResult(
        trial=trial,
        status=model.status,
        epochs=model.epochs,
        metrics=model.metrics,
        curves=model.curves,
        epochs_to=model.epochs_to,
        engine=where.engine,
        device=_device_name(where.platform),
        width=model.width,
        seconds=seconds,
        readings=model.readings,
        weights=model.model,
    )


def _tasks(trials: Sequence[Trial], databases: Iterable[AnyDatabase]) -> list[Task]:
    """The task of each trial; a database that several trials share is built once."""
    given = {database.fingerprint: database for database in databases}
    built: dict[DatabaseSpec, AnyDatabase] = {}
    tasks = []
    for place, trial in enumerate(trials):
        spec = trial.database
        if spec not in built:
            built[spec] = _find(spec.fingerprint, given, place) if isinstance(spec, Given) else spec.build()
        tasks.append(task_of(trial, built[spec]))
    return tasks


def _find(fingerprint: str, given: Mapping[str, AnyDatabase], place: int) -> AnyDatabase:
    if fingerprint not in given:
        raise InputError(f"trial {place}: its database {fingerprint[:12]} is not among the {len(given)} given")
    return given[fingerprint]


@cache
def _device_name(platform_name: str) -> str:
    return platform.machine() if platform_name == "cpu" else str(jax.local_devices()[0].device_kind)
