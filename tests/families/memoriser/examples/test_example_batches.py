"""The order of examples: every pass visits each once, by whole numbers that never leave 32 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.families.memoriser.examples.example_batches import (
    MOST_EXAMPLES,
    ORDERS,
    ExampleLayout,
    draw_orders,
    examples_at,
    examples_of_step,
)
from factrank.families.memoriser.examples.example_vectors import stored
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples

BATCH = 7


def orders_of(n_examples, seed=0):
    multipliers, offsets = draw_orders(n_examples, np.random.default_rng(seed))
    return {"n_examples": np.int32(n_examples), "multipliers": multipliers, "offsets": offsets}


@jax.jit
def steps(orders, epochs):
    return jax.vmap(lambda epoch: examples_of_step(orders, epoch, BATCH))(epochs)


@pytest.mark.parametrize("n_examples", [1, 2, 5, 30, 210])
def test_every_pass_visits_every_example_once_and_passes_differ(n_examples):
    visited = np.asarray(steps(orders_of(n_examples), jnp.arange(300))).ravel()
    passes = visited[: len(visited) // n_examples * n_examples].reshape(-1, n_examples)
    assert (np.sort(passes, axis=1) == np.arange(n_examples)).all()
    if n_examples > 2:
        assert len({tuple(row) for row in passes[:ORDERS]}) > min(len(passes), n_examples) / 2


@pytest.mark.parametrize("n_examples", [MOST_EXAMPLES, MOST_EXAMPLES - 1, 130_000])
def test_numbers_are_those_of_the_formula_where_products_are_large(n_examples):
    orders = orders_of(n_examples)
    epochs = np.unique(np.random.default_rng(1).integers(0, 2**31 // BATCH, 300)).astype(np.int32)
    places = epochs[:, None].astype(np.int64) * BATCH + np.arange(BATCH)
    order = places // n_examples % ORDERS
    products = orders["multipliers"].astype(np.int64)[order] * (places % n_examples)
    expected = (products + orders["offsets"][order]) % n_examples
    np.testing.assert_array_equal(steps(orders, epochs), expected)


@pytest.mark.parametrize("n_contexts", [None, 3, 1])
def test_made_examples_are_the_stored_ones(n_contexts):
    drawn = RandomExamples(10, 4, 5, n_classes=3, n_contexts=n_contexts, seed=8)
    known, some = stored(drawn), np.array([9, 0, 4, 4], np.int32)
    arrays = {name: getattr(known, name) for name in ("queries", "contexts", "context_of", "labels")}
    data = {"seed": np.uint32(8), "n_contexts": np.int32(drawn.number_of_contexts), **arrays}
    for examples in (drawn, known):
        layout = ExampleLayout.of(examples)
        assert (layout.given is None) == (not isinstance(examples, VectorExamples))
        found = jax.jit(examples_at, static_argnums=0)(layout, data, some)
        contexts = known.contexts[known.context_of[some]]
        np.testing.assert_array_equal(found.queries, known.queries[some])
        np.testing.assert_array_equal(found.contexts, contexts[0] if n_contexts == 1 else contexts)
        np.testing.assert_array_equal(found.labels, known.labels[some])
