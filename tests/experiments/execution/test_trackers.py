"""Trackers, with a module that has the calls of Weights & Biases."""

import pytest

from factrank.experiments.execution import trackers
from factrank.experiments.execution.outcomes import Failure
from factrank.experiments.execution.trackers import tracker_named
from factrank.experiments.specs import Curve
from factrank.experiments.training import train_many
from small_studies import fused_trials


class FakeRun:
    """A run: remembers what it is told, and refuses everything after its end."""

    def __init__(self, **started):
        self.started, self.logged, self.summary, self.exit_code = started, [], {}, None

    def log(self, data, step=None):
        assert self.exit_code is None
        self.logged.append((step, data))

    def finish(self, exit_code=None):
        assert self.exit_code is None
        self.exit_code = exit_code


class FakeWandb:
    """`wandb.init` with the parameters of its documentation; two runs at once are refused."""

    def __init__(self):
        self.runs = []

    def init(self, *, project, group, name, config, reinit):
        assert reinit is True
        assert all(run.exit_code is not None for run in self.runs)
        self.runs.append(FakeRun(project=project, group=group, name=name, config=config))
        return self.runs[-1]


@pytest.fixture
def wandb(monkeypatch):
    module = FakeWandb()
    monkeypatch.setattr(trackers, "import_module", {"wandb": module}.__getitem__)
    return module


def test_one_run_per_trial_with_its_config(wandb, tmp_path):
    results = train_many(fused_trials(3, measures=Curve((0, 20, 40))))
    tracker = tracker_named("wandb", "mine", tmp_path)
    tracker.log(results[:2])
    tracker.log(results[2:])
    tracker.close()
    assert len(wandb.runs) == 3
    for run, result in zip(wandb.runs, results, strict=True):
        config = run.started["config"]
        assert (run.started["project"], run.started["group"]) == ("factrank", "mine")
        assert run.started["name"] == f"mine-{result.trial.hash[:12]}"
        assert (config["hash"], config["seed"]) == (result.trial.hash, result.trial.seed)
        assert (config["model.d_vo"], config["training.epochs"]) == (result.trial.model.d_vo, 40)
        assert [step for step, _ in run.logged] == [0, 20, 40]
        assert [data["loss"] for _, data in run.logged] == pytest.approx(list(result.curves["loss"]))
        assert run.summary["recall"] == pytest.approx(result.metrics["recall"])
        assert not set(run.summary) & set(config), "settings are config, results are summary"
        assert run.exit_code == 0


def test_a_failed_trial_is_a_failed_run(wandb, tmp_path):
    (trial,) = fused_trials(1)
    tracker_named("wandb", "mine", tmp_path).log([Failure(trial, "out of luck")])
    (run,) = wandb.runs
    assert (run.summary["status"], run.summary["error"], run.exit_code) == ("failed", "out of luck", 1)
    assert run.logged == []
