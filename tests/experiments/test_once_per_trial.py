"""What a study makes of a trial it makes once: its data, its task, its bundle."""

from collections import Counter

import pytest

from factrank import Store, run_study, train_many
from factrank.experiments import bundles, prepared
from factrank.experiments.execution import study_bundles
from factrank.experiments.specs.data import Generated
from small_studies import fused_trials, lanes_trials, study_of


@pytest.fixture
def made(monkeypatch):
    """How often each table was built, each task was made, and lists of trials were cut."""
    counts = {"data": Counter(), "tasks": Counter(), "cuts": 0}
    build, task_of, cut = Generated.build, prepared.task_of, bundles.cut

    def counted_build(spec):
        counts["data"][spec] += 1
        return build(spec)

    def counted_task(trial, data):
        counts["tasks"][trial.hash] += 1
        return task_of(trial, data)

    def counted_cut(*arguments):
        counts["cuts"] += 1
        return cut(*arguments)

    monkeypatch.setattr(Generated, "build", counted_build)
    monkeypatch.setattr(prepared, "task_of", counted_task)
    monkeypatch.setattr("factrank.experiments.training.task_of", counted_task)
    monkeypatch.setattr(study_bundles, "cut", counted_cut)
    monkeypatch.setattr("factrank.experiments.training.cut", counted_cut)
    return counts


def test_a_study_makes_everything_once(made, tmp_path):
    trials = [*fused_trials(4), *lanes_trials(5), *lanes_trials(3, width=3)]
    assert run_study(study_of(trials), "quick", Store(tmp_path)).n_ended == 12
    assert made["data"] == Counter(dict.fromkeys({trial.data for trial in trials}, 1))
    assert made["tasks"] == Counter(dict.fromkeys({trial.hash for trial in trials}, 1))
    assert made["cuts"] == 1


def test_training_makes_everything_once(made):
    trials = [*fused_trials(2), *lanes_trials(3)]
    train_many(trials)
    assert set(made["data"].values()) == set(made["tasks"].values()) == {1}
    assert made["cuts"] == 1
