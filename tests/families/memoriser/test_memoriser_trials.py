"""Memorisers on their way through a study: bundles, rows, kept weights, and examples that are given."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.experiments.columns.measured import is_measured
from factrank.experiments.execution import estimate
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.lanes import measured_lanes
from factrank.experiments.prepared import task_of
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.columns import trial_columns, trial_of
from factrank.experiments.store.store import Store
from factrank.experiments.study.study import Study
from factrank.experiments.training import TrialResult, best_of
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.memoriser import Saturation
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from stored_results import require_stored

EXAMPLES, SHAPE = RandomExamples(40, 4, 6, n_classes=5), MemoriserShape(2, 6, 3)
COSINE = Training(epochs=5, batch_size=8, schedule="cosine", warm_up=0.2)
RNG = np.random.default_rng(0)
VECTORS = VectorExamples.of(RNG.random((9, 6)), RNG.random((4, 6)), RNG.random(9))
EACH = {
    "classes": Trial(EXAMPLES, SHAPE, COSINE, (Saturation(0.9),)),
    "one label": Trial(replace(EXAMPLES, n_classes=None, n_contexts=1), replace(SHAPE, positions=False)),
    "in float64": Trial(EXAMPLES, replace(SHAPE, embedded=False, scaled_by="d_qk"), Training(precision="float64")),
    "given": Trial(Given(VECTORS.fingerprint), SHAPE),
}


def untrained(trial):
    """A result with the weights before training."""
    task = task_of(trial, VECTORS if isinstance(trial.data, Given) else trial.data.build())
    numbers = {"loss": 1.0, "recall": 0.5, "explained": 0.25}
    model, further, _ = task.finish(task.init(np.random.default_rng(trial.seed)), numbers)
    return TrialResult(trial, "finished", 5, {**numbers, **further}, weights=model)


def together(trials, databases=()):
    bundles, failures = study_bundles(trials, {trial.hash for trial in trials}, databases)
    assert not failures
    assert {bundle.engine_name for bundle in bundles} == {"lanes"}
    assert all(entry.products > 0 and entry.weight_bytes > 0 for bundle in bundles for entry in bundle.members)
    return sorted(len(bundle.trials) for bundle in bundles)


def test_sizes_lengths_and_seeds_share_a_bundle_and_models_do_not():
    trials = [
        Trial(replace(EXAMPLES, n_examples=n, seed=seed), SHAPE, replace(COSINE, epochs=epochs), seed=seed)
        for n, epochs in ((40, 5), (50, 7))
        for seed in range(2)
    ]
    assert together(trials) == [4]
    assert together([*trials, Trial(EXAMPLES, replace(SHAPE, n_heads=3), COSINE)]) == [1, 4]
    assert together([*trials, Trial(replace(EXAMPLES, context_size=5), SHAPE, COSINE)]) == [1, 4]
    assert together([EACH["given"]], [VECTORS]) == [1]


def test_what_cannot_run_is_a_failure_of_its_own():
    facts = sample("astrid")
    reads_facts = Trial(Given(facts.fingerprint), SHAPE)
    reads_vectors = Trial(Given(VECTORS.fingerprint), LayerShape(2, 1, 1, 1))
    too_wide = Trial(EXAMPLES, replace(SHAPE, d_model=8, embedded=False))
    trials = [reads_facts, reads_vectors, too_wide, EACH["given"], EACH["classes"]]
    bundles, failures = study_bundles(trials, {trial.hash for trial in trials}, [facts, VECTORS])
    errors = {failure.trial.hash: failure.error for failure in failures}
    assert "a memoriser reads vectors" in errors.pop(reads_facts.hash)
    assert "a LayerShape reads facts; got VectorExamples" in errors.pop(reads_vectors.hash)
    assert "d_model = 8 dimensions; got 6" in errors.pop(too_wide.hash)
    assert not errors
    assert sorted(trial.hash for bundle in bundles for trial in bundle.trials) == sorted(one.hash for one in trials[3:])


def test_columns_hold_the_whole_trial():
    for trial in EACH.values():
        row = trial_columns(trial)
        assert trial_of(row["trial"]) == trial
        assert row["model.kind"] == "memoriser"
        for part, prefix in ((trial.model, "model"), (trial.data, "data")):
            said = {f"{prefix}.{field.name}": getattr(part, field.name) for field in fields(part)}
            assert said.items() <= row.items()
    row = trial_columns(EACH["classes"])
    sizes = "n_examples", "context_size", "d_input", "n_classes", "n_contexts", "seed"
    assert [row[f"data.{name}"] for name in sizes] == [40, 4, 6, 5, None, 0]
    assert (row["training.schedule"], row["training.warm_up"], row["start"]) == ("cosine", 0.2, "drawn")
    assert json.loads(row["measures"]) == [{"kind": "saturation", "threshold": 0.9}]


def test_rows_and_weights_come_back_from_a_store(tmp_path):
    results = [untrained(trial) for trial in EACH.values()]
    require_stored(Store(tmp_path / "store"), results)
    assert all(is_measured(name) for result in results for name in result.metrics)


def recorded(seen):
    """What the estimate times: the trials are kept in `seen`, and still timed."""

    def measured(trials, tasks, n_epochs):
        seen.extend(trials)
        return measured_lanes(trials, tasks, n_epochs)

    return measured


@pytest.mark.parametrize(("n_contexts", "fewer"), [(None, None), (1, 1), (5000, 256)])
def test_a_speed_is_measured_without_reading_all_examples(monkeypatch, tmp_path, n_contexts, fewer):
    examples, seen = replace(EXAMPLES, n_examples=100_000, n_contexts=n_contexts), []
    monkeypatch.setattr(estimate, "measured_lanes", recorded(seen))
    trial = Trial(examples, SHAPE, Training(epochs=50_000, schedule="cosine", stop="recall"))
    planned = estimate.plan_run(Study("x", "", None, "", "", lambda _: [trial]), "quick", Store(tmp_path))
    assert (planned.n_to_run, planned.estimated_from) == (1, "measurement")
    assert planned.seconds >= 0
    assert planned.n_bytes > 0
    assert {one.data for one in seen} == {replace(examples, n_examples=256, n_contexts=fewer)}
    assert {one.model for one in seen} == {SHAPE}


def test_a_speed_is_measured_on_what_trains_and_from_random_weights(monkeypatch, tmp_path):
    """Solves are no steps: nine of ten trials are solved only, and still one that trains is timed."""
    seen = []
    monkeypatch.setattr(estimate, "measured_lanes", recorded(seen))
    still = [Trial(EXAMPLES, SHAPE, Training(epochs=0), start="solved", seed=seed) for seed in range(9)]
    moving = Trial(EXAMPLES, SHAPE, Training(epochs=100), start="solved")
    plan = estimate.plan_run(Study("x", "", None, "", "", lambda _: [*still, moving]), "quick", Store(tmp_path))
    assert plan.estimated_from == "measurement"
    assert {(one.model, one.start) for one in seen} == {(SHAPE, "drawn")}
    assert all(one.training.epochs > 0 for one in seen)


def test_what_trains_nothing_has_no_estimate(tmp_path):
    still = Trial(EXAMPLES, SHAPE, Training(epochs=0))
    plan = estimate.plan_run(Study("x", "", None, "", "", lambda _: [still]), "quick", Store(tmp_path))
    assert (plan.n_to_run, plan.seconds, plan.estimated_from) == (1, None, "")
    assert plan.n_bytes > 0


def test_a_study_holds_the_examples_that_it_names():
    study = Study("given", "Given", None, "", "", lambda _: [EACH["given"]], databases=(VECTORS,))
    assert study.trials_of("quick") == [EACH["given"]]
    with pytest.raises(InputError, match="not among the databases of the study"):
        replace(study, databases=()).trials_of("quick")


def test_the_best_of_real_labels_has_the_smallest_loss():
    found = [
        TrialResult(EACH["one label"], "finished", metrics={"loss": loss, "recall": 0.5}, weights=0)
        for loss in (3.0, 1.0, float("nan"), 2.0)
    ]
    assert best_of(found) is found[1]
