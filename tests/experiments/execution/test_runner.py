"""The runner: nothing twice, nothing lost, the same table however often it is killed; failures are rows."""

import multiprocessing
import multiprocessing.forkserver as forkserver
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments import bundles
from factrank.experiments.execution import executors, runner
from factrank.experiments.execution.estimate import plan_run
from factrank.experiments.execution.executors import LocalExecutor
from factrank.experiments.execution.runner import run_study
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.experiments.training import train_bundles, train_many
from factrank.families.attention import Readings
from factrank.families.attention.layer_shape import LayerShape
from small_studies import facts, fused_trials, lanes_trials, run_sixty, same_table, sixty_trials, study_of


class Counting:
    """Counts what the engines are asked to train, and can fail or interrupt them."""

    def __init__(self, monkeypatch, during=None):
        self.calls = []
        monkeypatch.setattr(executors, "train_bundles", self)
        self.during = during

    def __call__(self, bundles, **options):
        (bundle,) = bundles
        self.calls.append(bundle.trials)
        if self.during is not None:
            self.during(bundle.trials)
        return train_bundles(bundles, **options)

    @property
    def n_trained(self):
        return sum(map(len, self.calls))


class Progress:
    def __init__(self):
        self.seen = []

    def update(self, *numbers):
        self.seen.append(numbers)


# -------------------------------------------------------------------- what is run


def test_results_are_those_of_the_engine(tmp_path):
    measures = (Curve((0, 10)), Readings((0.25, 0.5)))
    trials = [*fused_trials(5, measures=measures), *lanes_trials(3)]
    store, meter = Store(tmp_path), Progress()
    summary = run_study(study_of(trials), "quick", store, meter=meter)
    assert (summary.n_trials, summary.n_before, summary.n_ended, summary.n_failed, summary.n_left) == (8, 0, 8, 0, 0)
    rows = {row["hash"]: row for row in store.trials().to_pylist()}
    for result in train_many(trials):
        row = rows[result.trial.hash]
        assert (row["status"], row["epochs"], row["engine"]) == (result.status, result.epochs, result.engine)
        assert {name: row[name] for name in result.metrics} == result.metrics
    assert store.curves().num_rows == 10
    assert len({*store.readings()["hash"].to_pylist()}) == 5
    assert store.readings().num_rows == 10
    assert meter.seen[0][:3] == (0, 8, 0)
    epochs = sum(trial.training.epochs for trial in trials)
    assert all(numbers[1] == 8 and numbers[3] == epochs and numbers[2] <= epochs for numbers in meter.seen)
    assert [numbers[0] for numbers in meter.seen] == sorted(numbers[0] for numbers in meter.seen)


def test_finished_trials_are_not_run_again(tmp_path, monkeypatch):
    trials, store, counting = fused_trials(6), Store(tmp_path), Counting(monkeypatch)
    assert run_study(study_of(trials[:4]), "quick", store).n_ended == 4
    again = run_study(study_of(trials[:4]), "quick", store)
    assert (again.n_before, again.n_ended, counting.n_trained) == (4, 0, 4)
    more = run_study(study_of([*trials, *trials], name="another"), "full", store)
    assert (more.n_trials, more.n_before, more.n_ended, counting.n_trained) == (6, 4, 2, 6)


def test_a_bundle_of_lanes_is_run_again_as_a_whole(tmp_path, monkeypatch):
    """Its widths, and with them the last bits, follow from the study and not from what was finished before."""
    trials = [*lanes_trials(5), *lanes_trials(3, width=3)]
    whole, parts = Store(tmp_path / "whole"), Store(tmp_path / "parts")
    run_study(study_of(trials), "quick", whole)
    widths = dict(zip(*(whole.trials()[name].to_pylist() for name in ("hash", "width")), strict=True))
    assert [widths[trial.hash] for trial in trials] == [4, 4, 4, 4, 1, 4, 4, 4]

    stored = {row["hash"]: row for row in whole.trials().to_pylist()}
    kept = [trials[0], trials[3], trials[4]]
    results = {result.trial.hash: result for result in _results(trials)}
    parts.append([results[trial.hash] for trial in kept])
    counting = Counting(monkeypatch)
    assert run_study(study_of(trials), "quick", parts).n_ended == 5
    assert [len(call) for call in counting.calls] == [4, 3]  # not the bundle of one that was finished
    assert same_table(whole, parts)
    assert {row["hash"] for row in parts.trials().to_pylist()} == set(stored)


def _results(trials):
    """Results as a study of these trials gives them."""
    found = []

    class Keep:
        def take(self, outcome, *, at_once=False):
            found.append(outcome)

        def tick(self, epochs=0):
            pass

    wanted = {trial.hash for trial in trials}
    LocalExecutor().run(study_bundles(trials, wanted)[0], wanted, {}, Keep())
    return found


def test_the_partition_does_not_depend_on_what_is_wanted():
    trials = [*lanes_trials(7), *fused_trials(3), *lanes_trials(5, width=3)]

    def lanes(wanted):
        return [one.trials for one in study_bundles(trials, wanted)[0] if one.engine_name == "lanes"]

    everything = lanes({trial.hash for trial in trials})
    assert [len(one) for one in everything] == [7, 4, 1]
    for trial in (trials[0], trials[6], trials[-1]):
        assert lanes({trial.hash}) == [one for one in everything if trial in one]


def test_fused_bundles_are_cut_where_their_weights_are_many(monkeypatch):
    trials = fused_trials(6)
    monkeypatch.setattr(bundles, "MOST_BYTES", 2 * 4 * trials[2].model.parameters(8, 4, 6))
    parts, _ = study_bundles(trials, {trial.hash for trial in trials})
    assert len(parts) > 1
    assert [trial for part in parts for trial in part.trials] == trials


def test_given_databases(tmp_path):
    given = [uniform(6, 4, 5, seed=seed) for seed in range(2)]
    trials = [Trial(Given(one.fingerprint), LayerShape(4, 1, 2, 2), Training(epochs=20)) for one in given]
    store = Store(tmp_path)
    assert run_study(study_of(trials, databases=tuple(given)), "quick", store).n_ended == 2
    direct = train_many(trials, databases=given)
    assert sorted(store.trials()["loss"].to_pylist()) == sorted(result.metrics["loss"] for result in direct)


def test_weights_are_kept_where_asked(tmp_path):
    trials = fused_trials(2)
    run_study(study_of(trials), "quick", Store(tmp_path / "without"))
    assert not (tmp_path / "without" / "weights").exists()
    store = Store(tmp_path / "with")
    run_study(study_of(trials), "quick", store, executor=LocalExecutor(keep_weights=True))
    for result in train_many(trials):
        assert np.array_equal(store.weights(result.trial.hash).w_v, result.weights.w_v)


# -------------------------------------------------------------------- failures


def test_mistakes_of_single_trials_are_rows(tmp_path):
    good = fused_trials(4)
    adam = Training(epochs=5, optimiser=Optimiser("adam", Options.of({"nonsense": 1})))
    bad = {
        "n_facts must be at most": Trial(facts(n_facts=99), LayerShape(4, 1, 2, 2)),
        "no generator 'nobody'": replace(good[0], data=replace(facts(), generator="nobody")),
        "cannot freeze 'nothing'": replace(good[0], training=Training(epochs=5, frozen=("nothing",))),
        "fused engine does not apply": replace(good[0], training=Training(epochs=5, batch_size=3, engine="fused")),
        "nonsense": replace(good[0], training=adam),
    }
    store = Store(tmp_path)
    trials = [*list(bad.values())[:3], *good, *list(bad.values())[3:], *lanes_trials(2)]
    summary = run_study(study_of(trials), "quick", store)
    assert (summary.n_ended, summary.n_failed, summary.n_left) == (6, 5, 0)
    rows = {row["hash"]: row for row in store.trials().to_pylist()}
    for text, trial in bad.items():
        assert rows[trial.hash]["status"] == "failed"
        assert text in rows[trial.hash]["error"]
    assert all(rows[trial.hash]["status"] == "finished" for trial in good)


def test_failed_trials_are_kept_and_run_again_on_request(tmp_path, monkeypatch):
    trials, store = fused_trials(9), Store(tmp_path)
    culprits = {trials[2].hash, trials[7].hash}

    def no_memory(asked):
        if culprits & {trial.hash for trial in asked}:
            raise MemoryError("no room")

    counting = Counting(monkeypatch, no_memory)
    summary = run_study(study_of(trials), "quick", store)
    assert (summary.n_ended, summary.n_failed) == (7, 2)
    assert store.failed() == culprits
    assert set(pc.drop_null(store.trials()["error"]).to_pylist()) == {"MemoryError: no room"}

    n_calls = len(counting.calls)
    assert run_study(study_of(trials), "quick", store).n_before == 9
    assert len(counting.calls) == n_calls
    culprits.pop()
    again = run_study(study_of(trials), "quick", store, rerun_failed=True)
    assert (again.n_before, again.n_ended, again.n_failed) == (7, 1, 1)
    assert store.failed() == culprits
    culprits.clear()
    assert run_study(study_of(trials), "quick", store, rerun_failed=True).n_ended == 1
    reference = Store(tmp_path / "reference")
    run_study(study_of(trials), "quick", reference)
    assert same_table(store, reference)


def test_what_had_ended_before_an_error_is_not_run_again(tmp_path, monkeypatch):
    """An engine that fails in the middle: results are kept, and only the others are tried again."""
    trials, store, calls = fused_trials(6), Store(tmp_path), []

    def engine(bundles, on_result, **options):
        (bundle,) = bundles
        calls.append(bundle.trials)
        for result in train_many(bundle.trials[:2]):
            on_result(result)
        if len(bundle.trials) > 2:
            raise RuntimeError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(executors, "train_bundles", engine)
    summary = run_study(study_of(trials), "quick", store)
    assert (summary.n_ended, summary.n_failed) == (6, 0)
    assert [len(call) for call in calls] == [6, 2, 2]


def test_a_store_that_cannot_be_written_is_no_failure_of_trials(tmp_path, monkeypatch):
    store = Store(tmp_path)
    run_study(study_of(fused_trials(3)), "quick", store)

    def full(*_, **__):
        raise InputError("no space left")

    monkeypatch.setattr(runner, "PART_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(store, "append", full)
        with pytest.raises(InputError, match="no space left"):
            run_study(study_of(fused_trials(8)), "quick", store)
    assert (len(store.finished()), len(store.failed())) == (3, 0)
    assert run_study(study_of(fused_trials(8)), "quick", store).n_ended == 5


def test_a_damaged_checkpoint_is_left_alone_and_the_trial_begins_anew(tmp_path):
    trials, store = fused_trials(3), Store(tmp_path / "store")
    folder = runner.checkpoint_folder(store)
    folder.mkdir(parents=True)
    damaged = folder / f"{trials[1].hash}.safetensors"
    damaged.write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match=f"restarted without checkpoints: .*{damaged.name}"):
        assert run_study(study_of(trials), "quick", store).n_ended == 3
    assert damaged.read_bytes() == b"nonsense"


# -------------------------------------------------------------------- interruptions


def test_an_interruption_keeps_what_has_ended(tmp_path, monkeypatch):
    trials, store = fused_trials(12, epochs=400), Store(tmp_path)
    seen = []

    class Interrupting(Progress):
        def update(self, models_done, *rest):
            seen.append(models_done)
            if models_done >= 3:
                raise KeyboardInterrupt

    summary = run_study(study_of(trials), "quick", store, meter=Interrupting())
    assert summary.interrupted
    assert summary.n_ended >= 3
    assert summary.n_left == 12 - summary.n_ended
    assert len(store.finished()) == summary.n_ended
    after = run_study(study_of(trials), "quick", store)
    assert (after.interrupted, after.n_before, after.n_left) == (False, summary.n_ended, 0)
    reference = Store(tmp_path / "reference")
    run_study(study_of(trials), "quick", reference)
    assert same_table(store, reference)


def test_long_runs_go_on_from_checkpoints(tmp_path):
    """After Ctrl-C the states in flight lie in the store; the next call needs fewer epochs, and gives the same bits."""
    trials = [replace(trial, training=replace(trial.training, epochs=400_000)) for trial in fused_trials(2)]
    store = Store(tmp_path)

    class Interrupting:
        def update(self, models_done, n_models, model_epochs, n_model_epochs):
            if model_epochs > 3000:
                raise KeyboardInterrupt

    assert run_study(study_of(trials), "quick", store, meter=Interrupting()).n_left == 2
    folder = runner.checkpoint_folder(store)
    assert {path.stem for path in folder.iterdir()} == {trial.hash for trial in trials}
    first = Progress()
    assert run_study(study_of(trials), "quick", store, meter=first).n_ended == 2
    assert list(folder.iterdir()) == []
    reference = Store(tmp_path / "reference")
    run_study(study_of(trials), "quick", reference)
    assert same_table(store, reference)


@pytest.fixture(scope="module")
def processes():
    """Processes that begin where everything is imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_kernel"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        forkserver.ensure_running()
    return context


def test_killed_twenty_times(tmp_path, processes):
    """Kill -9 at random moments: nothing that was stored is lost or doubled, and the final table is the same."""
    trials, rng, n_killed, stores = sixty_trials(), np.random.default_rng(6), 0, [Store(tmp_path / "0")]
    while n_killed < 20:
        before = stores[-1].finished()
        if len(before) == len(trials):
            stores.append(Store(tmp_path / str(len(stores))))
            continue
        ours, theirs = processes.Pipe()
        process = processes.Process(target=run_sixty, args=(str(stores[-1].folder), theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "trains"
        time.sleep(rng.uniform(0.0, 0.3))
        process.kill()
        process.join()
        n_killed += process.exitcode == -signal.SIGKILL
        assert before <= stores[-1].finished()
        assert stores[-1].problems() == []
    reference = Store(tmp_path / "reference")
    run_study(study_of(trials), "quick", reference)
    for store in stores:
        stored = len(store.finished())
        assert run_study(study_of(trials), "quick", store).n_before == stored
        assert store.trials().num_rows == len(trials)
        assert same_table(store, reference)


def test_two_processes_on_one_store(tmp_path, processes):
    store = Store(tmp_path / "shared")
    started = []
    for _ in range(2):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=run_sixty, args=(str(store.folder), theirs))
        process.start()
        theirs.close()
        started.append((process, ours))
    for process, ours in started:
        said = ours.recv()
        assert (ours.recv() if said == "trains" else said) == 0
        process.join()
        assert process.exitcode == 0
    assert store.problems() == []
    assert store.finished() == {trial.hash for trial in sixty_trials()}
    reference = Store(tmp_path / "reference")
    run_study(study_of(sixty_trials()), "quick", reference)
    assert same_table(store, reference)


# -------------------------------------------------------------------- beside the results


def test_a_tracker_that_fails_is_left_out(tmp_path, monkeypatch):
    class Failing:
        def __init__(self):
            self.heard = 0

        def log(self, outcomes):
            self.heard += 1
            raise OSError("no network")

        def close(self):
            pass

    monkeypatch.setattr(runner, "PART_SECONDS", 0.0)
    store, tracker = Store(tmp_path), Failing()
    with pytest.warns(UserWarning, match="tracker failed and was disabled: no network"):
        summary = run_study(study_of(fused_trials(5)), "quick", store, tracker=tracker)
    assert (summary.n_ended, len(store.finished()), tracker.heard) == (5, 5, 1)


def test_running_needs_few_libraries():
    """Trials run on bare GPU machines and on workers."""
    absent = ["altair", "pandas", "polars", "pydantic", "ray", "rich", "torch", "typer", "wandb", "yaml"]
    execution = [f"factrank.experiments.execution.{module}" for module in ("runner", "ray_executor", "estimate")]
    rooms = ", ".join([*execution, "factrank.studies"])
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); import {rooms}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


# -------------------------------------------------------------------- dry runs


def test_a_dry_run_counts_and_runs_nothing_of_the_study(tmp_path):
    trials = [*fused_trials(5), *lanes_trials(3)]
    store = Store(tmp_path / "store")
    plan = plan_run(study_of(trials), "quick", store)
    assert (plan.n_trials, plan.n_finished, plan.n_failed, plan.n_to_run) == (8, 0, 0, 8)
    assert plan.seconds > 0
    assert plan.estimated_from == "measurement"
    largest = max(trial.model.parameters(8, 4, 6) for trial in trials) * 4 * 4
    assert largest < plan.n_bytes < 100 * largest
    assert not store.exists
    run_study(study_of(trials[:7]), "quick", store)
    plan = plan_run(study_of(trials), "quick", store)
    assert (plan.n_finished, plan.n_to_run, plan.estimated_from) == (7, 1, "store")
    run_study(study_of(trials), "quick", store)
    assert plan_run(study_of(trials), "quick", store).seconds is None


def test_a_trial_that_cannot_run_does_not_end_a_dry_run(tmp_path):
    wrong = Training(epochs=5, optimiser=Optimiser("adam", Options.of({"nonsense": 1})))
    plan = plan_run(study_of([replace(fused_trials(1)[0], training=wrong)]), "quick", Store(tmp_path))
    assert (plan.n_to_run, plan.seconds) == (1, None)


def test_more_work_takes_longer_by_the_estimate(tmp_path):
    store = Store(tmp_path)
    run_study(study_of(fused_trials(3)), "quick", store)
    one, ten = (
        plan_run(study_of([replace(trial, seed=99) for trial in fused_trials(n, epochs=500)]), "quick", store)
        for n in (3, 9)
    )
    assert 0 < one.seconds < ten.seconds
