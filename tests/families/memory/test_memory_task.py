"""Training memories: losses, gradients and steps against NumPy, sizes padded to rungs, what is measured."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.generators.association_tables import associations
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.experiments.specs import DRAWN, FrequencyGroups, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention import Ranks
from factrank.families.factual_recall import FactSequences
from factrank.families.memory import WeightedFacts
from factrank.families.memory import memory_task as module
from factrank.families.memory.associative_memory import LinearMemory, draw_memory, resized
from factrank.families.memory.memory_construction import construct_memory
from factrank.families.memory.memory_shape import MemoryShape
from factrank.families.memory.memory_task import MemoryTask, log_partitions, log_partitions_by_autodiff, padded_size

LINEAR, MLP = MemoryShape(5), MemoryShape(5, width=7)
FLOAT64 = Training(precision="float64")


def task_of(database, shape=LINEAR, training=FLOAT64, *measures, key_exponent=1.0, start=DRAWN):
    facts = WeightedFacts(Given(database.fingerprint), key_exponent)
    return MemoryTask(Trial(facts, shape, training, measures, start), database)


def some_facts():
    """Nine inputs, eleven outputs, not injective, and two inputs without a fact: both are padded to 16."""
    whole = associations(9, 11, kind="random", seed=2)
    return Database(whole.triples[[0, 1, 3, 4, 5, 7, 8]], *whole.vocabularies)


def evaluated(task, model):
    """The loss, its gradient and what is measured, by one compiled program."""

    @jax.jit
    def program(model, data):
        batch = task.batches(data, jax.random.key(0), 0)[0]
        return *jax.value_and_grad(task.loss)(model, data, batch), task.measure(model, data)

    with jax.enable_x64(task.trial.training.precision == "float64"):
        loss, gradient, numbers = jax.device_get(program(model, task.data()))
    return float(loss), gradient, {name: float(number) for name, number in numbers.items()}


def reference(model, database, exponent):
    """Loss, its gradient by the last two matrices, margins and probabilities of the facts, from the formulas."""
    parts = [np.asarray(part, np.float64) for part in jax.tree.leaves(model)]
    inputs, outputs, *matrices = parts
    keys, _, values = database.triples.T
    weights = (keys + 1.0) ** -exponent / ((keys + 1.0) ** -exponent).sum()
    before = inputs[keys] @ matrices[0]
    hidden = np.maximum(before, 0) if len(matrices) == 2 else before
    streams = hidden @ matrices[1] if len(matrices) == 2 else before
    logits, rows = streams @ outputs.T, np.arange(len(keys))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    slopes = weights[:, None] * (probabilities - np.eye(len(outputs))[values]) @ outputs
    if len(matrices) == 2:
        gradients = [inputs[keys].T @ (slopes @ matrices[1].T * (before > 0)), hidden.T @ slopes]
    else:
        gradients = [inputs[keys].T @ slopes]
    own, others = logits[rows, values], logits.copy()
    others[rows, values] = -np.inf
    probability = probabilities[rows, values]
    return -(weights * np.log(probability)).sum(), gradients, own - others.max(axis=1), probability


@pytest.mark.parametrize("shape", [LINEAR, MLP])
def test_loss_gradient_and_measures_are_those_of_the_formulas(shape):
    facts = some_facts()
    task = task_of(facts, shape, FLOAT64, TauRecall((0.05, 0.1)))
    assert task.signature[2] == (16, 16)
    model = task.init(np.random.default_rng(0))
    loss, gradients, margins, probability = reference(resized(model, 9, 11), facts, 1.0)
    found, gradient, measured = evaluated(task, model)
    _, both, _ = evaluated(task_of(facts, replace(shape, trained_embeddings=True)), model)
    assert found == pytest.approx(loss, rel=1e-12)
    for ours, through, theirs in zip(jax.tree.leaves(gradient)[2:], jax.tree.leaves(both)[2:], gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        np.testing.assert_allclose(through, theirs, atol=1e-12)
    assert not both.outputs[11:].any()
    assert not both.inputs[[2, 6, 9]].any()
    assert measured["loss"] == pytest.approx(loss, rel=1e-12)
    assert task.exact(measured)["recall"] == (margins > 0).mean()
    assert task.exact(measured)["recall_0.1"] == (probability >= 0.1).mean()
    assert measured["margin"] == pytest.approx(margins.min(), rel=1e-9)
    assert measured["median_margin"] == pytest.approx(np.median(margins), rel=1e-9)


def test_filling_up_changes_nothing(monkeypatch):
    facts, found = some_facts(), []
    for rung in (padded_size, lambda size: size):
        monkeypatch.setattr(module, "padded_size", rung)
        task = task_of(facts, replace(MLP, trained_embeddings=True), Training(), key_exponent=0.5)
        model = task.init(np.random.default_rng(3))
        loss, gradient, numbers = evaluated(task, model)
        finished, _, _ = task.finish(model, numbers)
        found.append((loss, numbers, jax.tree.leaves(resized(gradient, 9, 11)), jax.tree.leaves(finished)))
    padded, plain = found
    assert padded[0] == pytest.approx(plain[0], abs=1e-6)
    assert padded[1] == pytest.approx(plain[1], abs=1e-6)
    for a, b in zip(padded[2], plain[2], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for a, b in zip(padded[3], plain[3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_derivative_of_the_partition_is_the_mean_output():
    rng = np.random.default_rng(0)
    streams, outputs, slopes = rng.standard_normal((4, 3)) * 200, rng.standard_normal((6, 3)), rng.standard_normal(4)
    with jax.enable_x64(True):
        for function in (log_partitions, log_partitions_by_autodiff):
            value, pull = jax.vjp(lambda x, f=function: f(x, jnp.asarray(outputs), jnp.array(5)), jnp.asarray(streams))
            logits = streams @ outputs[:5].T
            expected = np.exp(logits - logits.max(axis=1, keepdims=True))
            expected /= expected.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(value, np.logaddexp.reduce(logits, axis=1), rtol=1e-13)
            np.testing.assert_allclose(
                pull(jnp.asarray(slopes))[0], slopes[:, None] * (expected @ outputs[:5]), atol=1e-12
            )


# -------------------------------------------------------------------- in lanes


def adam(trial, database):
    """The weights after all epochs by Adam as its paper writes it, from the NumPy gradient."""
    n_keys, _, n_values = database.shape
    model = draw_memory(trial.model, n_keys, n_values, rng=np.random.default_rng(trial.seed), dtype="float64")
    first = second = np.zeros_like(model.weights)
    for t in range(1, trial.training.epochs + 1):
        gradient = reference(model, database, trial.data.key_exponent)[1][0]
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        step = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        model = eqx.tree_at(lambda one: one.weights, model, model.weights - trial.training.learning_rate * step)
    return model


@pytest.mark.optimised
def test_lanes_of_one_rung_train_together_as_each_would_in_numpy():
    training = Training(epochs=30, learning_rate=0.3, precision="float64")
    functions = [generated("associations", n_inputs=n, n_outputs=27 - n, kind="random", seed=n) for n in (13, 14)]
    trials = [Trial(WeightedFacts(facts, 1.0), LINEAR, training, seed=seed) for seed, facts in enumerate(functions)]
    results = train_many(trials)
    for trial, result in zip(trials, results, strict=True):
        facts = trial.source.build()
        model = adam(trial, facts)
        for a, b in zip(jax.tree.leaves(result.weights), jax.tree.leaves(model), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
        loss, _, margins, _ = reference(model, facts, 1.0)
        metrics, bits = result.metrics, len(facts) * np.log2(len(set(facts.triples[:, 2])))
        assert result.width == 2
        assert metrics["loss"] == pytest.approx(loss)
        assert metrics["recall"] == (margins > 0).mean()
        assert (metrics["facts"], metrics["parameters"], metrics["bits"]) == (len(facts), 25, pytest.approx(bits))
        assert metrics["bits_per_parameter"] == pytest.approx(metrics["recall"] * bits / 25)
        assert metrics["limit"] > metrics["limit_half"] > 0
        certificate = verify(result.weights, facts)
        assert certificate.recall == metrics["recall"]
        assert certificate.margin == pytest.approx(metrics["margin"])


def test_closed_forms_are_starts_and_need_no_training():
    facts = associations(9, 11, kind="random", seed=2)
    tasks = [
        task_of(facts, shape, start=start) for shape in (LINEAR, MLP) for start in ("two-sided", "logistic", "zero")
    ]
    for task in tasks:
        first = resized(task.init(np.random.default_rng(4)), 9, 11)
        start, shape = task.trial.start, task.trial.model
        if start == "zero":
            assert not jax.tree.leaves(first)[-1].any()
            continue
        built = construct_memory(facts, shape, form=start, seed=4, precision="float64").model
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(built), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len({task.signature for task in tasks}) == 2  # a start is no other computation


# -------------------------------------------------------------------- what is measured, and what is refused


def test_groups_by_frequency_and_the_smallest_memories():
    eye = np.eye(5, dtype=np.float32)
    facts = Database.from_facts([(f"i{n}", "f", f"o{n}") for n in range(5)])
    task = task_of(facts, LINEAR, Training(), FrequencyGroups(2), key_exponent=2.0)
    model = LinearMemory(eye, eye, np.diag(np.array([1, 1, -1, 1, -1], np.float32)))
    found = task.exact(evaluated(task, resized(model, 8, 8))[2])
    assert (found["recall_group_1"], found["recall_group_2"], found["recall"]) == (2 / 3, 1 / 2, 3 / 5)
    weights = np.arange(1.0, 6) ** -2 / (np.arange(1.0, 6) ** -2).sum()
    right, wrong = np.log(np.e + 4) - 1, np.log(np.exp(-1) + 4) + 1
    assert found["loss"] == pytest.approx(weights @ np.array([right, right, wrong, right, wrong]), rel=1e-6)

    tied = eqx.tree_at(lambda memory: memory.weights, model, np.zeros_like(eye))
    assert evaluated(task, resized(tied, 8, 8))[2]["recall"] == 0  # ties are wrong

    for n_inputs in (1, 3):  # with one output there is nothing to tell apart
        same = Database.from_facts([(f"i{n}", "f", "o") for n in range(n_inputs)])
        alone = task_of(same, LINEAR, Training())
        loss, _, numbers = evaluated(alone, alone.init(np.random.default_rng(0)))
        assert (loss, numbers["loss"], numbers["recall"], numbers["margin"]) == (0, 0, 1, np.inf)


def test_what_a_memory_cannot_be_is_refused():
    facts = associations(4, 4, kind="injective", seed=0)
    for training, option in ((Training(batch_size=2), "batch_size"), (Training(score_scale=2.0), "score_scale")):
        with pytest.raises(InputError, match=f"leave out {option}"):
            task_of(facts, LINEAR, training)
    with pytest.raises(InputError, match="a MemoryShape has no measure Ranks; it has Curve, EpochsTo, FrequencyGroups"):
        task_of(facts, LINEAR, Training(), Ranks())
    with pytest.raises(InputError, match=r"start of a MemoryShape must be one of drawn, zero, .*; got 'solved'"):
        task_of(facts, start="solved")
    with pytest.raises(InputError, match="a MemoryShape reads facts; got FactSequences"):
        Trial(FactSequences(Given(facts.fingerprint), contexts=2), LINEAR)
    with pytest.raises(InputError, match="5 groups"):
        task_of(facts, LINEAR, Training(), FrequencyGroups(5))
    two = Database.from_facts([("a", "f", "b"), ("a", "g", "b")])
    several = Database.from_facts([("a", "f", "b"), ("a", "f", "c")], multi=True)
    for wrong, message in ((two, "one query"), (several, "one value per key"), (facts.select(keys=[]), "no")):
        with pytest.raises(InputError, match=message):
            task_of(wrong)
    with pytest.raises(InputError, match="cannot freeze 'bias'"):
        train_many(
            [Trial(generated("associations", n_inputs=2, n_outputs=2, seed=0), LINEAR, Training(frozen=("bias",)))]
        )


def test_frozen_parts_and_embeddings():
    task = task_of(some_facts(), MLP, Training(frozen=("w_in",), optimiser=Optimiser("sgd")))
    assert task.frozen == ("inputs", "outputs", "w_in")
    assert task_of(some_facts(), replace(MLP, trained_embeddings=True), Training()).frozen == ()


def test_facts_are_weighted_by_the_rank_of_their_key():
    facts = some_facts()
    keys = facts.triples[:, 0]
    weights = task_of(facts, key_exponent=0.7).data()["weights"]
    expected = (keys + 1.0) ** -0.7
    np.testing.assert_allclose(weights[keys], expected / expected.sum(), rtol=1e-14)
    assert weights.sum() == pytest.approx(1)
    equal = task_of(facts, key_exponent=0.0)
    assert equal.trial == Trial(Given(facts.fingerprint), LINEAR, FLOAT64)  # to weight all alike is to say nothing
    np.testing.assert_allclose(equal.data()["weights"][keys], 1 / len(facts), rtol=1e-14)
    with pytest.raises(InputError, match="got facts with a presentation"):
        WeightedFacts(WeightedFacts(Given(facts.fingerprint)), 1.0)
