"""Checks: when a run that may stop does."""

import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.experiments.checks import Checks, Record
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape

FACTS = uniform(10, 10, 5, seed=0)
N_FACTS = len(FACTS)


def record(**training):
    """What is noted of a run over a hundred facts."""
    trial = Trial(Given("0"), LayerShape(2, 1, 1, 1), Training(check_every=5, **training))
    return Record(0, trial, FactsTask(trial, FACTS), Checks.of(trial))


def numbers(right, **others):
    return {"loss": 1.0, "recall": right / N_FACTS, "recall_0.95": 0.0, **others}


@pytest.mark.parametrize(("stop_at", "fewest"), [(1.0, 100), (0.99, 99), (0.985, 99), (0.29, 29), (0.001, 1)])
def test_a_run_stops_at_the_first_check_with_enough_facts(stop_at, fewest):
    run = record(stop="recall", stop_at=stop_at)
    run.note(5, numbers(fewest - 1))
    assert run.end is None
    run.note(7, numbers(fewest))  # no regular check
    assert run.end is None
    run.note(10, numbers(fewest))
    assert (run.end, run.diverged) == (10, False)


@pytest.mark.parametrize(
    ("stop", "number"),
    [("never", None), ("recall", "recall"), ("recall_tau", "recall_0.95"), ("recall_sequences", "recall_sequences")],
)
def test_what_stops_a_run(stop, number):
    trial = Trial(Given("0"), FactualRecallShape(4, 1, 2, 2), Training(stop=stop))
    assert Checks.of(trial).stop == number
    assert Checks.of(trial).every == (None if stop == "never" else 10)


@pytest.mark.parametrize("share", [0.99 - 1e-8, 0.99 + 1e-8])
def test_rounding_of_a_share_decides_nothing(share):
    run = record(stop="recall", stop_at=0.99)
    run.note(5, numbers(0, recall=share))
    assert run.end == 5


def test_nothing_but_every_fact_stops_a_run_by_default():
    run = record(stop="recall")
    run.note(5, numbers(0, recall=1 - 1e-7))
    assert run.end is None


def test_the_share_is_of_what_stops():
    run = record(stop="recall_tau", stop_at=0.5)
    run.note(5, numbers(100))
    assert run.end is None
    run.note(10, numbers(0, **{"recall_0.95": 0.5}))
    assert run.end == 10
