"""Bundles: stopping, dropping, curves, interruption, splitting, and tasks that the engine knows nothing of."""

from dataclasses import dataclass, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.lanes.device_memory import traced_bytes
from factrank.experiments.lanes.ladder import rung_above, rung_below, widths
from factrank.experiments.lanes.lane_programs import arithmetic, program_for
from factrank.experiments.lanes.lanes_engine import run_lanes
from factrank.experiments.specs import Curve, EpochsTo, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser
from factrank.experiments.specs.training_spec import Training as AnyTraining
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train, train_many
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.layer_shape import LayerShape
from factrank.readouts.recall_report import recall

Training = partial(AnyTraining, engine="lanes")
FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, n_facts=12, seed=1)
LAYER = LayerShape(d_model=6, n_heads=1, d_qk=2, d_vo=3)


def trials(n, training, **options):
    return [Trial(FACTS, LAYER, training, seed=seed, **options) for seed in range(n)]


# -------------------------------------------------------------------- the ladder


@pytest.mark.parametrize("widest", [1, 2, 64, 256])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 44, 64, 65, 100, 300, 1000])
def test_the_cut_covers_all_trials_with_little_waste(n, widest):
    cut = widths(n, widest)
    assert all(width == rung_above(width) <= widest for width in cut)
    assert sum(cut[:-1]) < n <= sum(cut) if n else cut == []
    assert cut == sorted(cut, reverse=True)
    assert sum(cut) <= max(n / 0.75, 1)


def test_rungs():
    assert [rung_above(n) for n in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 4, 8, 1024]
    assert [rung_below(n) for n in (1, 2, 3, 4, 5, 1000)] == [1, 2, 2, 4, 4, 512]


# -------------------------------------------------------------------- stopping


@pytest.mark.optimised
def test_a_run_stops_at_the_first_check_with_full_recall():
    stopping = Training(epochs=600, stop="recall", check_every=7, learning_rate=0.02)
    result = train(FACTS.build(), LAYER, stopping)
    assert result.status == "stopped"
    assert result.epochs % 7 == 0
    assert result.recall == 1
    before = train(FACTS.build(), LAYER, Training(epochs=result.epochs - 7, learning_rate=0.02))
    assert before.recall < 1
    at_the_stop = train(FACTS.build(), LAYER, Training(epochs=result.epochs, learning_rate=0.02))
    assert np.array_equal(at_the_stop.weights.w_v, result.weights.w_v)


def test_tau_recall_takes_longer():
    argmax, confident = (
        train(FACTS.build(), LAYER, Training(epochs=2000, stop=stop, learning_rate=0.02))
        for stop in ("recall", "recall_tau")
    )
    assert argmax.epochs < confident.epochs < 2000
    assert confident.recall_tau == 1


def test_finished_lanes_are_dropped_and_keep_their_weights():
    """Hard lanes go on alone at narrower rungs; a lane that stopped is what it was at its stop."""
    slow = [replace(trial, training=replace(trial.training, learning_rate=1e-6)) for trial in _stopping(3)]
    results = train_many([*_stopping(26), *slow])
    stopped = [result for result in results[:26] if result.status == "stopped"]
    assert len(stopped) >= 20
    assert any(result.width == 32 for result in stopped)
    for result in stopped[::5]:
        report = recall(result.model, FACTS.build())
        assert report.recall == result.recall == 1
        assert train(FACTS.build(), LAYER, result.trial.training, seed=result.trial.seed).recall == 1
    for result in results[-3:]:
        assert (result.status, result.epochs) == ("finished", 300)
        assert result.width <= 8


def _stopping(n):
    return trials(n, Training(epochs=300, stop="recall", learning_rate=0.03))


def test_a_diverged_lane_ends_early_when_runs_may_stop():
    wild = Trial(FACTS, LAYER, Training(epochs=300, stop="recall", learning_rate=1e30), seed=1)
    results = train_many([*_stopping(2), wild])
    assert [result.status for result in results] == ["stopped", "stopped", "diverged"]
    assert results[2].epochs < 300


def test_no_epochs_and_an_empty_list():
    assert train_many([]) == []
    assert train(FACTS.build(), LAYER, Training(epochs=0)).epochs == 0


# -------------------------------------------------------------------- curves


def test_curves_are_what_shorter_runs_end_with():
    epochs = (0, 3, 50, 120)
    (result,) = train_many(trials(1, Training(epochs=120), measures=(Curve(epochs), TauRecall((0.9, 0.5)))))
    assert result.curves["epoch"] == list(epochs)
    assert set(result.curves) == {"epoch", "loss", "recall", "recall_0.9", "recall_0.5"}
    for at, epoch in enumerate(epochs):
        shorter = train(FACTS.build(), LAYER, Training(epochs=epoch), measures=TauRecall((0.9, 0.5)))
        for name in ("loss", "recall", "recall_0.9", "recall_0.5"):
            assert result.curves[name][at] == pytest.approx(shorter.metrics[name], rel=1e-6)


def test_curves_end_where_a_run_stops():
    curve = Curve(tuple(range(0, 301, 20)))
    (result,) = train_many(trials(1, Training(epochs=300, stop="recall", learning_rate=0.03), measures=curve))
    assert result.curves["epoch"] == [epoch for epoch in curve.epochs if epoch <= result.epochs]


@pytest.mark.optimised
def test_a_curve_only_looks():
    """With or without curves a run stops at the same epoch with the same weights."""
    training = Training(epochs=300, stop="recall", learning_rate=0.03, check_every=100)
    plain = train(FACTS.build(), LAYER, training)
    watched = train(FACTS.build(), LAYER, training, measures=Curve(tuple(range(0, 101, 7))))
    assert plain.epochs == watched.epochs == 100
    assert np.array_equal(plain.weights.w_v, watched.weights.w_v)
    assert max(watched.curves["epoch"]) == 98


def test_epochs_to_each_tau():
    measures = (TauRecall((0.5, 0.9, 0.999999)), EpochsTo())
    (result,) = train_many(trials(1, Training(epochs=800, learning_rate=0.02, check_every=5), measures=measures))
    found = result.epochs_to
    assert set(found) == {"recall", "recall_0.5", "recall_0.9", "recall_0.999999"}
    assert 0 < found["recall"] <= found["recall_0.5"] < found["recall_0.9"]
    assert found["recall_0.999999"] is None
    stopped = train(FACTS.build(), LAYER, Training(epochs=800, learning_rate=0.02, check_every=5, stop="recall"))
    assert stopped.epochs == found["recall"]


# -------------------------------------------------------------------- interruption and progress


def test_results_arrive_one_by_one_and_survive_an_interruption():
    """Bundles of one lane: the third is interrupted, two results have been handed out."""
    arrived = []

    def on_result(result):
        arrived.append(result)
        if len(arrived) == 2:
            raise KeyboardInterrupt

    many = trials(4, Training(epochs=5))
    with pytest.raises(KeyboardInterrupt):
        train_many(many, on_result=on_result, memory=1)
    assert [result.trial.seed for result in arrived] == [0, 1]
    arrived.clear()
    results = train_many(many, on_result=on_result, memory=1, interruptible=True)
    assert [result.status for result in results] == ["finished", "finished", "interrupted", "interrupted"]
    with pytest.raises(InputError, match="interrupted"):
        _ = results[3].model


def test_lanes_that_had_stopped_survive_an_interruption_of_their_bundle(monkeypatch):
    """Fast lanes stop, slow ones keep the bundle going until it is interrupted inside an epoch."""
    from factrank.experiments.lanes.lane_programs import Program

    advance, calls = Program.advance, []

    def interrupted(self, lanes, epoch, n_epochs):
        calls.append(epoch)
        if epoch >= 200:
            raise KeyboardInterrupt
        return advance(self, lanes, epoch, n_epochs)

    monkeypatch.setattr(Program, "advance", interrupted)
    slow = [replace(trial, training=replace(trial.training, learning_rate=1e-6)) for trial in _stopping(2)]
    results = train_many([*_stopping(2), *slow], interruptible=True)
    assert [result.status for result in results] == ["stopped", "stopped", "interrupted", "interrupted"]
    assert all(recall(result.model, FACTS.build()).recall == 1 for result in results[:2])


@pytest.mark.parametrize("where", ["meter", "on_result"])
def test_an_interruption_in_a_hook_loses_no_lane_that_had_stopped(where):
    """Fast lanes have stopped in a bundle that slow lanes keep going, when Ctrl-C strikes outside the engine."""

    class Meter:
        def update(self, models_done, n_models, model_epochs, n_model_epochs):
            if where == "meter" and model_epochs > 0.8 * n_model_epochs:
                raise KeyboardInterrupt

    def on_result(result):
        if where == "on_result" and result.trial.model is OTHER:
            raise KeyboardInterrupt

    slow = [replace(trial, training=replace(trial.training, learning_rate=1e-6)) for trial in _stopping(2)]
    other = Trial(FACTS, OTHER, Training(epochs=1))
    results = train_many([other, *_stopping(2), *slow], meter=Meter(), on_result=on_result, interruptible=True)
    statuses = [result.status for result in results]
    if where == "meter":
        assert statuses == ["finished", "stopped", "stopped", "interrupted", "interrupted"]
    else:
        assert statuses == ["finished", *["interrupted"] * 4]


OTHER = LayerShape(d_model=3, n_heads=1, d_qk=1, d_vo=1)


def test_the_meter_hears_of_everything():
    class Listening:
        heard = ()

        def update(self, *numbers):
            self.heard = (*self.heard, numbers)

    meter = Listening()
    train_many(trials(3, Training(epochs=40)), meter=meter)
    done, models, epochs, all_epochs = zip(*meter.heard, strict=True)
    assert set(models) == {3}
    assert set(all_epochs) == {120}
    assert (done[0], done[-1]) == (0, 3)
    assert (epochs[0], epochs[-1]) == (0, 120)
    assert list(epochs) == sorted(epochs)


def test_the_meter_counts_what_early_stopping_saves():
    heard = []

    class Listening:
        def update(self, *numbers):
            heard.append(numbers)

    train_many(_stopping(4), meter=Listening())
    epochs = [numbers[2] for numbers in heard]
    assert epochs == sorted(epochs)
    assert heard[-1] == (4, 4, 1200, 1200)


# -------------------------------------------------------------------- memory


def test_memory_limits_the_width_and_not_the_results():
    many = trials(8, Training(epochs=30, precision="float64"))
    task = FactsTask(many[0], FACTS.build())
    with arithmetic("float64"):
        lane = program_for(many[0], task).lane_bytes
    wide, narrow = train_many(many), train_many(many, memory=3 * lane)
    assert {result.width for result in wide} == {8}
    assert {result.width for result in narrow} == {2}
    for first, second in zip(wide, narrow, strict=True):
        assert first.metrics["loss"] == pytest.approx(second.metrics["loss"], rel=1e-10)


def test_traced_bytes_count_every_intermediate():
    @partial(jax.jit)
    def inner(x):
        return x * 2

    assert traced_bytes(lambda x: inner(x) @ x.T, jnp.zeros((3, 5), jnp.float32)) == 4 * (15 + 15 + 9)


def test_where_memory_fails_after_all_the_bundle_is_halved(monkeypatch):
    from factrank.experiments.lanes.lane_programs import Program

    advance, tried = Program.advance, []

    def scarce(self, lanes, epoch, n_epochs):
        tried.append(len(lanes.done))
        if len(lanes.done) > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return advance(self, lanes, epoch, n_epochs)

    monkeypatch.setattr(Program, "advance", scarce)
    results = train_many(trials(7, Training(epochs=4)))
    assert [result.status for result in results] == ["finished"] * 7
    assert tried[:3] == [8, 4, 2]
    assert {result.width for result in results} == {2}


def test_lanes_handed_out_before_memory_failed_are_not_trained_again(monkeypatch):
    from factrank.experiments.lanes.lane_programs import Program

    advance, seen = Program.advance, []

    def scarce(self, lanes, epoch, n_epochs):
        if len(lanes.done) == 4:  # the narrower rung after the fast lanes were dropped
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return advance(self, lanes, epoch, n_epochs)

    monkeypatch.setattr(Program, "advance", scarce)
    slow = [replace(trial, training=replace(trial.training, learning_rate=1e-6)) for trial in _stopping(3)]
    facts, constant = FACTS.build(), replace(FACTS.build(), triples=FACTS.build().triples * [1, 1, 0])
    fast = [replace(trial, data=Given(constant.fingerprint)) for trial in _stopping(13)]
    hard = [replace(trial, data=Given(facts.fingerprint)) for trial in slow]
    results = train_many(
        [*fast, *hard], databases=[facts, constant], on_result=lambda result: seen.append(result.trial)
    )
    assert len(seen) == len(results) == 16
    assert {result.status for result in results} == {"stopped", "finished"}


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (Trial(generated("uniform", n_keys=3), LAYER), "missing n_queries"),
        (Trial(generated("nonsense"), LAYER), "no generator 'nonsense'"),
        (Trial(FACTS, LAYER, Training(Optimiser("adamm"))), "unknown optimiser 'adamm'"),
        (Trial(FACTS, LAYER, Training(frozen=("w_x",))), "trial 1: cannot freeze 'w_x'"),
        (Trial(FACTS, LAYER, Training(Optimiser("sgd", Options.of({"speed": 1})))), "trial 1: sgd: unknown speed"),
        (Trial(FACTS, LAYER, Training(engine="fused", batch_size=3)), "trial 1: the fused engine does not apply"),
    ],
)
def test_mistakes_in_a_trial_are_named_before_anything_is_trained(trial, message):
    trained = []
    with pytest.raises(InputError, match=message):
        train_many([*trials(1, Training(epochs=1)), trial], on_result=trained.append)
    assert trained == []


def test_a_missing_database_is_named():
    with pytest.raises(InputError, match="trial 0: data abc not found among the 1 given"):
        train_many([Trial(Given("abc"), LAYER)], databases=[uniform(3, 2, 2, seed=0)])


# -------------------------------------------------------------------- other tasks


@dataclass(frozen=True, eq=False)
class Regression:
    """A vector task: y = A x with a matrix of its own for every trial, sampled on the device from the epoch's key."""

    seed: int

    signature = ("regression", 4)
    frozen = ()

    def init(self, rng):
        return eqx.tree_at(
            lambda linear: linear.weight,
            eqx.nn.Linear(4, 4, use_bias=False, key=jax.random.key(0)),
            np.zeros((4, 4), np.float32),
        )

    def data(self):
        return {"matrix": np.random.default_rng(self.seed).standard_normal((4, 4)).astype(np.float32)}

    def batches(self, data, key, epoch):
        return jax.random.split(key, 3)

    def loss(self, model, data, batch):
        inputs = jax.random.normal(batch, (16, 4))
        return ((jax.vmap(model)(inputs) - inputs @ data["matrix"].T) ** 2).mean()

    def check(self, model, data):
        error = jnp.abs(model.weight - data["matrix"]).max()
        return {"loss": error, "recall": (error < 0.05).astype(jnp.float32)}

    measure = check

    def exact(self, numbers):
        return numbers

    def finish(self, model, numbers):
        return model, {"seed": float(self.seed), "again": numbers["loss"]}, [{"reading": "only"}]


def test_the_engine_trains_what_it_has_never_seen():
    """No database, another model, another loss, batches sampled on the device: planted matrices are found."""
    tasks = [Regression(seed) for seed in range(5)]
    training = Training(epochs=400, learning_rate=0.03, stop="recall")
    specs = [Trial(FACTS, LAYER, training, seed=seed) for seed in range(5)]
    finished = [lane for lanes, _ in run_lanes(specs, tasks) for lane in lanes]
    assert sorted(lane.place for lane in finished) == [0, 1, 2, 3, 4]
    for lane in finished:
        assert lane.status == "stopped"
        assert lane.metrics["seed"] == lane.place
        assert lane.metrics["again"] == lane.metrics["loss"]
        assert lane.readings == [{"reading": "only"}]
        np.testing.assert_allclose(lane.model.weight, tasks[lane.place].data()["matrix"], atol=0.05)
