"""The fused loop on the CPU: forward it is the layer, backward the derivative, and its steps are those of lanes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.experiments.specs import TauRecall
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import PARTS, draw_layer
from factrank.families.attention.fused.fused_cpu import evaluate, run_epochs
from factrank.families.attention.fused.simd import exponential, load, logistic, store
from factrank.families.attention.layer_shape import LayerShape
from slow_layers import slow_layer_tensor

TAUS = np.array([0.5, 0.9])
EPSILON = {"float32": 1e-2, "float64": 1e-8}
"""Adam divides by |g| + epsilon: a small one would make steps of the rounding errors of tiny gradients in float32."""


@st.composite
def settings_of_runs(draw, most=(7, 5, 19), widest=(9, 4, 9, 9)):
    """(n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo), the facts as triples, a seed."""
    shape = tuple(draw(st.integers(1, size)) for size in most)
    sizes = shape + tuple(draw(st.integers(1, size)) for size in widest)
    seed, share, several = draw(st.integers(0, 99)), draw(st.sampled_from([0.3, 1.0])), draw(st.booleans())
    return sizes, some_facts(shape, share, several, seed), seed


def some_facts(shape, share, several, seed):
    """Triples of a share of the pairs, each with one value or up to three."""
    rng, (n_keys, n_queries, n_values) = np.random.default_rng(seed), shape
    pairs = np.sort(rng.choice(n_keys * n_queries, max(1, round(share * n_keys * n_queries)), replace=False))
    counts = rng.integers(1, min(3, n_values) + 1, len(pairs)) if several else np.ones(len(pairs), dtype=int)
    values = [rng.choice(n_values, count, replace=False) for count in counts]
    return [
        (pair // n_queries, pair % n_queries, v) for pair, own in zip(pairs, values, strict=True) for v in sorted(own)
    ]


def by_fiber(triples):
    """(starts, keys, queries, values) as the loop takes them."""
    keys, queries, values = (np.ascontiguousarray(column, dtype=np.int64) for column in np.array(triples).T)
    begins = np.flatnonzero(np.diff(keys, prepend=-1) | np.diff(queries, prepend=-1))
    return np.append(begins, len(keys)).astype(np.int64), keys[begins], queries[begins], values


def first_layer(sizes, seed, dtype):
    return draw_layer(LayerShape(*sizes[3:]), *sizes[:3], rng=np.random.default_rng(seed), dtype=dtype)


def flat(layer):
    return np.concatenate([np.asarray(getattr(layer, name)).ravel() for name in PARTS])


def fresh(weights):
    """The state before the first epoch."""
    return weights.copy(), np.zeros_like(weights), np.zeros_like(weights)


def train(state, triples, sizes, epochs, *, checks=(), stop=0, trained=None, score_scale=1.0, **numbers):
    """Train in place; gives the epoch reached and the records."""
    numbers = {"learning_rate": 0.01, "weight_decay": 0.0, "b1": 0.9, "b2": 0.999, "epsilon": 1e-8} | numbers
    options = (score_scale / sizes[5] ** 0.5, *numbers.values()), stop, TAUS
    trained = np.array([[0, len(state[0])]] if trained is None else trained, dtype=np.int64).reshape(-1, 2)
    span = epochs if isinstance(epochs, tuple) else (0, epochs)
    records = np.zeros((len(checks) + 1, 3 + len(TAUS)))
    checks = np.array(checks, dtype=np.int64)
    reached, noted = run_epochs(state, by_fiber(triples), sizes, options, trained, span, checks, records)
    assert not records[noted:].any()
    return reached, records[:noted]


def score(weights, triples, sizes, score_scale=1.0):
    """Loss, margins, probabilities."""
    margins, probabilities = np.zeros(len(triples)), np.zeros(len(triples))
    loss = evaluate(weights, by_fiber(triples), sizes, score_scale / sizes[5] ** 0.5, margins, probabilities)
    return loss, margins, probabilities


def slow_score(layer, triples, score_scale=1.0):
    """The same, fact by fact from the formula."""
    tensor, loss, margins, probabilities = slow_layer_tensor(layer, score_scale), 0.0, [], []
    for k, q, v in triples:
        z, own = tensor[k, q], [b for a, c, b in triples if (a, c) == (k, q)]
        log_sum = max(z) + np.log(np.exp(z - max(z)).sum())
        loss += (log_sum - z[v]) / len(triples)
        margins.append(min(z[own]) - max(np.delete(z, own), default=-np.inf))
        probabilities.append(np.exp(min(z[own]) - log_sum))
    return loss, margins, probabilities


def assert_scores_agree(layer, triples, sizes, tolerance, score_scale=1.0):
    fast, slow = score(flat(layer), triples, sizes, score_scale), slow_score(layer, triples, score_scale)
    for mine, theirs in zip(fast, slow, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- forward and backward


@given(settings_of_runs(), st.sampled_from([("float64", 1e-11), ("float32", 3e-5)]), st.sampled_from([1.0, 3.0]))
def test_evaluation_is_the_formula(run, precision, score_scale):
    (sizes, triples, seed), (dtype, tolerance) = run, precision
    assert_scores_agree(first_layer(sizes, seed, dtype), triples, sizes, tolerance, score_scale)


@pytest.mark.parametrize("sizes", [(50, 30, 5, 3, 2, 2, 2), (3, 2, 8200, 3, 1, 2, 9)], ids=["fibers", "values"])
def test_more_than_one_group_of_fibers(sizes):
    triples = some_facts(sizes[:3], 1.0, True, 0)
    assert_scores_agree(first_layer(sizes, 0, "float64"), triples[:: len(triples) // 50 or 1], sizes, 1e-11)
    weights = flat(first_layer(sizes, 0, "float64"))
    whole, half = score(weights, triples, sizes), len(triples) // 2
    while triples[half][:2] == triples[half - 1][:2]:
        half += 1
    pieces = [score(weights, piece, sizes) for piece in (triples[:half], triples[half:])]
    np.testing.assert_array_equal(whole[1], np.concatenate([pieces[0][1], pieces[1][1]]))
    gradients = [gradient(weights, piece, sizes) * len(piece) for piece in (triples, triples[:half], triples[half:])]
    np.testing.assert_allclose(gradients[0], gradients[1] + gradients[2], rtol=0, atol=1e-10)


def gradient(weights, triples, sizes, score_scale=1.0):
    """With b1 = 0 the first moment of Adam is the gradient."""
    state = fresh(weights)
    train(state, triples, sizes, 1, b1=0.0, score_scale=score_scale)
    return state[1]


@settings(max_examples=20)
@given(settings_of_runs(most=(4, 3, 10), widest=(4, 3, 9, 9)), st.sampled_from([1.0, 3.0]))
def test_gradient_is_the_derivative(run, score_scale):
    sizes, triples, seed = run
    weights = flat(first_layer(sizes, seed, "float64"))
    step, slopes = 1e-5, np.zeros_like(weights)
    for at in range(len(weights)):
        sides = [weights.copy(), weights.copy()]
        sides[0][at] += step
        sides[1][at] -= step
        above, below = (score(side, triples, sizes, score_scale)[0] for side in sides)
        slopes[at] = (above - below) / (2 * step)
    np.testing.assert_allclose(gradient(weights, triples, sizes, score_scale), slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_values", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_padding_never_leaks(n_values, dtype):
    """All logits far below zero, where a padded entry of zero would take all probability."""
    sizes = (4, 3, n_values, 3, 1, 2, 2)
    layer, triples = first_layer(sizes, 1, dtype), some_facts(sizes[:3], 1.0, False, 1)
    parts = {name: np.array(getattr(layer, name)) for name in PARTS}
    parts["embedding"] = 1 + np.abs(parts["embedding"])
    parts["unembedding"] -= 300
    low = SimpleNamespace(n_keys=4, **parts)
    assert slow_layer_tensor(low).max() < -300
    assert_scores_agree(low, triples, sizes, 1e-11 if dtype == "float64" else 1e-2)
    weights = flat(low)
    # sum_v z'_v = 0 on every fiber, and U' is linear in z'.
    by_value = gradient(weights, triples, sizes)[-3 * n_values :].reshape(3, n_values)
    np.testing.assert_allclose(by_value.sum(axis=1), 0, atol=1e-5 if dtype == "float32" else 1e-13)


# ---------------------------------------------------------------- steps


def as_database(triples, shape):
    names = (Vocabulary.numbered(letter, size) for letter, size in zip("kqv", shape, strict=True))
    return Database(np.array(triples, dtype=np.int32), *names)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 3e-5)])
@settings(max_examples=3)
@given(settings_of_runs(), st.sampled_from([{}, {"weight_decay": 0.1, "learning_rate": 0.03, "score_scale": 2.0}]))
def test_steps_are_those_of_lanes(dtype, tolerance, run, given_):
    sizes, triples, seed = run
    database = as_database(triples, sizes[:3])
    adam = Optimiser("adam", Options.of({"eps": EPSILON[dtype]}))

    def trial(epochs):
        training = Training(epochs=epochs, precision=dtype, optimiser=adam, engine="lanes", **given_)
        taus = TauRecall(tuple(TAUS.tolist()))
        return Trial(Given(database.fingerprint), LayerShape(*sizes[3:]), training, (taus,), seed=seed)

    start, numbers = flat(first_layer(sizes, seed, dtype)), {"epsilon": EPSILON[dtype]} | given_
    for epochs in (1, 10):
        (expected,) = train_many([trial(epochs)], databases=[database])
        state = fresh(start)
        assert train(state, triples, sizes, epochs, **numbers)[0] == epochs
        scaled = state[0].copy()
        n_embedding, n_qk = sizes[3] * (sizes[0] + sizes[1]), sizes[3] * sizes[4] * sizes[5]
        scaled[n_embedding : n_embedding + n_qk] *= given_.get("score_scale", 1.0)
        np.testing.assert_allclose(scaled, flat(expected.weights), rtol=tolerance, atol=tolerance)
        loss, margins, _ = score(scaled, triples, sizes)
        np.testing.assert_allclose(loss, expected.metrics["loss"], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(margins.min(), expected.metrics["margin"], rtol=tolerance, atol=10 * tolerance)


SIZES = (6, 4, 11, 5, 2, 3, 4)
TRIPLES = some_facts(SIZES[:3], 0.8, True, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=20)
@given(st.lists(st.integers(1, 59), max_size=6, unique=True), st.lists(st.integers(0, 59), max_size=6, unique=True))
def test_a_run_cut_anywhere_goes_on_as_if_it_were_whole(dtype, cuts, checks):
    whole, pieces = (fresh(flat(first_layer(SIZES, 0, dtype))) for _ in range(2))
    checks, ends, parts = sorted(checks), [0, *sorted(cuts), 60], []
    _, expected = train(whole, TRIPLES, SIZES, 60, checks=checks, weight_decay=0.01)
    for start, end in pairwise(ends):
        inside = [epoch for epoch in checks if start <= epoch < end]
        reached, records = train(pieces, TRIPLES, SIZES, (start, end), checks=inside, weight_decay=0.01)
        assert reached == end
        parts.append(records)
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    for mine, theirs in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_record_is_an_evaluation_and_changes_nothing():
    seen, unseen = (fresh(flat(first_layer(SIZES, 0, "float32"))) for _ in range(2))
    _, records = train(seen, TRIPLES, SIZES, 200, checks=range(200))
    assert records[-1, 2] > records[0, 2]
    for epoch in range(200):
        loss, margins, probabilities = score(unseen[0], TRIPLES, SIZES)
        counts = (margins > 0).sum(), *((probabilities >= tau).sum() for tau in TAUS)
        np.testing.assert_array_equal(records[epoch], [epoch, loss, *counts])
        train(unseen, TRIPLES, SIZES, (epoch, epoch + 1))
    np.testing.assert_array_equal(seen, unseen)


def test_frozen_ranges_stay_and_nothing_is_written_beyond_the_arrays():
    start = flat(first_layer(SIZES, 0, "float32"))
    guarded = [np.full(len(start) + 64, 7, dtype=np.float32) for _ in range(3)]
    state = tuple(array[32:-32] for array in guarded)
    state[0][:], state[1][:], state[2][:] = start, 0, 0
    ranges = [[3, 21], [40, 41], [100, len(start)]]
    train(state, TRIPLES, SIZES, 30, trained=ranges)
    moving = np.zeros(len(start), dtype=bool)
    for first, end in ranges:
        moving[first:end] = True
    assert (state[0][moving] != start[moving]).all()
    np.testing.assert_array_equal(state[0][~moving], start[~moving])
    assert not state[1][~moving].any()
    assert not state[2][~moving].any()
    assert all((array[:32] == 7).all() and (array[-32:] == 7).all() for array in guarded)
    everything_frozen = fresh(start)
    train(everything_frozen, TRIPLES, SIZES, 3, trained=[])
    np.testing.assert_array_equal(everything_frozen[0], start)


def test_models_side_by_side_do_not_meet():
    def run(seed):
        state = fresh(flat(first_layer(SIZES, seed, "float32")))
        train(state, TRIPLES, SIZES, 300, learning_rate=1e30 if seed == 3 else 0.01)
        return np.stack(state)

    alone = [run(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        for mine, theirs in zip(threads.map(run, range(8)), alone, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert np.isfinite(alone[2]).all()
    assert not np.isfinite(alone[3]).all()


IN_ANY_PROCESS = """
import hashlib
import numpy as np
from factrank.families.attention.fused.fused_cpu import run_epochs

digest = hashlib.sha256()
for dtype in ("float32", "float64"):
    rng, sizes = np.random.default_rng(0), (7, 5, 13, 6, 3, 3, 4)
    weights = rng.standard_normal(12 * 6 + 3 * 6 * 14 + 6 * 13).astype(dtype)
    state = weights, np.zeros_like(weights), np.zeros_like(weights)
    facts = np.arange(36), np.repeat(np.arange(7), 5), np.tile(np.arange(5), 7), rng.integers(0, 13, 35)
    options = (0.5, 0.01, 0.1, 0.9, 0.999, 1e-8), 0, np.array([0.5])
    run_epochs(state, facts, sizes, options, np.array([[0, len(weights)]]), (0, 100), np.arange(0), np.zeros((1, 4)))
    digest.update(weights.tobytes())
result = digest.hexdigest()
"""


def test_code_from_the_cache_gives_the_bits_of_code_compiled_afresh():
    """Where the tests run for the first time, this process has compiled and the other finds what was stored."""
    here = {}
    exec(IN_ANY_PROCESS, here)  # noqa: S102
    command = [sys.executable, "-c", f"{IN_ANY_PROCESS}\nprint(result)"]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here["result"]


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(("stop", "tau"), [(2, None), (3, 0.5), (4, 0.9)])
def test_a_run_stops_before_the_step_of_the_check_that_counts_every_fact(stop, tau):
    state = fresh(flat(first_layer(SIZES, 0, "float64")))
    functional = some_facts(SIZES[:3], 0.8, False, 3)
    reached, records = train(state, functional, SIZES, 2000, checks=range(0, 2000, 10), stop=stop)
    assert 0 < reached < 2000
    assert records[-1, 0] == reached
    assert records[-1, stop] == len(functional) > records[-2, stop]
    whole = fresh(flat(first_layer(SIZES, 0, "float64")))
    assert train(whole, functional, SIZES, reached, checks=[0])[0] == reached
    np.testing.assert_array_equal(state, whole)
    _, margins, probabilities = score(state[0], functional, SIZES)
    assert (margins > 0).all() if tau is None else (probabilities >= tau).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("learning_rate", [1e6, 1e30, 1e300])
def test_a_diverging_run_ends_not_finite_and_a_stopping_column_stops_it(dtype, learning_rate):
    start = flat(first_layer(SIZES, 0, dtype))
    wild = {"learning_rate": learning_rate, "weight_decay": 1.0}
    state = fresh(start)
    reached, records = train(state, TRIPLES, SIZES, 100, checks=range(100), **wild)
    assert reached == 100
    assert not np.isfinite(records[-1, 1])
    stopped, records = train(fresh(start), TRIPLES, SIZES, 100, checks=range(100), stop=2, **wild)
    assert stopped == records[-1, 0] < 100
    assert np.isfinite(records[:-1, 1]).all()
    assert not np.isfinite(records[-1, 1])
    assert not np.isfinite(score(state[0], TRIPLES, SIZES)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_one_weight_that_is_no_number_is_seen_wherever_it_is(dtype, poison):
    start = flat(first_layer(SIZES, 0, dtype))
    triples = some_facts(SIZES[:3], 1.0, False, 3)
    for at in range(len(start)):
        weights = start.copy()
        weights[at] = poison
        reached, records = train(fresh(weights), triples, SIZES, 5, checks=[0], stop=2)
        loss, _, probabilities = score(weights, triples, SIZES)
        assert (reached == 0) == (not np.isfinite(loss))
        np.testing.assert_array_equal(records[0, 1], loss)
        # An infinite score is a sound attention weight of 0 or 1; no other weight may be infinite.
        assert reached == 0 or (np.isinf(poison) and np.isfinite(probabilities).all())


# ---------------------------------------------------------------- vectors


@njit
def both(numbers, exponentials, logistics):
    for c in range(numbers.shape[1] // 8):
        store(exponentials, 0, c, exponential(load(numbers, 0, c)))
        store(logistics, 0, c, logistic(load(numbers, 0, c)))


@pytest.mark.parametrize(("dtype", "least"), [("float32", -60), ("float64", -700)])
def test_exponential_and_logistic_are_exact_to_rounding(dtype, least):
    x = np.concatenate([np.linspace(least, 0, 9999), -np.logspace(-40, 1, 9997)]).astype(dtype)[None, :19992]
    fast, above = np.zeros_like(x), np.zeros_like(x)
    tolerance = 2 * np.finfo(dtype).eps
    both(x, fast, above)
    np.testing.assert_allclose(fast, np.exp(x.astype(np.float64)), rtol=tolerance * (1 if dtype == "float32" else 60))
    np.testing.assert_allclose(above, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=60 * tolerance)
    both(-x, fast, above)
    np.testing.assert_allclose(above, 1 / (1 + np.exp(x.astype(np.float64))), rtol=tolerance)
    special = np.array([[0, -0.0, -1e30, -np.inf, np.nan, -1e-30, -1, -2]], dtype=dtype)
    fast, above = np.zeros_like(special), np.zeros_like(special)
    both(special, fast, above)
    np.testing.assert_allclose(fast, np.exp(special), rtol=tolerance)
    both(np.where(special == 0, special, -special), fast, above)
    np.testing.assert_allclose(
        above, [[0.5, 0.5, 1, 1, np.nan, 0.5, 1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-2))]], rtol=1e-6
    )
