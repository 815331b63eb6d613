"""Estimate the time and memory of a study, for `--dry-run`.

The time of a run is

    seconds per multiplication x multiplications + seconds per compilation x programs

The time per multiplication is read from rows in the store that the same engine computed for the same kind of model
(their times include compilation) or, if there are none, measured on a few epochs of one trial. Lanes compile three
programs for each recipe and width: one trains, one evaluates at checks, one measures at the end. Only the first is
compiled for an estimate; in the studies of the catalogue both others together took 0.6 to 2.8 times as long. Other
engines have one program, and the time of the first run is that of its compilation. Trials may stop early, so the time
is an upper bound on the training. Closed forms before training and measures on the host are not included. A study
without training has no estimate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from time import perf_counter
from typing import Literal

from factrank.experiments.bundles import Bundle
from factrank.experiments.execution.runner import missing, stored_rows
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.lanes import measured_lanes, recipe_of, rung_above
from factrank.experiments.prepared import DataOfTrials, task_of
from factrank.experiments.registry import family_of
from factrank.experiments.specs import DRAWN, Data, Trial
from factrank.experiments.store import Store, trial_of
from factrank.experiments.study import Rows, Size, Study
from factrank.experiments.training import train_many

ROWS_READ = 200
"""Maximum number of stored rows used to estimate a speed."""

SAMPLED, SAMPLE_PRODUCTS = 8, 2e8
"""Number of models and multiplications of a measurement, which takes a fraction of a second."""

PROGRAMS_OF_A_RECIPE = 3
"""Lanes compile a program that trains and two that evaluate, which take about as long each."""

STATE_COPIES = 5
"""Weights, gradient, two moments of Adam, and the copy that a worker trains."""


@dataclass(frozen=True)
class DryRun:
    """Preview of a run.

    Arguments:
        seconds: Upper estimate for this machine; None if unknown.
        estimated_from: "store" or "measurement".
        n_bytes: Estimated memory of everything that trains in parallel (one model per core, or all lanes of a bundle),
            and of the weights of models that have ended.
    """

    n_trials: int
    n_finished: int
    n_failed: int
    n_to_run: int
    seconds: float | None = None
    estimated_from: Literal["store", "measurement", ""] = ""
    n_bytes: int = 0
    n_open: int = 0
    """Number of unfinished searches. Trials of their later rounds are unknown and not included."""


def plan_run(
    study: Study, size: Size, store: Store, *, rerun_failed: bool = False, keep_weights: bool = False
) -> DryRun:
    """Count the trials of a study and the trials that remain to be run, and estimate their time and memory."""
    rows = stored_rows(store, rerun_failed=rerun_failed, keep_weights=keep_weights)
    rounds, n_open = _rounds_so_far(study, size, rows)
    trials = list({trial.hash: trial for part in rounds for trial in part}.values())
    hashes = {trial.hash for trial in trials}
    wanted = missing(trials, store, rerun_failed=rerun_failed, keep_weights=keep_weights)
    finished = store.finished(with_weights=keep_weights)
    counts = len(trials), len(hashes & finished), len(hashes & store.failed()), len(wanted)
    bundles = [bundle for part in rounds for bundle in study_bundles(part, wanted, study.databases)[0]]
    if not bundles:
        return DryRun(*counts, n_open=n_open)
    seconds, sources = 0.0, set[str]()
    for engine in dict.fromkeys(bundle.engine_name for bundle in bundles):
        ours = [bundle for bundle in bundles if bundle.engine_name == engine and bundle.products]
        if ours:
            kinds = {type(member.trial.model) for bundle in ours for member in bundle.members}
            stored = _stored_speed(engine, kinds, store, study.databases)
            sources.add("measurement" if stored is None else "store")
            speed = measured_speed(ours, study.databases) if stored is None else Speed(stored)
            seconds += speed.seconds(ours)  # NaN if it could not be measured
    largest = max(_bytes_of(bundle) for bundle in bundles)
    source: Literal["store", "measurement"] = "measurement" if "measurement" in sources else "store"
    if not sources or not isfinite(seconds):
        return DryRun(*counts, n_bytes=largest, n_open=n_open)
    return DryRun(*counts, seconds, source, largest, n_open)


def _rounds_so_far(study: Study, size: Size, rows: Rows) -> tuple[list[list[Trial]], int]:
    """Collect the rounds of the study so far, and count the searches that will request more."""
    if study.searches is None:
        return [study.trials_of(size)], 0
    last = [search.rounds(rows)[-1:] for search in study.searches_of(size)]
    n_open = sum(any(trial.hash not in rows for part in parts for trial in part) for parts in last)
    return study.rounds(size, rows), n_open


def _stored_speed(engine: str, kinds: Collection[type], store: Store, databases: Sequence[Data]) -> float | None:
    """Compute the seconds per multiplication in stored rows of this engine; their times add up to the total time.

    Only rows of these kinds of model count: the time of a small model is that of its operations, not its products.
    """
    table = store.trials()
    if not {"engine", "seconds", "epochs", "trial"} <= set(table.column_names):
        return None
    columns = zip(*(table[name].to_pylist() for name in ("engine", "seconds", "epochs", "trial")), strict=True)
    rows = [row for row in columns if row[0] == engine and row[1] is not None and row[2]]
    data_of, seconds, work = DataOfTrials(databases), 0.0, 0
    for _, each, epochs, text in rows[:: max(1, len(rows) // ROWS_READ)]:
        try:
            trial = trial_of(text)
            if type(trial.model) not in kinds:
                continue
            work += epochs * family_of(trial.model).work(trial, data_of(trial)).products
        except Exception:  # noqa: S112 - a trial of another study, without its database
            continue
        seconds += each
    return seconds / work if work and seconds else None


@dataclass(frozen=True)
class Speed:
    """Time of an engine on this machine: seconds per multiplication, and seconds to compile a program."""

    per_product: float
    per_program: float = 0.0

    def seconds(self, bundles: Sequence[Bundle]) -> float:
        """Return the time of these bundles."""
        return self.per_product * sum(bundle.products for bundle in bundles) + self.per_program * n_programs(bundles)


def n_programs(bundles: Sequence[Bundle]) -> int:
    """Count the programs that these bundles compile: one per recipe and width in lanes, one per other engine."""
    programs: set[object] = set()
    for bundle in bundles:
        first = bundle.members[0]
        in_lanes = (recipe_of(first.trial, first.task), rung_above(len(bundle.members)))
        programs.add(in_lanes if bundle.engine is None else bundle.engine_name)
    return len(programs)


def measured_speed(bundles: Sequence[Bundle], databases: Sequence[Data]) -> Speed:
    """Measure the time of a few models of median cost, and of their compilation."""
    working = (member for bundle in bundles for member in bundle.members if member.products)
    members = sorted(working, key=lambda member: member.products)
    middle = members[len(members) // 2]
    trial, each = middle.trial, max(middle.work.products, 1)
    n_models = max(1, min(SAMPLED, int(SAMPLE_PRODUCTS / each)))
    n_epochs = max(1, min(trial.training.epochs, int(SAMPLE_PRODUCTS / n_models / each)))
    try:
        trials = [_shortened(trial, n_epochs, seed) for seed in range(n_models)]
        if middle.engine is None:
            data_of = DataOfTrials(databases)
            times = measured_lanes(trials, [task_of(one, data_of(one)) for one in trials], n_epochs)
            per_program, seconds = PROGRAMS_OF_A_RECIPE * times.compilation, times.training
        else:
            per_program = _seconds([_shortened(trial, 1, 0)], databases)
            seconds = _seconds(trials, databases)
    except Exception:  # the trial will fail in the run
        return Speed(nan)
    return Speed(seconds / (n_models * n_epochs * each), per_program)


def _seconds(trials: Sequence[Trial], databases: Sequence[Data]) -> float:
    """Return the time to train these trials."""
    started = perf_counter()
    train_many(trials, databases=databases)
    return perf_counter() - started


def _shortened(trial: Trial, n_epochs: int, seed: int) -> Trial:
    """Reduce a trial to a few epochs with the fastest setup."""
    training = replace(trial.training, epochs=n_epochs, stop="never")
    probe = family_of(trial.model).probe(replace(trial, training=training, measures=(), start=DRAWN))
    return replace(probe, seed=seed)


def _bytes_of(bundle: Bundle) -> int:
    """Estimate the memory of everything that trains in parallel or is kept until the bundle ends."""
    in_lanes, sizes = bundle.engine is None, []
    for member in bundle.members:
        real = 8 if member.trial.training.precision == "float64" else 4
        kept = member.work.numbers if in_lanes else member.work.numbers_elsewhere
        sizes.append(STATE_COPIES * member.weight_bytes + 2 * real * kept)
    ended = sum(member.weight_bytes for member in bundle.members)
    return ended + (sum(sizes) if bundle.engine is None else max(sizes) * min(bundle.engine.at_once(), len(sizes)))
