"""The GPU backend of the fused engine: on a device of one thread everywhere, on a real one where there is one.

The first runs the same kernel and the same host code without threads beside each other (tests/one_thread_gpu.py).
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.errors import FactrankError
from factrank.experiments.specs import Curve, EpochsTo, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import PARTS
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused import fused_gpu as backend
from factrank.families.attention.fused.fused_engine import run_fused
from factrank.families.attention.fused.fused_plan import GpuPlan, arena_floats, plan_for
from factrank.families.attention.fused.fused_run import Fibers, prepare
from factrank.families.attention.layer_shape import LayerShape
from one_thread_gpu import COMPILER, one_thread_cupy

SHARED_BYTES = 232448
CACHES = (backend._kernel, backend.shared_room, backend.processors)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(params=[pytest.param("one thread", marks=needs_compiler), "gpu"])
def device(request, monkeypatch, compiled) -> str:
    if request.param == "gpu" and backend.gpu_missing() is not None:
        pytest.skip("no GPU")
    if request.param == "one thread":
        monkeypatch.setitem(sys.modules, "cupy", one_thread_cupy(compiled, SHARED_BYTES))
    for cached in CACHES:
        cached.cache_clear()
    yield request.param
    for cached in CACHES:
        cached.cache_clear()


def trained(trials, databases=()):
    """What comes of trials on the GPU backend, in their order."""
    given = {database.fingerprint: database for database in databases}
    built = [given[t.data.fingerprint] if isinstance(t.data, Given) else t.data.build() for t in trials]
    tasks = [FactsTask(trial, database) for trial, database in zip(trials, built, strict=True)]
    finished = [model for models, _ in run_fused(trials, tasks, None, "gpu") for model in models]
    return sorted(finished, key=lambda model: model.place)


def facts(seed=0, n_facts=40, n_keys=8, n_queries=5, n_values=17):
    return generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, n_facts=n_facts, seed=seed)


def same_bits(a, b) -> bool:
    return all(np.array_equal(getattr(a.model, part), getattr(b.model, part), equal_nan=True) for part in PARTS)


TRAINING = Training(epochs=12)
SHAPE = LayerShape(d_model=6, n_heads=2, d_qk=3, d_vo=2)
ONE_HEAD = LayerShape(d_model=5, n_heads=1, d_qk=2, d_vo=4)
TRIALS = {
    "full": Trial(facts(), SHAPE, TRAINING),
    "sparse": Trial(facts(n_facts=13), SHAPE, TRAINING),
    "one head": Trial(facts(), ONE_HEAD, TRAINING),
    "three heads": Trial(facts(), LayerShape(4, 3, 1, 1), TRAINING),
    "two values": Trial(facts(n_values=2), ONE_HEAD, TRAINING),
    "one pair": Trial(facts(n_keys=1, n_queries=1, n_facts=1), SHAPE, TRAINING),
    "weight decay": Trial(facts(), SHAPE, replace(TRAINING, weight_decay=0.3)),
    "score scale": Trial(facts(), SHAPE, replace(TRAINING, score_scale=2.5)),
    "frozen": Trial(facts(), SHAPE, replace(TRAINING, frozen=("embedding", "w_q"), weight_decay=0.1)),
    "no epochs": Trial(facts(), SHAPE, replace(TRAINING, epochs=0)),
    "curves": Trial(facts(), SHAPE, TRAINING, (Curve((0, 3, 12)),)),
    "taus": Trial(facts(), SHAPE, TRAINING, (TauRecall((0.5, 0.1, 0.9)), EpochsTo(), Curve((5,)))),
}


@pytest.mark.parametrize("name", TRIALS)
def test_gpu_equals_lanes(device, name):
    trial = TRIALS[name]
    [got] = trained([trial])
    [want] = train_many([replace(trial, training=replace(trial.training, engine="lanes"))])
    assert (got.status, got.epochs) == (want.status, want.epochs)
    assert got.curves.keys() == want.curves.keys()
    assert got.epochs_to == want.epochs_to
    np.testing.assert_allclose(got.metrics["loss"], want.metrics["loss"], rtol=1e-4, atol=1e-5)
    for number in want.curves:
        np.testing.assert_allclose(got.curves[number], want.curves[number], rtol=1e-4, atol=1e-5)
    for number in want.metrics.keys() - {"loss"}:
        np.testing.assert_allclose(got.metrics[number], want.metrics[number], rtol=1e-3, atol=1e-3)
    for part in trial.training.frozen:
        assert np.array_equal(getattr(got.model, part), getattr(want.weights, part))


def test_fibers_with_several_values(device):
    """Each fact of a fiber counts, and its margin is that of the fiber."""
    rows = [(f"k{k}", f"q{q}", f"v{v}") for k in range(5) for q in range(3) for v in range(8) if (k * q + v) % 3 == 0]
    database = Database.from_facts(rows, multi=True)
    trial = Trial(Given(database.fingerprint), SHAPE, replace(TRAINING, epochs=20), (Curve((0, 10)),))
    [got] = trained([trial], [database])
    [want] = train_many([replace(trial, training=replace(trial.training, engine="lanes"))], databases=[database])
    np.testing.assert_allclose(got.metrics["loss"], want.metrics["loss"], rtol=1e-4)
    np.testing.assert_allclose(got.metrics["median_margin"], want.metrics["median_margin"], rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(got.curves["loss"], want.curves["loss"], rtol=1e-4)


def test_runs_stop_at_regular_checks_alone(device):
    """Curves look at full recall before the check that stops the run, and change nothing."""
    trial = Trial(facts(n_facts=6), SHAPE, Training(epochs=60, stop="recall", check_every=7, learning_rate=0.03))
    looked = replace(trial, measures=(Curve(tuple(range(0, 60, 2))),))
    first, second = trained([trial, looked])
    assert first.status == "stopped"
    assert first.epochs == second.epochs
    assert first.epochs % 7 == 0
    assert same_bits(first, second)
    assert first.metrics["recall"] == 1
    assert max(second.curves["epoch"]) <= first.epochs


MANY = [
    Trial(facts(seed, n_facts), shape, Training(epochs=9, learning_rate=rate), seed=seed)
    for seed in range(3)
    for n_facts in (40, 11)
    for shape in (SHAPE, ONE_HEAD)
    for rate in (0.01, 0.1)
]


def test_alone_among_many_in_another_order_and_again(device):
    among, reverse = trained(MANY), trained(MANY[::-1])[::-1]
    alone = [trained([trial])[0] for trial in MANY[::5]]
    assert all(map(same_bits, among, reverse))
    assert all(map(same_bits, among[::5], alone))


def test_chunks_of_epochs_change_no_bit(device, monkeypatch):
    trials = [replace(trial, measures=(EpochsTo(), Curve((0, 4, 9)))) for trial in MANY[:6]]
    whole = trained(trials)
    monkeypatch.setattr(backend, "CHUNK_SECONDS", 0.0)
    cut = trained(trials)
    assert all(map(same_bits, whole, cut))
    assert [model.curves for model in whole] == [model.curves for model in cut]


def test_waves_change_no_bit(device, monkeypatch):
    whole = trained(MANY)
    monkeypatch.setattr(backend, "WAVE_RUNS", 5)
    monkeypatch.setattr(backend, "BUSY_RUNS", 6)
    monkeypatch.setattr(backend, "BYTES_AHEAD", 20_000)
    assert all(map(same_bits, whole, trained(MANY)))


def runs_of(trials):
    for place, trial in enumerate(trials):
        database = trial.data.build()
        yield prepare(place, trial, FactsTask(trial, database), Fibers.of(database))


def test_a_run_taken_up_from_its_state_ends_with_the_same_bits(device, monkeypatch):
    trials = [replace(trial, measures=(Curve((2, 7)),)) for trial in MANY[:4]]
    whole = trained(trials)
    monkeypatch.setattr(backend, "CHUNK_SECONDS", 0.0)
    blocks = backend.Blocks(runs_of(trials), len(trials))
    monkeypatch.setattr(backend, "HEARTBEAT_SECONDS", 0.001)
    for _ in blocks:
        if blocks.in_flight():  # begun, and brought to the host in the middle
            break
    blocks.close()
    states = {run.place: run.state for run in blocks.in_flight()}
    assert len(states) == len(trials)
    again = [replace(run, state=states[run.place]) for run in runs_of(trials)]
    resumed = [run.finish() for ended in backend.Blocks(iter(again), len(again)) for run in ended]
    resumed.sort(key=lambda model: model.place)
    assert all(map(same_bits, whole, resumed))
    assert [model.curves for model in whole] == [model.curves for model in resumed]


def test_a_stopped_state_is_only_evaluated(device):
    """A checkpoint may hold a run that a check has ended: taken up, it is not checked again."""
    trial = Trial(facts(n_facts=6), SHAPE, Training(epochs=60, stop="recall", check_every=7, learning_rate=0.03))
    trial = replace(trial, measures=(Curve((0, 7, 14, 21, 28)),))
    (run,) = next(ended for ended in backend.Blocks(runs_of([trial]), 1) if ended)
    assert run.state.stopped
    (again,) = (replace(one, state=run.state) for one in runs_of([trial]))
    (once_more,) = next(ended for ended in backend.Blocks(iter([again]), 1) if ended)
    assert once_more.finish().curves == run.finish().curves
    assert (once_more.finish().status, once_more.finish().epochs) == (run.finish().status, run.finish().epochs)
    assert same_bits(once_more.finish(), run.finish())


def test_errors_on_the_device_reach_the_caller_and_no_thread_stays(device, monkeypatch):
    def broken(self):
        raise MemoryError("the device is full")

    monkeypatch.setattr(backend.Wave, "launch", broken)
    with pytest.raises(MemoryError, match="the device is full"):
        trained(MANY[:2])
    assert not [thread for thread in threading.enumerate() if thread.name == "fused-gpu"]


def test_an_interruption_loses_nothing_that_had_ended(device, monkeypatch):
    """Wherever it strikes, runs come out as ended or with a state from which they go on to the same bits."""
    monkeypatch.setattr(backend, "CHUNK_SECONDS", 0.0)
    whole = trained(MANY[:6])
    source = run_fused(MANY[:6], [FactsTask(trial, trial.data.build()) for trial in MANY[:6]], None, "gpu")
    got = list(next(source)[0])
    got += source.throw(KeyboardInterrupt())[0]
    with pytest.raises(KeyboardInterrupt):
        next(source)
    assert not [thread for thread in threading.enumerate() if thread.name == "fused-gpu"]
    assert all(same_bits(model, whole[model.place]) for model in got)


def test_a_diverging_model_touches_no_other(device):
    wild = Trial(facts(), SHAPE, Training(epochs=9, learning_rate=1e30), seed=1)
    calm = trained(MANY)
    beside = trained([wild, *MANY, wild])
    assert beside[0].status == "diverged"
    assert all(map(same_bits, calm, beside[1:-1]))


def test_an_arena_that_is_too_small_is_an_error(device, monkeypatch):
    def short(*arguments):
        plan = plan_for(*arguments)
        return GpuPlan(plan.kind, plan.tile, plan.arena - 20)

    monkeypatch.setattr(backend, "plan_for", short)
    with pytest.raises(FactrankError, match="smaller than its model"):
        trained(MANY[:1])


def test_tiles_of_any_size_agree(device, monkeypatch):
    """Sums are made tile by tile: other tiles give other rounding, and nothing else."""
    trials = [MANY[0], MANY[4], replace(MANY[0], model=LayerShape(6, 3, 2, 2))]
    whole = trained(trials)
    for tile in (5, 7, 20):

        def tiled(sizes, n_fibers, n_taus, room, tile=tile):
            plan = plan_for(sizes, n_fibers, n_taus, room)
            return GpuPlan(plan.kind, min(tile, n_fibers), arena_floats(sizes, min(tile, n_fibers), n_taus))

        monkeypatch.setattr(backend, "plan_for", tiled)
        for one, other in zip(whole, trained(trials), strict=True):
            np.testing.assert_allclose(one.metrics["loss"], other.metrics["loss"], rtol=1e-5)


@pytest.mark.skipif(backend.gpu_missing() is not None, reason="no GPU")
@pytest.mark.parametrize("n_values", [1, 31, 50, 64, 100, 130, 600])
def test_any_number_of_values_on_a_gpu(n_values):
    """One, two, four or 32 lanes to a fiber; logits in registers, in shared memory, or outside."""
    trials = [Trial(facts(0, n, 12, 7, n_values), shape, TRAINING) for n in (84, 40) for shape in (SHAPE, ONE_HEAD)]
    with jax.default_device(jax.devices("cpu")[0]):
        lanes = train_many([replace(trial, training=replace(TRAINING, engine="lanes")) for trial in trials])
    for got, want in zip(trained(trials), lanes, strict=True):
        np.testing.assert_allclose(got.metrics["loss"], want.metrics["loss"], rtol=1e-4, atol=1e-5)
