"""Several processes: the same table as one, also when a process is killed; an interruption leaves none."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path

import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.execution import process_executor
from factrank.experiments.execution.process_executor import ProcessExecutor
from factrank.experiments.execution.runner import run_study
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.families.attention.layer_shape import LayerShape
from small_studies import facts, lanes_trials, same_table, study_of

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


WITHOUT_MAIN = """
from small_studies import lanes_trials, study_of
from factrank.experiments.execution.process_executor import ProcessExecutor
from factrank.experiments.execution.runner import run_study
from factrank.experiments.store.store import Store
run_study(study_of(lanes_trials(1)), "quick", Store(sys.argv[1]), executor=ProcessExecutor(1))
"""


class Once:
    """Calls a function at every progress report until it returns True."""

    def __init__(self, call):
        self.call, self.called = call, False

    def update(self, models_done, n_models, model_epochs, n_model_epochs):
        self.called = self.called or self.call(model_epochs)


def some_trials():
    """Two recipes, a database that is handed in, and a trial that fails."""
    database = uniform(6, 4, 5, seed=3)
    given = Given(database.fingerprint)
    wrong = Trial(given, LayerShape(4, 1, 2, 2), Training(epochs=5, frozen=("nothing",)))
    lanes = Training(epochs=20, engine="lanes")
    right = [Trial(given, LayerShape(4, 1, 2, 2), lanes, seed=seed) for seed in (0, 1, 2)]
    return study_of([*lanes_trials(3), *right, wrong], databases=(database,))


def test_the_same_table_also_when_a_process_is_killed(tmp_path):
    study, store, reference = some_trials(), Store(tmp_path / "two"), Store(tmp_path / "one")
    run_study(study, "quick", reference)
    before = set(active_children())

    def kill_one(model_epochs):
        started = set(active_children()) - before
        for child in list(started)[:1]:
            os.kill(child.pid, signal.SIGKILL)
        return bool(started)

    meter = Once(kill_one)
    summary = run_study(study, "quick", store, executor=ProcessExecutor(2), meter=meter)
    assert meter.called
    assert (summary.n_failed, summary.n_left) == (1, 0)
    assert same_table(store, reference)
    assert set(active_children()) == before


def test_an_interrupted_run_ends_its_processes_and_resumes(tmp_path):
    endless = Trial(facts(), LayerShape(4, 1, 2, 2), Training(epochs=10**7, engine="lanes"))
    study, store = study_of([endless]), Store(tmp_path)
    before = set(active_children())
    interrupt = Once(lambda model_epochs: model_epochs > 0 and signal.raise_signal(signal.SIGINT) is None)
    stopped = run_study(study, "quick", store, executor=ProcessExecutor(1), meter=interrupt)
    assert stopped.interrupted
    assert stopped.n_left == 1
    assert set(active_children()) == before


def test_the_trials_of_a_process_that_is_interrupted_alone_run_again(tmp_path):
    study, store = study_of(lanes_trials(1, epochs=300_000)), Store(tmp_path)
    before = set(active_children())

    def interrupt_one(model_epochs):
        if model_epochs > 0:
            os.kill(next(iter(set(active_children()) - before)).pid, signal.SIGINT)
        return model_epochs > 0

    meter = Once(interrupt_one)
    summary = run_study(study, "quick", store, executor=ProcessExecutor(1), meter=meter)
    assert meter.called
    assert (summary.n_ended, summary.n_left, summary.interrupted) == (1, 0, False)


def test_processes_that_cannot_start_blame_no_trial(tmp_path):
    script = tmp_path / "study.py"
    store = tmp_path / "store"
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n" + WITHOUT_MAIN)
    ended = subprocess.run([sys.executable, script, store], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "InputError: the processes cannot start" in ended.stderr.splitlines()[-1]
    assert Store(store).trials().num_rows == 0


def test_the_number_of_processes_is_checked():
    with pytest.raises(InputError, match="1 or more; got 0"):
        ProcessExecutor(0)
    assert os.environ[next(iter(process_executor.NO_PREALLOCATION))] == "false"
