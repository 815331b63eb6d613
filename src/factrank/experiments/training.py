"""Train one model or thousands of them."""

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

from factrank.display import Drawn
from factrank.errors import InputError, Interrupted
from factrank.experiments.bundles import Bundle, cut
from factrank.experiments.checks import Finished, RunStatus
from factrank.experiments.lanes import Recipe, arithmetic, program_for, recipe_of, run_lanes
from factrank.experiments.prepared import DataOfTrials, Prepared, engine_for, task_of
from factrank.experiments.progress import Meter, notebook_meter
from factrank.experiments.registry import families
from factrank.experiments.run_checkpoints import Checkpoints
from factrank.experiments.specs import DRAWN, Data, DataSpec, Given, Measure, ModelSpec, Training, Trial, has_role
from factrank.experiments.task import Reading, tau_recall
from factrank.nn import on_device


@dataclass(frozen=True, eq=False)
class TrialResult(Drawn):
    """Result of one trial.

    Attributes:
        metrics: `loss`, `recall`, `recall_<tau>`, `margin` and `median_margin` over all facts, and the columns of its
            measures.
        curves: One entry for each epoch of the trial's `Curve`, up to the end of the run.
        epochs_to: First check with full recall, or None.
        engine: Engine that trained it.
        device: Kind of device.
        width: Number of models trained side by side in its bundle.
        seconds: Time since the previous results, divided by the number of results that arrived together.
        readings: One row for each readout in its `Readings`.
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
    """Trained model with its weights on the host; None if the trial was interrupted or its model was not kept."""

    def __repr__(self) -> str:
        found = [f"recall {self.recall:.3f}", f"loss {self.metrics.get('loss', nan):.3g}"] if self.metrics else []
        words = [self.status, f"{self.epochs:,} epochs", *found, f"seed {self.trial.seed}"]
        return f"TrialResult({self.trial.model!r}, {', '.join(words)})"

    @cached_property
    def model(self) -> Any:
        """Trained model. If it is float64, use it inside `with jax.enable_x64(True):` to compute in 64 bits."""
        if self.weights is None:
            raise InputError(f"this trial has no model: its status is {self.status}")
        return on_device(self.weights)

    @property
    def recall(self) -> float:
        """Fraction of facts that argmax answers correctly."""
        return self.metrics.get("recall", float("nan"))

    @property
    def recall_tau(self) -> float:
        """Fraction of facts that softmax>=tau answers correctly, for the first tau of the trial."""
        return self.metrics.get(tau_recall(self.trial.taus[0]), float("nan"))


def train(
    data: Data | DataSpec,
    model: ModelSpec,
    training: Training | None = None,
    *,
    measures: Measure | Sequence[Measure] = (),
    start: str = DRAWN,
    seed: int = 0,
    meter: Meter | None = None,
) -> TrialResult:
    """Train one model on a database or on examples.

    Arguments:
        data: Database or examples, or a description of them.
        model: Specification of the model, such as a `LayerShape`.
        training: How to train; the defaults of `Training` if None.
        measures: Metrics in addition to loss, recall and margins.
        start: Initial weights: "drawn" at random, or one of the `starts` of the family.
        seed: Seed of the run.
        meter: Receives progress updates; by default, a line below the cell in notebooks.

    >>> from factrank import sample
    >>> from factrank import LayerShape
    >>> result = train(sample("astrid"), LayerShape(d_model=4, n_heads=1, d_qk=2, d_vo=2), Training(epochs=500))
    >>> result.recall
    1.0
    """
    families()  # registers their data specifications
    if has_role(data, DataSpec):
        spec, given = cast("DataSpec", data), []
    elif isinstance(data, Data):
        spec, given = Given(data.fingerprint), [data]
    else:
        raise InputError(f"expected a database, or the description of one; got {type(data).__name__}")
    asked = (measures,) if isinstance(measures, Measure) else tuple(measures)
    trial = Trial(spec, model, training or Training(), asked, start, seed)
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
    """Train many trials at the same time and return their results in the order of the trials.

    Arguments:
        trials: Trials, each of which may choose its engine. By default, the fused engine is used if it supports a trial
            and is faster; otherwise trials of equal shape are trained side by side by one compiled program (lanes).
        databases: Data that trials refer to by fingerprint.
        on_result: Called with each result as soon as it is available, so an interruption loses only unfinished trials.
        meter: Receives progress updates; by default, a line below the cell in notebooks.
        memory: Maximum memory of one bundle of lanes, in bytes.
        interruptible: If True, Ctrl-C ends the run, and unfinished trials have the status "interrupted". Otherwise it
            raises `Interrupted`, a KeyboardInterrupt whose `finished` are the results so far.
        checkpoints: Folder for the states of unfinished trials. After an interruption, the same call resumes from there
            and produces the same bits.

    >>> from factrank import LayerShape, generated
    >>> facts, shape = generated("unit", n=3), LayerShape(d_model=3, n_heads=1, d_qk=1, d_vo=2)
    >>> results = train_many(Trial(facts, shape, Training(epochs=20), seed=seed) for seed in range(4))
    >>> [result.status for result in results]
    ['finished', 'finished', 'finished', 'finished']
    """
    trials = list(trials)
    bundles = cut(_prepared(trials, databases), len(jax.local_devices()))
    _require_sound(bundles)
    with notebook_meter(meter) as shown:
        results = train_bundles(
            bundles,
            on_result=on_result,
            meter=shown,
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
    """Train bundles of trials and return the results by their indices in the list of trials. See `train_many`."""
    trials = {place: trial for bundle in bundles for place, trial in zip(bundle.places, bundle.trials, strict=True)}
    kept = Checkpoints(checkpoints) if checkpoints is not None else None
    source, since = _run(bundles, memory, kept), perf_counter()
    results, waiting = dict[int, TrialResult](), deque[TrialResult]()
    arrived = deque[tuple[Bundle, list[Finished], float]]()
    total, ended, shown = sum(trial.training.epochs for trial in trials.values()), 0, 0

    def take(bundle: Bundle, finished: list[Finished]) -> None:
        nonlocal since
        seconds, since = (perf_counter() - since) / max(1, len(finished)), perf_counter()
        arrived.append((bundle, finished, seconds))
        work_off()

    def work_off() -> None:
        """Turn finished models into results and report them; no result is lost if this is interrupted."""
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
        nonlocal shown
        shown = max(shown, ended + in_flight)  # a run may end between the two counts: progress never goes back
        if meter is not None:
            meter.update(len(results), len(trials), shown, total)

    with closing(source):
        try:
            show(0)
            for bundle, finished, in_flight in source:
                if finished:
                    take(bundle, finished)
                show(in_flight)
        except KeyboardInterrupt as interruption:
            with suppress(KeyboardInterrupt):  # keep the models that had finished
                take(*source.throw(interruption)[:2])
            with suppress(KeyboardInterrupt):
                work_off()
            if not interruptible:
                raise _interrupted(results, len(trials), checkpoints) from interruption
    return results


def _interrupted(
    results: dict[int, TrialResult], n_trials: int, checkpoints: str | os.PathLike[str] | None
) -> Interrupted:
    done = f"{len(results):,} of {n_trials:,} models are finished (`finished` of this exception)"
    again = "checkpoints=FOLDER keeps the state of the others, so that the same call resumes"
    if checkpoints is not None:
        again = f"the same call resumes from {os.fspath(checkpoints)}"
    return Interrupted(f"{done}; {again}", [results[place] for place in sorted(results)])


News = tuple[Bundle, list[Finished], int]


def _run(bundles: Sequence[Bundle], memory: int | None, checkpoints: Checkpoints | None) -> Generator[News, None, None]:
    """Run the bundles one after the other; yield finished models, and the epochs completed by unfinished ones."""

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
    """Prepare the trials; errors name the trial unless they are about the description of its data."""
    data_of, device, prepared = DataOfTrials(databases), jax.local_devices()[0].platform, list[Prepared]()
    for place, trial in enumerate(trials):
        named = isinstance(trial.source, Given)
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
    """Trace one epoch of each recipe in lanes, to find mistakes before training."""
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
    """Return the result with the highest recall, then tau-recall, minimum margin and lowest loss; None without any.

    >>> from factrank import LayerShape, generated
    >>> facts, training = generated("unit", n=3), Training(epochs=50)
    >>> results = train_many([Trial(facts, LayerShape(3, 1, 1, 2), training, seed=seed) for seed in range(3)])
    >>> best_of(results).recall == max(result.recall for result in results)
    True
    """

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
