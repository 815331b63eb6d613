"""Work of a trial: estimates by size against the products that the traced loss really takes."""

import jax
import numpy as np
import pytest

from factrank.databases import answer_sets, associations
from factrank.models import MemoryShape, OneHotShape, SequenceShape
from factrank.runs.work import epoch_products, working_numbers
from factrank.training.train import TASKS
from factrank.training.trial import SEQUENCES, Given, Training, Trial

ASSOCIATIONS, ANSWERS = associations(32, 64, seed=0), answer_sets(32, 8, 4, seed=0)
CASES = {  # sizes at which nothing is filled up
    "linear": (MemoryShape(8), ASSOCIATIONS),
    "mlp": (MemoryShape(8, width=32), ASSOCIATIONS),
    "attention": (SequenceShape(8, 4, 2, 8), ANSWERS),
    "attention and mlp": (SequenceShape(16, 2, 8, 4, mlp_width=64), ANSWERS),
    "one-hot": (OneHotShape(2, linear=False), ANSWERS),
}


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
    task = TASKS[type(model)](trial, database)
    data = task.data()
    batches = jax.eval_shape(task.batches, data, jax.random.key(0))
    one = jax.tree.map(lambda rows: jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype), batches)
    traced = jax.make_jaxpr(task.loss)(task.init(np.random.default_rng(0)), data, one)
    assert epoch_products(trial, database) == pytest.approx(products_of(traced.jaxpr), rel=0.1)


def test_batches_that_are_not_given_are_those_that_are_trained():
    model, database = CASES["attention"]
    task = TASKS[SequenceShape](Trial(Given(database.fingerprint), model), database)
    sampled = jax.eval_shape(task.batches, task.data(), jax.random.key(0))
    assert {rows.shape[1] for rows in jax.tree.leaves(sampled.facts)} == {SEQUENCES}


@pytest.mark.parametrize("name", CASES)
def test_work_grows_with_what_there_is_to_do(name):
    model, database = CASES[name]
    trial = Trial(Given(database.fingerprint), model)
    larger = associations(64, 64, seed=0) if database is ASSOCIATIONS else answer_sets(64, 16, 4, seed=0)
    for work in (epoch_products, lambda *these: working_numbers(*these, in_lanes=True)):
        assert 0 < work(trial, database) < work(trial, larger)
        if database is ANSWERS:
            smaller, default = (Trial(Given("0"), model, Training(batch_size=n)) for n in (16, SEQUENCES))
            assert work(smaller, database) < work(trial, database) == work(default, database)
