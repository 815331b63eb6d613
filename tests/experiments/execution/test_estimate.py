"""Estimates of a run: training and compilation, from planted costs."""

import jax
import pytest

from factrank.experiments.execution import estimate
from factrank.experiments.execution.estimate import Speed, n_programs, plan_run
from factrank.experiments.execution.runner import run_study
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.lanes.lane_times import KEPT, NEVER, LaneTimes, measured_lanes
from factrank.experiments.specs import Training, Trial, generated
from factrank.experiments.store.store import Store
from factrank.families.memory import MemoryShape
from small_studies import fused_trials, lanes_trials, study_of


def bundles_of(trials):
    return study_bundles(trials, {trial.hash for trial in trials})[0]


def test_programs_are_recipes_and_widths():
    """Lanes compile a program for each shape and width, the fused engine one for all."""
    two_shapes = [*lanes_trials(4), *lanes_trials(4, width=3)]
    assert n_programs(bundles_of(lanes_trials(4))) == 1
    assert n_programs(bundles_of(two_shapes)) == len({len(bundle.members) for bundle in bundles_of(two_shapes)}) * len(
        {bundle.trials[0].model for bundle in bundles_of(two_shapes)}
    )
    assert n_programs(bundles_of([*fused_trials(5), *lanes_trials(4)])) == 2


def test_a_dry_run_counts_compilation(monkeypatch, tmp_path):
    """With training for nothing, the estimate is the planted time of a compilation for each program."""
    trials = [*lanes_trials(4), *lanes_trials(4, epochs=24)]
    monkeypatch.setattr(estimate, "measured_speed", lambda bundles, databases: Speed(0.0, 7.0))
    plan = plan_run(study_of(trials), "quick", Store(tmp_path))
    assert plan.seconds == 7.0 * n_programs(bundles_of(trials)) > 0


def test_seconds_are_training_and_compilation():
    bundles = bundles_of(lanes_trials(4))
    products = sum(bundle.products for bundle in bundles)
    assert Speed(0.5, 3.0).seconds(bundles) == 0.5 * products + 3.0


def test_programs_of_lanes_are_trained_and_evaluated(monkeypatch):
    """Only one of three programs is compiled for an estimate."""
    trials = lanes_trials(4)
    monkeypatch.setattr(estimate, "measured_lanes", lambda trials, tasks, n_epochs: LaneTimes(7.0, 2.0))
    speed = estimate.measured_speed(bundles_of(trials), ())
    assert speed.per_program == 3 * 7.0
    assert speed.per_product > 0


def test_the_first_run_of_an_engine_compiles(monkeypatch):
    """The others, and the time per multiplication, are measured without compilation."""
    runs = []
    clock = iter([0.0, 9.0, 9.0, 11.0])
    monkeypatch.setattr(estimate, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(estimate, "train_many", lambda trials, databases: runs.append(trials))
    bundles = bundles_of(fused_trials(5))
    speed = estimate.measured_speed(bundles, ())
    assert [len(trials) for trials in runs] == [1, estimate.SAMPLED]
    (n_epochs,) = {trial.training.epochs for trial in runs[1]}
    assert speed.per_program == 9.0
    costs = sorted(member.products for bundle in bundles for member in bundle.members)
    each = costs[len(costs) // 2] / bundles[0].trials[0].training.epochs
    assert speed.per_product == pytest.approx(2.0 / (estimate.SAMPLED * n_epochs * each))


def test_lanes_are_timed_outside_the_cache_on_disk(monkeypatch):
    """A program that is found there says nothing about the time to compile the others."""
    before = getattr(jax.config, KEPT)
    kept, update = [], jax.config.update
    monkeypatch.setattr(jax.config, "update", lambda name, value: (kept.append((name, value)), update(name, value)))
    trials = lanes_trials(2)
    members = bundles_of(trials)[0].members
    times = measured_lanes([member.trial for member in members], [member.task for member in members], 2)
    assert min(times.compilation, times.training) > 0
    assert [value for name, value in kept if name == KEPT] == [NEVER, before]


def test_stored_times_are_those_of_the_same_kind_of_model(monkeypatch, tmp_path):
    """Another kind of model, trained by the same engine, tells little about the time of this one."""
    store, layers = Store(tmp_path), lanes_trials(2)
    run_study(study_of(layers), "quick", store)
    monkeypatch.setattr(estimate, "measured_speed", lambda bundles, databases: Speed(1e9))
    more = plan_run(study_of(lanes_trials(3)), "quick", store)
    assert more.estimated_from == "store"
    pairs = generated("associations", n_inputs=4, n_outputs=4, kind="injective", seed=0)
    memories = [Trial(pairs, MemoryShape(4), Training(epochs=2, engine="lanes"))]
    assert plan_run(study_of(memories), "quick", store).estimated_from == "measurement"
