"""Ray: the same table as without it, also when a worker is killed; on a cluster of paper, who gets which bundle."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.experiments.execution import ray_executor
from factrank.experiments.execution.executors import LocalExecutor
from factrank.experiments.execution.outcomes import Failure
from factrank.experiments.execution.ray_executor import RayExecutor, _Flight
from factrank.experiments.execution.runner import run_study
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.families.attention import Readings
from factrank.families.attention.layer_shape import LayerShape
from small_studies import fused_trials, lanes_trials, same_table, sixty_trials, study_of


@pytest.fixture(scope="module")
def cluster():
    """A local cluster with two workers."""
    with pytest.MonkeyPatch.context() as patch:  # it sends nothing, and writes nothing into the user's folder
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            log_to_driver=False,
        )
        yield ray
        ray.shutdown()


READ = Readings((0.25, 0.5), (0.5,), ("bfloat16", "float32"))


def everything(n_long):
    """Both engines, a database that is handed in, and a trial that fails."""
    database = uniform(6, 4, 5, seed=3)
    given = Trial(Given(database.fingerprint), LayerShape(4, 1, 2, 2), Training(epochs=50))
    wrong = Trial(Given(database.fingerprint), LayerShape(4, 1, 2, 2), Training(epochs=5, frozen=("nothing",)))
    short = fused_trials(4, measures=(Curve((0, 9)), READ))
    trials = [*sixty_trials()[:n_long], *lanes_trials(5), *short, given, wrong]
    return study_of(trials, databases=(database,))


pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore::ResourceWarning")


def test_the_same_table_also_when_a_worker_is_killed(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_executor, "LEAST_PRODUCTS", 1e8)
    study, store, reference, killed = everything(40), Store(tmp_path / "ray"), Store(tmp_path / "here"), []
    run_study(study, "quick", reference)

    class Killing:
        """Kills a worker with its task when the first results are there."""

        def update(self, models_done, *_):
            if models_done > 0 and len(killed) < 1:
                killed.extend(busy_workers()[:1])
                for process in killed:
                    os.kill(process, signal.SIGKILL)

    summary = run_study(study, "quick", store, executor=RayExecutor(), meter=Killing())
    assert (summary.n_failed, summary.n_left) == (1, 0)
    assert len(killed) == 1
    assert same_table(store, reference)


def test_the_same_table_and_the_same_weights(cluster, tmp_path):
    study, stores = everything(0), [Store(tmp_path / "ray"), Store(tmp_path / "here")]
    for store, executor in zip(stores, (RayExecutor(keep_weights=True), LocalExecutor(keep_weights=True)), strict=True):
        assert run_study(study, "quick", store, executor=executor).n_failed == 1
    assert same_table(*stores)
    assert stores[0].readings().num_rows == 16
    for name in stores[0].finished():
        ours, theirs = (jax.tree.leaves(store.weights(name)) for store in stores)
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def busy_workers():
    """The workers of our own cluster that have a task: children of a child of this process."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1]), command
    ours = {process for process, (parent, _) in parents.items() if parent == os.getpid()}
    tasks = {process: parent for process, (parent, command) in parents.items() if command.startswith("ray::_run_task")}
    return sorted(process for process, parent in tasks.items() if parent in ours)


# -------------------------------------------------------------------- a cluster made of paper


class PaperRay:
    """What `_Flight` asks of Ray, done at once in this process; a task of `deadly` trials loses its worker."""

    class WorkerLostError(Exception):
        pass

    def __init__(self, deadly=(), **resources):
        self.resources, self.deadly, self.started = resources, set(deadly), []
        self.exceptions = SimpleNamespace(RayError=self.WorkerLostError)
        self.cancelled = []

    def put(self, value):
        return value

    def remote(self, function):
        return SimpleNamespace(options=lambda **options: _Remote(self, function, options))

    def cluster_resources(self):
        return self.resources

    def wait(self, tasks, num_returns, timeout):
        return tasks[:1], tasks[1:]

    def get(self, task):
        function, arguments = task.call
        if self.deadly & {trial.hash for trial in arguments[0]}:
            raise self.WorkerLostError("the worker died")
        return function(*arguments)

    def cancel(self, task, force):
        self.cancelled.append(task)


class _Remote:
    def __init__(self, ray, function, options):
        self.ray, self.function, self.options = ray, function, options

    def remote(self, *arguments):
        task = SimpleNamespace(call=(self.function, arguments), options=self.options)
        self.ray.started.append((self.options, arguments[0]))
        return _Hashable(task.call)


class _Hashable:
    def __init__(self, call):
        self.call = call


class Collected:
    def __init__(self, interrupt_at=None):
        self.outcomes, self.interrupt_at = [], interrupt_at

    def take(self, outcome, *, at_once=False):
        self.outcomes.append(outcome)

    def tick(self, epochs=0):
        if self.interrupt_at is not None and len(self.outcomes) >= self.interrupt_at:
            raise KeyboardInterrupt


def fly(ray, trials, recorder=None, **options):
    recorder = recorder or Collected()
    wanted = {trial.hash for trial in trials}
    _Flight(ray, wanted, {}, recorder, keep_weights=False, **options).run(study_bundles(trials, wanted)[0])
    return recorder.outcomes


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(ray_executor, "LEAST_PRODUCTS", 1.0)


def test_a_trial_that_kills_its_workers_is_found(small_pieces):
    trials = fused_trials(20)
    outcomes = fly(PaperRay(deadly={trials[7].hash}, CPU=1), trials)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    assert [failure.trial for failure in failures] == [trials[7]]
    assert "the worker died" in failures[0].error
    assert {outcome.trial.hash for outcome in outcomes} == {trial.hash for trial in trials}
    assert len(outcomes) == len(trials)


def test_results_carry_no_models():
    assert all(outcome.weights is None for outcome in fly(PaperRay(CPU=2), [*fused_trials(3), *lanes_trials(2)]))


def test_cores_and_gpus_have_tasks_of_their_own(small_pieces):
    trials = [*fused_trials(60), *lanes_trials(5)]
    ray = PaperRay(CPU=3, GPU=1)
    assert {outcome.trial.hash for outcome in fly(ray, trials)} == {trial.hash for trial in trials}
    on_gpu = [run for options, run in ray.started if options.get("num_gpus") == 1]
    on_cpu = [(options, run) for options, run in ray.started if "num_gpus" not in options]
    assert on_gpu
    assert on_cpu
    assert max(map(len, on_gpu)) > max(len(run) for _, run in on_cpu if run[0].training.engine != "lanes")
    for options, _ in on_cpu:
        assert options["runtime_env"]["env_vars"]["JAX_PLATFORMS"] == "cpu"
        assert (options["num_cpus"], options["max_retries"]) == (1, ray_executor.RETRIES)


def test_lanes_stay_together(small_pieces):
    ray = PaperRay(CPU=2)
    fly(ray, lanes_trials(6))
    assert [len(run) for _, run in ray.started] == [6]


def test_an_interruption_cancels_what_is_in_flight(small_pieces):
    trials, ray, recorder = fused_trials(12), PaperRay(CPU=3), Collected(interrupt_at=4)
    with pytest.raises(KeyboardInterrupt):
        fly(ray, trials, recorder)
    assert 4 <= len(recorder.outcomes) < len(trials)
    assert ray.cancelled


def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(ray_executor, "import_module", missing)
    with pytest.raises(Exception, match=r"factrank\[ray\]"):
        run_study(study_of(fused_trials(1)), "quick", Store(tmp_path), executor=RayExecutor())
