"""Bounds of margins: never above what any evaluation gives, exact where they say so, and close enough to be of use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from attention_proofs import margin_bounds, prove
from exact_layers import (
    Malice,
    ball_logits,
    ball_margin,
    disorders,
    dtype_of,
    margin,
    numbered,
    parabola_layer,
    random_table,
    sets_layer,
)
from factrank.certificates.arithmetic import ARITHMETIC, LOGISTIC_UNITS
from factrank.databases.database import Database
from factrank.families.attention.attention_layer import draw_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.proof.recall_proofs import why_no_bounds
from factrank.readouts.fiber_values import fibers_of

PRECISIONS = ["float64", "float32", "bfloat16"]
SHAPES = st.tuples(*[st.integers(1, 4)] * 4)
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(2, 5))


def answered(layer):
    """The database of the layer's own exact answers, and their margins in ball arithmetic."""
    triples, margins = [], []
    for key in range(layer.n_keys):
        for query in range(layer.n_queries):
            logits = ball_logits(layer, key, query)
            best = int(np.argmax([float(z) for z in logits]))
            triples.append((key, query, best))
            margins.append(ball_margin(logits, [best]))
    return numbered(triples, (layer.n_keys, layer.n_queries, layer.n_values)), np.array(margins)


def random_layer(shape, sizes, seed, precision, score_scale):
    """Random weights, some of them 0, with attention that is soft, sharp or saturated."""
    rng = np.random.default_rng(seed)
    layer = draw_layer(LayerShape(*shape), *sizes, rng=rng, dtype="float64")

    def rounded(weights):
        kept = np.where(rng.random(weights.shape) < 0.8, weights, 0.0)
        return kept.astype(dtype_of(precision))

    sparse = jax.tree.map(rounded, layer.scaled_scores(score_scale))
    return sparse, rng


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=8, deadline=None)
@given(shape=SHAPES, sizes=SIZES, seed=st.integers(0, 2**32 - 1), score_scale=st.sampled_from([0.3, 3.0, 3000.0]))
def test_no_order_of_evaluation_falls_below_the_bound(precision, shape, sizes, seed, score_scale):
    layer, rng = random_layer(shape, sizes, seed, precision, score_scale)
    database, exact = answered(layer)
    bounds, used = margin_bounds(layer, database)
    assert used in ("running error bound", "exact integers")
    for evaluation in disorders(layer, rng):
        for bound, (key, query, value) in zip(bounds, database.triples, strict=True):
            assert margin(evaluation.logits(key, query), [value]) >= bound
    # Saturated weights are 0 or 1 in the layer and not in the real numbers: a difference of e^-104.
    assert (bounds <= exact + 1e-30).all()
    if precision == "float64" and score_scale < 10:
        assert (bounds >= exact - 1e-11 * np.abs(exact).max(initial=1)).all()


@pytest.mark.optimised
@pytest.mark.parametrize("precision", PRECISIONS)
def test_integers_come_out_the_same_in_every_order(precision):
    rng = np.random.default_rng(3)
    database = random_table(rng, 5, 3, 9, share=0.8)
    layer = parabola_layer(database, precision)
    found = margin_bounds(layer, database)
    assert found.arithmetic == "exact integers"
    for evaluation in (one for one in disorders(layer, rng) if not isinstance(one, Malice)):
        for bound, (key, query, value) in zip(found.margins, database.triples, strict=True):
            codes = np.arange(9) - 4
            expected = 2 * codes[value] * codes - codes**2
            assert evaluation.logits(key, query).tolist() == expected.tolist()
            assert bound == 1


@pytest.mark.parametrize("times", [1, 3, 70])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_planted_margins(precision, times):
    database = random_table(np.random.default_rng(0), 6, 2, 5)
    layer = parabola_layer(database, precision, times=times)
    found = prove(layer, database)
    fits = 3 * times * (5 // 2) ** 2 <= 2 ** ARITHMETIC[precision].bits
    assert found.arithmetic == ("exact integers" if fits else "running error bound")
    if fits:
        assert (found.margin, found.reason) == (times, "")
    else:
        assert precision == "bfloat16"
        assert found.margin < times


@pytest.mark.parametrize(("precision", "largest"), [("float32", 4729), ("bfloat16", 19)])
def test_the_largest_vocabulary_of_exact_parabola_codes(precision, largest):
    """3 floor(V/2)^2 <= 2^p."""
    for n_values, fits in ((largest, True), (largest + 1, False)):
        database = numbered([(v, 0, v) for v in range(n_values)], (n_values, 1, n_values))
        found = margin_bounds(parabola_layer(database, precision), database)
        assert (found.arithmetic == "exact integers") == fits
        assert not fits or found.margins.min() == 1


@pytest.mark.optimised
@pytest.mark.parametrize(("precision", "least"), [("float64", 750), ("float32", 104), ("bfloat16", 104)])
def test_attention_is_exact_from_saturation_on(precision, least):
    database = random_table(np.random.default_rng(1), 4, 3, 4)
    at, below = (parabola_layer(database, precision, score=score) for score in (least, 0.97 * least))
    assert prove(at, database).arithmetic == "exact integers"
    assert prove(below, database).arithmetic == "running error bound"


@pytest.mark.optimised
@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_assumed_of_the_logistic_function_holds_here(precision):
    arithmetic, dtype = ARITHMETIC[precision], dtype_of(precision)
    with jax.enable_x64(precision == "float64"):
        logistic = jax.jit(jax.nn.sigmoid)
        inside = np.linspace(-1.1 * arithmetic.saturation, 1.1 * arithmetic.saturation, 200_001).astype(dtype)
        inside = np.concatenate([inside, np.linspace(-20, 20, 200_001).astype(dtype)])
        error = np.asarray(logistic(jnp.asarray(inside))).astype(np.float64) - expit(inside.astype(np.float64))
        assert np.abs(error).max() <= LOGISTIC_UNITS * arithmetic.unit
        far = np.geomspace(arithmetic.saturation, arithmetic.largest / 2, 100_001).astype(dtype)
        far = far[far.astype(np.float64) >= arithmetic.saturation]
        for sign in (1, -1):
            weight = logistic(jnp.asarray(sign * far))
            assert (np.asarray(weight) == (sign > 0)).all()
            assert (np.asarray(1 - weight) == (sign < 0)).all()


def test_sets_of_values():
    rng = np.random.default_rng(5)
    chosen = rng.random((4, 3, 6)) < 0.4
    chosen[0, 0] = True  # no other value is left
    database = numbered(np.argwhere(chosen), chosen.shape)
    layer = sets_layer(database)
    found = margin_bounds(layer, database)
    assert found.arithmetic == "exact integers"
    assert found.margins.tolist() == [np.inf if chosen[k, q].all() else 1.0 for k, q, _ in database.triples]
    noisy = jax.tree.map(lambda part: (part * 1.1).astype(part.dtype), layer)
    bounds, used = margin_bounds(noisy, database)
    assert used == "running error bound"
    assert not np.isnan(bounds).any()
    for evaluation in disorders(noisy, rng)[:2]:
        for row, bound in enumerate(bounds):
            key, query, _ = database.triples[row]
            fiber = np.unique(fibers_of(database)[row])
            assert 0.5 < bound <= margin(evaluation.logits(key, query), fiber)


def test_a_value_that_is_missing_from_a_set_has_no_positive_bound():
    database = numbered([(0, 0, 0), (0, 0, 1), (1, 0, 2)], (2, 1, 3))
    layer = sets_layer(database)
    more = Database(np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 1]], np.int32), *database.vocabularies)
    assert margin_bounds(layer, more).margins.tolist() == [np.inf, np.inf, np.inf, -1.0]
    fewer = Database(np.array([[0, 0, 0], [1, 0, 2]], np.int32), *database.vocabularies)
    assert margin_bounds(layer, fewer).margins.tolist() == [0.0, 1.0]
    assert not prove(layer, fewer).holds


def test_one_of_everything():
    database = numbered([(0, 0, 0)], (1, 1, 1))
    assert prove(parabola_layer(database), database).margin == np.inf
    assert prove(parabola_layer(numbered([], (1, 1, 2))), numbered([], (1, 1, 2))).holds


def test_blocks_do_not_matter(monkeypatch):
    database = random_table(np.random.default_rng(2), 30, 3, 7, share=0.7)
    for layer in (parabola_layer(database), parabola_layer(database, score=8)):
        whole = margin_bounds(layer, database)
        with monkeypatch.context() as patch:
            patch.setattr("factrank.certificates.blocks.BLOCK_CELLS", 40)
            patch.setattr("factrank.families.attention.proof.recall_proofs.BLOCK_CELLS", 20)
            assert margin_bounds(layer, database).margins.tolist() == pytest.approx(whole.margins.tolist(), rel=1e-9)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [(np.nan, "not a number"), (-np.inf, "infinite"), (1e30, "overflow")],
)
def test_weights_of_which_nothing_can_be_said(weight, reason):
    database = random_table(np.random.default_rng(2), 3, 2, 4)
    layer = parabola_layer(database)
    layer.w_o[0, 0, 0] = weight
    layer.w_v[0, 0, 0] = 1e30 if weight == 1e30 else 1.0
    assert reason in why_no_bounds(layer)
    found = prove(layer, database)
    assert (found.arithmetic, found.margin, found.holds) == ("none", -np.inf, False)
    assert reason in found.reason
