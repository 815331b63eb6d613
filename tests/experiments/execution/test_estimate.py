"""Estimates of a run: training and compilation, from planted costs."""

import pytest

from factrank.experiments.execution import estimate
from factrank.experiments.execution.estimate import Speed, n_programs, plan_run
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.store.store import Store
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


@pytest.mark.parametrize(("first", "second", "each"), [(9.0, 2.0, 7.0), (2.0, 2.0, estimate.LEAST_COMPILATION)])
def test_the_first_of_two_runs_compiles(monkeypatch, first, second, each):
    """A program that was found in the cache on disk still counts, because the others may not be there."""
    clock = iter([0.0, first, first, first + second])
    monkeypatch.setattr(estimate, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(estimate, "train_many", lambda trials, databases: None)
    speed = estimate.measured_speed(bundles_of(lanes_trials(4)), ())
    assert speed.per_program == each
    assert speed.per_product > 0
