"""Train one model, or thousands: trials in, results out."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, isnan, nan
from time import perf_counter
from typing import Any, cast

import jax

from factrank.errors import InputError
from factrank.experiments.bundles import Bundle, cut
from factrank.experiments.checks import Finished, RunStatus
from factrank.experiments.lanes import Recipe, arithmetic, program_for, recipe_of, run_lanes
from factrank.experiments.prepared import DataOfTrials, Prepared, engine_for, task_of
from factrank.experiments.progress import Meter
from factrank.experiments.registry import families
from factrank.experiments.run_checkpoints import Checkpoints
from factrank.experiments.specs import Data, DataSpec, Given, Measures, ModelSpec, Training, Trial, has_role
from factrank.experiments.task import Reading, tau_recall
from factrank.nn import on_device


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
    database: Data | DataSpec,
    model: ModelSpec,
    training: Training | None = None,
    *,
    seed: int = 0,
    measures: Measures | None = None,
    curve_epochs: Sequence[int] = (),
    meter: Meter | None = None,
) -> TrialResult:
    """Train one model on a database, or on examples.

    >>> from factrank import sample
    >>> from factrank import LayerShape
    >>> result = train(sample("astrid"), LayerShape(d_model=4, n_heads=1, d_qk=2, d_vo=2), Training(epochs=500))
    >>> result.recall
    1.0
    """
    families()  # which say what describes itself
    if has_role(database, DataSpec):
        spec, given = cast("DataSpec", database), []
    elif isinstance(database, Data):
        spec, given = Given(database.fingerprint), [database]
    else:
        raise InputError(f"expected a database, or data that a family describes; got {type(database).__name__}")
    trial = Trial(spec, model, training or Training(), seed, measures or Measures(), tuple(curve_epochs))
    return train_many([trial], databases=given, meter=meter)[0]


def train_many(
    trials: Iterable[Trial],
    *,
    databases: Iterable[Data] = (),
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
    bundles = cut(_prepared(trials, databases), len(jax.local_devices()))
    _require_sound(bundles)  # before anything is trained
    results = train_bundles(
        bundles,
        on_result=on_result,
        meter=meter,
        memory=memory,
        interruptible=interruptible,
        checkpoints=checkpoints,
    )
    return [results.get(place) or TrialResult(trial, "interrupted") for place, trial in enumerate(trials)]


def train_bundles(
    bundles: Sequence[Bundle],
    *,
    on_result: Callable[[TrialResult], None] | None = None,
    meter: Meter | None = None,
    memory: int | None = None,
    interruptible: bool = False,
    checkpoints: str | os.PathLike[str] | None = None,
) -> dict[int, TrialResult]:
    """Train trials that were cut into bundles; the results by their places in the list that was cut."""
    trials = {place: trial for bundle in bundles for place, trial in zip(bundle.places, bundle.trials, strict=True)}
    kept = Checkpoints(checkpoints) if checkpoints is not None else None
    source, since = _run(bundles, memory, kept), perf_counter()
    results, waiting = dict[int, TrialResult](), deque[TrialResult]()
    arrived = deque[tuple[Bundle, list[Finished], float]]()
    total, ended = sum(trial.training.epochs for trial in trials.values()), 0

    def take(bundle: Bundle, finished: list[Finished]) -> None:
        nonlocal since
        seconds, since = (perf_counter() - since) / max(1, len(finished)), perf_counter()
        arrived.append((bundle, finished, seconds))
        work_off()

    def work_off() -> None:
        """Make results of what has arrived and hand them out; an interruption anywhere in it loses none."""
        nonlocal ended
        while arrived:
            bundle, models, seconds = arrived[0]
            for model in models:
                if model.place not in results:
                    result = _result(trials[model.place], model, bundle, seconds)
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
            for bundle, finished, in_flight in source:
                if finished:
                    take(bundle, finished)
                show(in_flight)
        except KeyboardInterrupt as interruption:
            with suppress(KeyboardInterrupt):  # wherever it struck, what had ended is not lost
                take(*source.throw(interruption)[:2])
            with suppress(KeyboardInterrupt):
                work_off()
            if not interruptible:
                raise
    return results


News = tuple[Bundle, list[Finished], int]


def _run(bundles: Sequence[Bundle], memory: int | None, checkpoints: Checkpoints | None) -> Generator[News, None, None]:
    """One bundle after the other: what has ended, at its place in the list, and the epochs behind what has not."""

    def placed(bundle: Bundle, news: tuple[list[Finished], int]) -> News:
        for model in news[0]:
            model.place = bundle.places[model.place]
        return bundle, *news

    for bundle in bundles:
        tasks = [member.task for member in bundle.members]
        if bundle.engine is None:
            source = run_lanes(bundle.trials, tasks, memory, checkpoints)
        else:
            source = bundle.engine.run(bundle.trials, tasks, checkpoints, bundle.platform)
        with closing(source):
            try:
                for news in source:
                    yield placed(bundle, news)
            except KeyboardInterrupt as interruption:
                yield placed(bundle, source.throw(interruption))
                raise


def _prepared(trials: Sequence[Trial], databases: Iterable[Data]) -> list[Prepared]:
    """The trials with what they need; errors say which of them it was."""
    data_of, device, prepared = DataOfTrials(databases), jax.local_devices()[0].platform, list[Prepared]()
    for place, trial in enumerate(trials):
        named = isinstance(trial.database, Given)  # what a description of data says of itself needs no place
        try:
            data = data_of(trial)
            named = False
            task = task_of(trial, data)
            named = True
            prepared.append(Prepared(trial, data, task, *engine_for(trial, data, device)))
        except InputError as error:
            raise (InputError(f"trial {place}: {error}") if named else error) from None
    return prepared


def _require_sound(bundles: Sequence[Bundle]) -> None:
    """Find mistakes in the trials of lanes, one of each recipe."""
    seen = set[Recipe]()
    for bundle in bundles:
        place, member = bundle.places[0], bundle.members[0]
        recipe = recipe_of(member.trial, member.task)
        if bundle.engine is None and recipe not in seen:
            seen.add(recipe)
            try:
                with arithmetic(member.trial.training.precision):
                    program_for(member.trial, member.task).lane_bytes  # noqa: B018 - traces a whole epoch
            except InputError as error:
                raise InputError(f"trial {place}: {error}") from None


def best_of(results: Iterable[TrialResult]) -> TrialResult | None:
    """The result with the highest recall, then tau-recall, least margin, smallest loss; None where none is sound."""

    def merit(result: TrialResult) -> tuple[float, ...]:
        margin, loss = result.metrics.get("margin", nan), result.metrics.get("loss", nan)
        return tuple(-inf if isnan(number) else number for number in (result.recall, result.recall_tau, margin, -loss))

    sound = [result for result in results if result.weights is not None and result.status != "diverged"]
    return max(sound, key=merit, default=None)


def _result(trial: Trial, model: Finished, bundle: Bundle, seconds: float) -> TrialResult:
    return TrialResult(
        trial=trial,
        status=model.status,
        epochs=model.epochs,
        metrics=model.metrics,
        curves=model.curves,
        epochs_to=model.epochs_to,
        engine=bundle.engine_name,
        device=_device_name(bundle.platform),
        width=model.width,
        seconds=seconds,
        readings=model.readings,
        weights=model.model,
    )


@cache
def _device_name(platform_name: str) -> str:
    return platform.machine() if platform_name == "cpu" else str(jax.local_devices()[0].device_kind)
