"""Memories and models of sequences on their way through a study: bundles, rows, kept weights."""

import numpy as np
import pytest

from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.prepared import task_of
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.columns import trial_columns, trial_of
from factrank.experiments.store.store import Store
from factrank.experiments.training import TrialResult
from factrank.families.factual_recall import FactSequences
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memory import WeightedFacts
from factrank.families.memory.memory_shape import MemoryShape
from stored_results import require_stored


def memory(n_inputs, seed=0, **options):
    facts = generated("associations", n_inputs=n_inputs, n_outputs=n_inputs, kind="injective", seed=seed)
    return Trial(WeightedFacts(facts, 0.5), MemoryShape(4, **options), Training(epochs=5), seed=seed)


def sequence(n_keys, model=FactualRecallShape(4, 2, 1, 2, 8, n_noise=7, copy_groups=2, copy_size=3), seed=0):  # noqa: B008
    facts = generated("answer-sets", n_keys=n_keys, n_queries=3, answers_per_query=2, structure="random", seed=seed)
    return Trial(FactSequences(facts, contexts=2), model, Training(epochs=5), seed=seed)


def untrained(trial):
    """A result with the weights before training."""
    database = trial.data.build()
    task = task_of(trial, database)
    model, further, _ = task.finish(task.init(np.random.default_rng(trial.seed)), {"recall": 0.5})
    return TrialResult(trial, "finished", 5, {"loss": 1.0, "recall": 0.5, **further}, weights=model)


EACH = {
    "linear": memory(5),
    "mlp": memory(5, width=3),
    "sequence": sequence(5),
    "one-hot": sequence(5, FactualRecallOneHotShape(n_noise=7)),
}


def test_neighbouring_sizes_share_a_bundle_and_other_widths_do_not():
    trials = [memory(n, seed) for n in (65, 70, 79) for seed in range(2)] + [memory(65, width=8), sequence(5)]
    bundles, failures = study_bundles(trials, {trial.hash for trial in trials})
    assert not failures
    assert {bundle.engine_name for bundle in bundles} == {"lanes"}
    together = [{trial.hash for trial in bundle.trials} for bundle in bundles]
    assert {trial.hash for trial in trials[:2]} <= next(one for one in together if trials[0].hash in one)
    assert sum(map(len, together)) == len(trials)
    for bundle in bundles:
        assert len({type(trial.model) for trial in bundle.trials}) == 1
        assert len({trial.model for trial in bundle.trials}) == 1
        assert all(entry.products > 0 and entry.weight_bytes > 0 for entry in bundle.members)
    lone = [trials[6].hash], [trials[7].hash]
    assert all(set(one) in together for one in lone)


def test_a_trial_that_its_task_refuses_is_a_failure_of_its_own():
    facts = generated("uniform", n_keys=4, n_queries=2, n_values=3, seed=0)
    refused = Trial(facts, MemoryShape(4))
    bundles, failures = study_bundles([refused, EACH["linear"]], {refused.hash, EACH["linear"].hash})
    assert [failure.trial for failure in failures] == [refused]
    assert "one query" in failures[0].error
    assert [bundle.trials for bundle in bundles] == [(EACH["linear"],)]


@pytest.mark.parametrize("name", EACH)
def test_columns_hold_the_whole_trial(name):
    trial = EACH[name]
    row = trial_columns(trial)
    assert trial_of(row["trial"]) == trial
    assert row["model.kind"] == {"linear": "memory", "mlp": "memory", "one-hot": "one_hot"}.get(name, name)
    assert (row["start"], row["measures"]) == ("drawn", "[]")
    if trial.source.generator == "associations":
        assert row["data.arguments.kind"] == "injective"  # `kind` alone would name the class
        assert (row["data.key_exponent"], row["model.width"]) == (0.5, trial.model.width)
    else:
        assert (row["data.structure"], row["data.contexts"], row["data.copy_fraction"]) == ("random", 2, 0.0)
        assert row["model.length"] == 32


def test_rows_and_weights_come_back_from_a_store(tmp_path):
    trials = list(EACH.values())
    rows = require_stored(Store(tmp_path / "store"), [untrained(trial) for trial in trials])
    for trial, row in zip(trials, rows, strict=True):
        assert row["facts"] == len(trial.data.build())
        assert row["bits_per_parameter"] == pytest.approx(0.5 * row["bits"] / row["parameters"])
