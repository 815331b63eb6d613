"""Work of a trial: estimates by size against the products that the traced loss really takes."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.errors import InputError
from factrank.experiments.prepared import task_of
from factrank.experiments.registry import family_of
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.factual_recall import factual_recall_shape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.language import InContextRecall, LanguageShape, Sentences, language_shape
from factrank.families.memoriser import memoriser_shape
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape

ASSOCIATIONS, ANSWERS = associations(32, 64, seed=0), answer_sets(32, 8, 4, seed=0)
CASES = {  # sizes at which nothing is padded
    "linear": (MemoryShape(8), ASSOCIATIONS),
    "mlp": (MemoryShape(8, width=32), ASSOCIATIONS),
    "attention": (FactualRecallShape(8, 4, 2, 8), ANSWERS),
    "attention and mlp": (FactualRecallShape(16, 2, 8, 4, mlp_width=64), ANSWERS),
    "one-hot": (FactualRecallOneHotShape(2, linear=False), ANSWERS),
}


def work_of(trial, data):
    return family_of(trial.model).work(trial, data)


def epoch_products(trial, data):
    return work_of(trial, data).products


def working_numbers(trial, data):
    return work_of(trial, data).numbers


def products_of(jaxpr):
    """The multiplications of all matrix products in a traced function."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            summed = np.prod([equation.invars[0].aval.shape[axis] for axis in contracted])
            total += int(np.prod(equation.outvars[0].aval.shape) * summed)
        inner = jax.tree.leaves(equation.params, is_leaf=lambda one: hasattr(one, "eqns") or hasattr(one, "jaxpr"))
        for one in inner:
            if hasattr(one, "eqns") or hasattr(one, "jaxpr"):
                total += products_of(getattr(one, "jaxpr", one))
    return total


@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_loss(name):
    model, database = CASES[name]
    batch = 256 if database is ANSWERS else None
    trial = Trial(Given(database.fingerprint), model, Training(batch_size=batch))
    task = task_of(trial, database)
    data = task.data()
    batches = jax.eval_shape(task.batches, data, jax.random.key(0), 0)
    one = jax.tree.map(lambda rows: jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype), batches)
    traced = jax.make_jaxpr(task.loss)(task.init(np.random.default_rng(0)), data, one)
    assert epoch_products(trial, database) == pytest.approx(products_of(traced.jaxpr), rel=0.1)


def test_batches_that_are_not_given_are_those_that_are_trained():
    model, database = CASES["attention"]
    task = task_of(Trial(Given(database.fingerprint), model), database)
    sampled = jax.eval_shape(task.batches, task.data(), jax.random.key(0), 0)
    assert {rows.shape[1] for rows in jax.tree.leaves(sampled.facts)} == {factual_recall_shape.BATCH_SIZE}


OWN = RandomExamples(400, 12, 16, n_classes=10)
MEMORISERS = {
    "own contexts": (MemoriserShape(4, 16, 16), OWN),
    "wide values": (MemoriserShape(4, 16, 16, 8), replace(OWN, n_contexts=5)),
    "narrow heads": (MemoriserShape(4, 16, 2), OWN),
    "shared context": (MemoriserShape(4, 16, 16), replace(OWN, n_contexts=1)),
    "one label": (MemoriserShape(4, 16, 16), replace(OWN, n_classes=None)),
}


@pytest.mark.parametrize("name", MEMORISERS)
def test_products_of_memorisers_are_those_of_the_loss(name):
    model, examples = MEMORISERS[name]
    trial = Trial(examples, model)
    task = task_of(trial, examples)
    data = task.data()
    batches = jax.eval_shape(task.batches, data, jax.random.key(0), 0)
    assert batches.shape == (1, memoriser_shape.BATCH_SIZE)
    one = jax.ShapeDtypeStruct(batches.shape[1:], batches.dtype)
    model = task.init(np.random.default_rng(0))
    traced = jax.make_jaxpr(task.loss)(model, data, one)
    assert epoch_products(trial, examples) == pytest.approx(products_of(traced.jaxpr), rel=0.15)
    assert work_of(trial, examples).parameters == model.parameters


def test_work_of_memorisers_grows_with_what_there_is_to_do():
    for model, examples in MEMORISERS.values():
        larger = replace(examples, context_size=24)
        trial, smaller = Trial(examples, model), Trial(examples, model, Training(batch_size=16))
        for work in (epoch_products, working_numbers):
            assert 0 < work(smaller, examples) < work(trial, examples) < work(trial, larger)
            assert work(trial, replace(examples, n_examples=800)) == work(trial, examples)  # an epoch is a batch
    vectors = VectorExamples.of(np.ones((400, 16)), np.ones((1, 12, 16)), np.arange(400) % 10)
    model, drawn = MEMORISERS["shared context"]
    kept, recomputed = (
        working_numbers(Trial(spec, model), examples)
        for spec, examples in ((Given(vectors.fingerprint), vectors), (drawn, drawn))
    )
    assert kept - recomputed == (400 + 12) * 16  # random examples are made again in every step


RECALL = InContextRecall(pairs=(8,), n_keys=16, n_values=16)
LANGUAGE = {
    "attention alone": (LanguageShape(32, 2, 4, 12, n_layers=2), {}),
    "with an MLP": (LanguageShape(16, 2, 4, 12, mlp_width=64), {"people": 2}),
    "mixed": (LanguageShape(16, 2, 4, 12), {"recall": RECALL, "recall_fraction": 0.25}),
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_products_of_language_models_are_those_of_the_loss(name):
    model, shown = LANGUAGE[name]
    trial = Trial(Sentences(Given(ANSWERS.fingerprint), **shown), model)
    task = task_of(trial, ANSWERS)
    data, drawn = task.data(), task.init(np.random.default_rng(0))
    batches = jax.eval_shape(task.batches, data, jax.random.key(0), 0)
    assert sum(one.tokens.shape[1] for one in batches.values()) == language_shape.BATCH_SIZE
    one = jax.tree.map(lambda rows: jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype), batches)
    traced = jax.make_jaxpr(task.loss)(drawn, data, one)
    assert epoch_products(trial, ANSWERS) == pytest.approx(products_of(traced.jaxpr), rel=0.1)
    assert work_of(trial, ANSWERS).parameters == drawn.parameters
    smaller = replace(trial, training=Training(batch_size=16))
    for work in (epoch_products, working_numbers):
        assert 0 < work(smaller, ANSWERS) < work(trial, ANSWERS)


def test_a_task_needs_what_the_model_reads():
    for model, database in ((MemoriserShape(), ANSWERS), (LayerShape(2, 1, 1, 1), OWN)):
        with pytest.raises(InputError, match=r"reads (vectors|facts)"):
            task_of(Trial(Given("0"), model), database)


@pytest.mark.parametrize("name", CASES)
def test_work_grows_with_what_there_is_to_do(name):
    model, database = CASES[name]
    trial = Trial(Given(database.fingerprint), model)
    larger = associations(64, 64, seed=0) if database is ASSOCIATIONS else answer_sets(64, 16, 4, seed=0)
    for work in (epoch_products, working_numbers):
        assert 0 < work(trial, database) < work(trial, larger)
        if database is ANSWERS:
            smaller, default = (
                Trial(Given("0"), model, Training(batch_size=n)) for n in (16, factual_recall_shape.BATCH_SIZE)
            )
            assert work(smaller, database) < work(trial, database) == work(default, database)
