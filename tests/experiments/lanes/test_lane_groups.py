"""Trials of different sizes in one bundle: who is padded, and that what is padded computes the same."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from factrank.experiments import bundles as bundling
from factrank.experiments.execution.study_bundles import bundles_again, study_bundles
from factrank.experiments.lanes import lane_groups as side_by_side
from factrank.experiments.prepared import prepare, task_of
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.memoriser import Saturation
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape

TRAINING = Training(
    epochs=40, learning_rate=0.01, batch_size=8, schedule="cosine", stop="recall", check_every=20, precision="float64"
)
SIZES = {None: [(3, 5, "d_model"), (4, 7, "d_qk")], 1: [(3, 8, "d_qk"), (3, 6, "d_model")]}
"""d_qk, tokens and the scale of scores, all padded to d_qk = 4 and 8 tokens; by the number of contexts."""


def trial_of(d_qk=3, tokens=5, scaled_by="d_model", n_contexts=None, seed=0, **training):
    examples = RandomExamples(30, tokens, 5, n_classes=7, n_contexts=n_contexts, seed=seed)
    shape = MemoriserShape(3, 6, d_qk, scaled_by=scaled_by)
    return Trial(examples, shape, replace(TRAINING, **training), Saturation(0.3), seed=seed)


def groups_of(trials):
    tasks = [task_of(trial, trial.data.build()) for trial in trials]
    return [[member.place for member in group] for group in side_by_side.side_by_side(trials, tasks).values()]


@pytest.mark.parametrize("n_contexts", SIZES)
def test_padded_tasks_train_as_if_they_were_not(monkeypatch, n_contexts):
    trials = [trial_of(*size, n_contexts=n_contexts, seed=seed) for seed, size in enumerate(SIZES[n_contexts])]
    alone = [train_many([trial])[0] for trial in trials]
    monkeypatch.setattr(side_by_side, "WIDE", {"cpu": 16})
    together = train_many(trials)
    assert {result.width for result in together} == {2}
    for one, other in zip(alone, together, strict=True):
        assert one.weights.shape == other.weights.shape == one.trial.model
        for ours, theirs in zip(jax.tree.leaves(one.weights), jax.tree.leaves(other.weights), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
        assert other.metrics == pytest.approx(one.metrics, rel=1e-7)
        assert one.metrics["saturated"] > 0


def test_who_runs_with_whom(monkeypatch):
    different = [trial_of(), trial_of(4), trial_of(tokens=8, epochs=60), trial_of(5), trial_of(tokens=9)]
    equal = [trial_of(2, seed=seed) for seed in range(16)]
    assert groups_of(different) == [[0], [1], [2], [3], [4]]  # nothing on a CPU
    monkeypatch.setattr(side_by_side, "WIDE", {"cpu": 16})
    assert groups_of(different) == [[2, 0, 1], [3], [4]]  # the longest first
    assert groups_of([*equal, *different])[0] == list(range(16))
    assert groups_of([*equal[:15], trial_of(2, tokens=6)]) == [list(range(16))]


def test_tasks_that_cannot_be_padded_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(side_by_side, "WIDE", {"cpu": 16})
    facts = generated("uniform", n_keys=4, n_queries=2, n_values=3, seed=1)
    layers = [Trial(facts, LayerShape(4, 1, d_qk, 2), Training(epochs=2, engine="lanes")) for d_qk in (1, 2)]
    assert groups_of(layers) == [[0], [1]]


def test_a_study_is_cut_in_the_same_way(monkeypatch):
    monkeypatch.setattr(side_by_side, "WIDE", {"cpu": 16})
    trials = [trial_of(), trial_of(9), trial_of(4), trial_of(3, 6), trial_of(tokens=7)]
    bundles, failures = study_bundles(trials, {trials[0].hash})
    assert not failures
    assert [bundle.trials for bundle in bundles] == [(trials[0], trials[2], trials[3], trials[4])]


def test_a_worker_pads_as_the_study_was_cut(monkeypatch):
    """A bundle that has trials of one recipe alone is padded too, if the list that it was cut from said so."""
    monkeypatch.setattr(side_by_side, "WIDE", {"cpu": 16})
    trials = [trial_of(d_qk, seed=seed) for d_qk in (5, 6, 7) for seed in range(3)]
    bundles, _ = study_bundles(trials, {trial.hash for trial in trials})
    assert [len(bundle.trials) for bundle in bundles] == [8, 1]
    for bundle in bundles:
        (again,), failures = bundles_again(bundle.trials, (), padded=bundle.padded)
        assert not failures
        assert again.trials == bundle.trials
        assert [one.task.signature for one in again.members] == [one.task.signature for one in bundle.members]


def test_lanes_are_wider_on_several_devices(monkeypatch):
    monkeypatch.setattr(bundling, "WIDEST", {"cpu": 4})
    facts = generated("uniform", n_keys=4, n_queries=2, n_values=3, seed=1)
    trials = [Trial(facts, LayerShape(4, 1, 2, 2), Training(epochs=2, engine="lanes"), seed=seed) for seed in range(16)]
    members = [prepare(trial, facts.build(), "cpu") for trial in trials]
    for n_devices, widest in ((1, 4), (2, 8), (3, 8), (4, 16)):
        assert {len(bundle.trials) for bundle in bundling.cut(members, n_devices)} == {widest}
