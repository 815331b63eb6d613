"""Learning rates that follow a schedule, and lanes of different length side by side."""

from dataclasses import replace
from math import cos, pi

import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.experiments.lanes.lane_programs import rate_factor, recipe_of
from factrank.experiments.prepared import task_of
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.fused.fused_engine import refusal
from factrank.families.attention.layer_shape import LayerShape

SHAPE = LayerShape(d_model=4, n_heads=1, d_qk=2, d_vo=2)
FACTS = generated("uniform", n_keys=4, n_queries=2, n_values=4, seed=0)
COSINE = Training(learning_rate=0.02, schedule="cosine", warm_up=0.1, epochs=40)


def by_hand(t, last, warm_up, schedule):
    rising = warm_up * last
    if t < rising:
        return 0.01 + 0.99 * t / rising
    return (1 + cos(pi * (t - rising) / (last - rising))) / 2 if schedule == "cosine" else 1.0


@pytest.mark.parametrize(("schedule", "warm_up"), [("cosine", 0.0), ("cosine", 0.05), ("constant", 0.2)])
def test_the_rate_rises_and_falls_as_the_formula_says(schedule, warm_up):
    training = Training(schedule=schedule, warm_up=warm_up)
    for last in (1, 7, 200):
        found = [float(rate_factor(training, t, jnp.array(last))) for t in range(last)]
        np.testing.assert_allclose(found, [by_hand(t, last, warm_up, schedule) for t in range(last)], atol=2e-6)


def test_the_schedule_is_that_of_torch():
    """One step of SGD on a linear loss moves a weight by the rate, so the way of a weight is the sum of the rates."""
    torch = pytest.importorskip("torch")
    epochs, warm = 40, 4
    weight = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=1.0)
    schedules = [
        torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=0.01, total_iters=warm),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs - warm),
    ]
    rates = []
    for schedule, steps in zip(schedules, (warm, epochs - warm), strict=True):
        for _ in range(steps):
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step()
        optimiser.param_groups[0]["lr"] = 1.0
    ours = [float(rate_factor(COSINE, t, jnp.array(epochs))) for t in range(epochs)]
    np.testing.assert_allclose(ours, rates, atol=1e-6)


@pytest.mark.optimised
def test_lanes_of_different_length_end_where_each_ends_alone():
    """Four lanes fill a width of four; each alone runs at width one, so the bits may differ, the numbers hardly."""
    trials = [
        Trial(FACTS, SHAPE, replace(COSINE, epochs=epochs, precision="float64"), seed=seed)
        for seed, epochs in enumerate((40, 7, 25, 12))
    ]
    assert len({recipe_of(trial, task_of(trial, FACTS.build())) for trial in trials}) == 1
    together = train_many(trials)
    assert [result.epochs for result in together] == [40, 7, 25, 12]
    assert {result.status for result in together} == {"finished"}
    for trial, result in zip(trials, together, strict=True):
        alone = train_many([trial])[0]
        assert result.metrics["loss"] == pytest.approx(alone.metrics["loss"], rel=1e-9)
        assert result.epochs == alone.epochs


def test_lanes_that_stop_and_lanes_that_end():
    """The long lane stops at full recall before its last epoch; the short ones end before they recall anything."""
    stopping = replace(COSINE, epochs=400, stop="recall", check_every=20, learning_rate=0.05)
    trials = [Trial(FACTS, SHAPE, replace(stopping, epochs=epochs), seed=3) for epochs in (3, 400, 5)]
    short, long, other = train_many(trials)
    assert (short.status, short.epochs) == ("finished", 3)
    assert (other.status, other.epochs) == ("finished", 5)
    assert long.status == "stopped"
    assert long.epochs in range(20, 400, 20)
    assert long.recall == 1


def test_a_constant_rate_keeps_its_bundles():
    """Their results were published with bundles cut by length."""
    short, long = (Trial(FACTS, SHAPE, Training(epochs=epochs)) for epochs in (3, 5))
    facts = FACTS.build()
    assert recipe_of(short, task_of(short, facts)) != recipe_of(long, task_of(long, facts))


def test_a_schedule_changes_what_is_trained_and_the_last_step_is_small():
    constant, falling = train_many(
        [Trial(FACTS, SHAPE, replace(COSINE, schedule=schedule, warm_up=0.0)) for schedule in ("constant", "cosine")]
    )
    assert constant.metrics["loss"] != falling.metrics["loss"]


def test_the_fused_engine_leaves_schedules_to_lanes():
    for training in (COSINE, Training(warm_up=0.1)):
        assert "schedule constant" in refusal(Trial(FACTS, SHAPE, training), "cpu")
        assert train_many([Trial(FACTS, SHAPE, replace(training, epochs=1))])[0].engine == "lanes"


@pytest.mark.parametrize("wrong", [{"schedule": "linear"}, {"warm_up": -0.1}, {"warm_up": 1.5}])
def test_a_schedule_that_there_is_not_is_refused(wrong):
    plain = Trial(FACTS, SHAPE, COSINE).to_dict()
    with pytest.raises(InputError, match=next(iter(wrong))):
        Trial.from_dict(plain | {"training": plain["training"] | wrong})
