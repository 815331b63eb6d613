from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.families.attention.circuits.best_routing import best_margin, free_logits, routable
from factrank.families.attention.layer_tensor import LayerTensor
from factrank.readouts.fiber_values import fibers_of
from planted_layers import random_facts, random_layer

GRID = np.linspace(0, 1, 41)


def margins_on_a_grid(base, steps, own):
    for weights in product(GRID, repeat=len(steps)):
        logits = base + np.array(weights) @ steps
        yield logits[own].min() - logits[~own].max()


def random_problem(seed, n_heads, n_values=5, n_own=1):
    rng = np.random.default_rng(seed)
    own = np.zeros(n_values, dtype=bool)
    own[rng.choice(n_values, n_own, replace=False)] = True
    return rng.normal(size=n_values), rng.normal(size=(n_heads, n_values)), own


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("n_own", [1, 2])
def test_the_best_margin_against_a_grid_of_weights(n_heads, n_own):
    """The margin is concave and changes by at most the spread of the steps per unit of weight."""
    for seed in range(12):
        base, steps, own = random_problem(seed, n_heads, n_own=n_own)
        best, seen = best_margin(base, steps, own), max(margins_on_a_grid(base, steps, own))
        assert best >= seen - 1e-9
        assert best <= seen + np.ptp(steps, axis=1).sum() / 40


def as_parts(base, steps):
    """One key, one query: circuits whose difference is `steps`, and a direct path `base`."""
    circuits = np.stack([steps, np.zeros_like(steps)], axis=1)
    return LayerTensor(jnp.asarray(base[None]), jnp.full((len(steps), 1, 1, 2), 0.5), jnp.asarray(circuits))


@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=2, max_size=6), st.integers(1, 2))
def test_one_head_is_an_exact_interval(lines, n_own):
    """Integers, so that only intervals of more than one point count: compared with a linear program."""
    base, steps = np.array(lines, dtype=np.float64).T
    n_own = min(n_own, len(base) - 1)
    own = np.arange(len(base)) < n_own
    fiber = np.arange(2)[None] if n_own == 2 else np.zeros((1, 2), dtype=int)
    found = routable(as_parts(base, steps[None]), np.zeros((1, 2), dtype=int), fiber)
    assert found.tolist() == [best_margin(base, steps[None], own) > 0]


def test_ends_of_the_interval():
    pair, fiber = np.zeros((1, 2), dtype=int), np.zeros((1, 1), dtype=int)
    cases = {
        (-1.0, 1.0): False,  # reaches a tie at weight 1
        (-1.0, 2.0): True,
        (0.0, 1.0): True,
        (0.0, 0.0): False,  # always a tie
        (0.0, -1.0): False,  # a tie at weight 0, worse after
        (1.0, -5.0): True,  # right at weight 0
    }
    for (lead, slope), expected in cases.items():
        parts = as_parts(np.array([lead, 0.0]), np.array([[slope, 0.0]]))
        assert routable(parts, pair, fiber).tolist() == [expected]


def test_free_logits_contain_the_layer():
    shape = (7, 5, 6)
    layer, database = random_layer((6, 3, 3, 2), shape), random_facts(shape, 20)
    parts, pairs = layer.parts(), database.triples[:, :2]
    base, steps = free_logits(parts, pairs)
    weights = np.asarray(parts.attention)[:, pairs[:, 0], pairs[:, 1], 0]
    logits = base + np.einsum("hn,nhv->nv", weights, steps)
    np.testing.assert_allclose(logits, np.asarray(layer.tensor())[pairs[:, 0], pairs[:, 1]], atol=1e-5)


def test_what_is_right_is_routable():
    shape = (7, 5, 6)
    for heads in (1, 3):
        layer = random_layer((6, heads, 3, 2), shape, seed=heads)
        database = random_facts(shape, 35)
        answers = np.asarray(layer.tensor()).argmax(axis=2)
        pairs = database.triples[:, :2]
        assert routable(layer.parts(), pairs, answers[pairs[:, 0], pairs[:, 1]][:, None]).all()
        assert not routable(layer.parts(), pairs, fibers_of(database)).all()


def test_circuits_that_are_infinite_on_both_tokens_are_not_routable():
    """Their difference is not a number, of which nothing is said."""
    circuits = np.full((1, 2, 2), np.inf)
    parts = LayerTensor(direct=np.zeros((1, 2)), attention=np.ones((1, 1, 1)) / 2, circuits=circuits)
    assert not routable(parts, np.zeros((1, 2), int), np.zeros((1, 1), int)).any()


def test_what_is_not_finite_is_not_routable():
    parts = as_parts(np.array([9.0, 0.0]), np.array([[np.nan, 0.0]]))
    assert not routable(parts, np.zeros((1, 2), dtype=int), np.zeros((1, 1), dtype=int)).any()


def test_no_competitor():
    assert best_margin(np.zeros(2), np.zeros((1, 2)), np.ones(2, dtype=bool)) == np.inf
