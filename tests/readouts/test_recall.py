import json
from math import inf, isnan, nan

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.attention.circuits.layer_parts import parts_of
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.readouts import evaluation_blocks as blocks
from factrank.readouts.recall_report import margins_of, recall
from planted_layers import Table, circle_layer, numbered, random_facts, random_layer, sufficient_scale


def slow_facts(logits, database):
    """Margin and probability of every fact straight from the definitions."""
    margins, probabilities = [], []
    for key, query, _ in database.triples.tolist():
        z = np.asarray(logits[key, query], dtype=np.float64)
        fiber = [v for k, q, v in database.triples.tolist() if (k, q) == (key, query)]
        rest = [v for v in range(len(z)) if v not in fiber]
        margins.append(min(z[fiber]) - max(z[rest], default=-inf))
        softmax = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        probabilities.append(min(softmax[fiber]))
    return np.array(margins), np.array(probabilities)


def slow_hallucinations(logits, database, tau):
    valid = {(k, q) for k, q, _ in database.triples.tolist()}
    found = 0
    for key in range(database.n_keys):
        for query in range(database.n_queries):
            z = np.asarray(logits[key, query], dtype=np.float64)
            softmax = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            found += (key, query) not in valid and softmax.max() >= tau
    return found


SHAPE = (7, 5, 6)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("tau", [0.3, 0.6])
def test_recall_agrees_with_an_exhaustive_reference(most, tau):
    database = random_facts(SHAPE, 23, seed=most, most=most)
    layer = random_layer((6, 2, 3, 2), SHAPE)
    layer = eqx.tree_at(lambda x: x.unembedding, layer, 2 * layer.unembedding)
    logits = np.asarray(layer.tensor())
    margins, probabilities = slow_facts(logits, database)
    found, facts = recall(layer, database, tau), margins_of(layer, database)
    np.testing.assert_allclose(facts.margins, margins, atol=1e-5)
    np.testing.assert_allclose(facts.probabilities, probabilities, atol=1e-5)
    assert 0 < found.recall < 1
    assert found.recall == np.mean(margins > 0)
    assert found.recall_tau == np.mean(probabilities >= tau)
    assert found.margin == pytest.approx(min(margins), abs=1e-5)
    assert found.median_margin == pytest.approx(np.median(margins), abs=1e-5)
    assert found.hallucinations == slow_hallucinations(logits, database, tau) > 0
    assert found.silent_fibers == 35 - 23
    for code, row in enumerate(found.by_query):
        mine = database.triples[:, 1] == code
        assert row.query == database.queries[code]
        assert row.facts == mine.sum()
        assert row.recall == pytest.approx(np.mean(margins[mine] > 0))
        assert row.recall_tau == pytest.approx(np.mean(probabilities[mine] >= tau))
        assert row.margin == pytest.approx(min(margins[mine]), abs=1e-5)
        assert row.median_margin == pytest.approx(np.median(margins[mine]), abs=1e-5)


def test_a_transformer_without_circuits_is_measured_too():
    database = random_facts(SHAPE, 20)
    shape = TransformerShape(6, 2, 3, 2, n_layers=2, mlp_width=8, layer_norm=True)
    model = init_transformer(shape, *SHAPE, key=jax.random.key(0))
    found = recall(model, database, 0.4)
    margins, probabilities = slow_facts(np.asarray(model.tensor()), database)
    assert found.recall == np.mean(margins > 0)
    assert found.recall_tau == np.mean(probabilities >= 0.4)
    assert found.attention is None


@pytest.mark.optimised
def test_results_do_not_depend_on_the_block_size(monkeypatch):
    database, layer = random_facts(SHAPE, 23, most=2), random_layer((6, 2, 3, 2), SHAPE)
    whole = recall(layer, database, 0.3), margins_of(layer, database)
    for cells in (1, 100, 200):
        monkeypatch.setattr(blocks, "BLOCK_CELLS", cells)
        parts = recall(layer, database, 0.3), margins_of(layer, database)
        np.testing.assert_allclose(parts[1].margins, whole[1].margins, atol=1e-6)
        np.testing.assert_allclose(parts[1].probabilities, whole[1].probabilities, atol=1e-6)
        assert parts[0].recall == whole[0].recall
        assert parts[0].hallucinations == whole[0].hallucinations


def test_ties_are_wrong():
    table = jnp.array([[[1.0, 1.0, 0.0], [2.0, 1.0, 1.0]]])
    found = recall(Table(table), numbered([(0, 0, 0), (0, 1, 0)], (1, 2, 3)))
    assert [row.recall for row in found.by_query] == [0.0, 1.0]
    assert found.margin == 0.0


def test_a_probability_of_exactly_tau_is_enough():
    """A fact and a missing entry with the same logits: confident at their probability, and not just above it."""
    layer, database = Table(jnp.array([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]])), numbered([(0, 0, 0)], (1, 2, 3))
    (tau,) = margins_of(layer, database).probabilities.tolist()
    for least, expected in ((tau, 1), (np.nextafter(tau, 1), 0)):
        found = recall(layer, database, float(least))
        assert (found.recall_tau, found.hallucinations, found.silent_fibers) == (expected, expected, 1)


def test_a_fiber_of_several_values_is_right_or_wrong_as_a_whole():
    table = jnp.array([[[5.0, 3.0, 1.0, 0.0], [5.0, 1.0, 1.0, 0.0]]])
    facts = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 3)]
    found = recall(Table(table), numbered(facts, (1, 2, 4)), 0.1)
    assert found.recall == 2 / 5
    assert [row.margin for row in found.by_query] == [2.0, -1.0]
    assert found.recall_tau == 2 / 5


def test_logits_that_are_not_numbers_are_wrong_and_reported():
    table = jnp.zeros((2, 2, 3)).at[:, :, 1].set(9.0)
    table = table.at[0, 0, 2].set(nan).at[0, 1, 1].set(nan).at[1, 1, 0].set(nan)
    database = numbered([(0, 0, 1), (0, 1, 1), (1, 0, 1)], (2, 2, 3))
    found = recall(Table(table), database)
    assert found.recall == found.recall_tau == 1 / 3
    assert isnan(found.margin)
    assert found.hallucinations == 0
    assert found.silent_fibers == 1
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["margin"] is None


def test_infinite_logits_do_not_crash():
    table = jnp.array([[[inf, 0.0]], [[-inf, 0.0]], [[inf, inf]]])
    assert recall(Table(table), numbered([(0, 0, 0), (1, 0, 0), (2, 0, 0)], (3, 1, 2))).recall == 1 / 3


def test_no_facts_and_no_competitors():
    empty = recall(random_layer((4, 1, 2, 2), SHAPE), numbered([], SHAPE))
    assert (empty.recall, empty.recall_tau, empty.margin, empty.silent_fibers) == (1.0, 1.0, inf, 35)
    assert empty.attention is None
    alone = recall(random_layer((4, 1, 2, 2), (3, 2, 1)), numbered([(0, 0, 0), (2, 1, 0)], (3, 2, 1)))
    assert (alone.recall, alone.recall_tau, alone.margin, alone.hallucinations) == (1.0, 1.0, inf, 4)
    assert alone.to_dict()["margin"] is None


def test_a_planted_layer_recalls_everything_and_attends_as_planted():
    database = random_facts((9, 4, 6), 30, seed=3)
    layer = circle_layer(database, sufficient_scale(6, 0.95))
    found = recall(layer, database)
    assert (found.recall, found.recall_tau, found.hallucinations, found.silent_fibers) == (1.0, 1.0, 0, 6)
    for head, statistics in enumerate(found.attention):
        assert statistics.saturation == 1.0
        assert statistics.entropy == 0.0
        assert statistics.weight_on_key == pytest.approx(np.mean(database.triples[:, 1] == head))
    blind = recall(eqx.tree_at(lambda x: x.w_q, layer, 0 * layer.w_q), database)
    for statistics in blind.attention:
        assert statistics.entropy == pytest.approx(1.0)
        assert (statistics.saturation, statistics.weight_on_key) == (0.0, 0.5)


def test_attention_statistics_against_the_formula():
    database, layer = random_facts(SHAPE, 20), random_layer((6, 2, 3, 2), SHAPE, seed=4)
    weights = np.asarray(layer.parts().attention, dtype=np.float64)
    for head, statistics in zip(weights, recall(layer, database).attention, strict=True):
        of_facts = [head[k, q] for k, q, _ in database.triples]
        assert statistics.entropy == pytest.approx(np.mean([-sum(p * np.log2(p)) for p in of_facts]), abs=1e-6)
        assert statistics.weight_on_key == pytest.approx(np.mean([p[0] for p in of_facts]), abs=1e-6)


def test_unnormalised_attention_has_no_statistics():
    model = init_transformer(TransformerShape(6, 2, 3, 2, attention="linear"), *SHAPE, key=jax.random.key(0))
    assert recall(model, random_facts(SHAPE, 20)).attention is None


def test_double_precision_layers_are_read_in_double_precision():
    database = random_facts(SHAPE, 20)
    with jax.enable_x64(True):
        layer = jax.tree.map(lambda x: x.astype(jnp.float64) / 3, random_layer((6, 2, 3, 2), SHAPE))
        margins, _ = slow_facts(np.asarray(layer.tensor()), database)
    np.testing.assert_allclose(margins_of(layer, database).margins, margins, atol=1e-14)
    assert recall(layer, database).margin == pytest.approx(min(margins), abs=1e-14)
    assert np.asarray(parts_of(layer).circuits).dtype == np.float64


def test_recall_is_plain_json():
    database = random_facts(SHAPE, 20)
    found = recall(random_layer((6, 2, 3, 2), SHAPE), database)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["facts"] == 20
    assert data["recall"] == found.recall
    assert data["by_query"][1] == {
        "query": "q1",
        "facts": found.by_query[1].facts,
        "recall": found.by_query[1].recall,
        "recall_tau": found.by_query[1].recall_tau,
        "margin": found.by_query[1].margin,
        "median_margin": found.by_query[1].median_margin,
    }
    assert len(data["attention"]) == 2


def test_mistakes_are_named():
    layer = random_layer((6, 2, 3, 2), SHAPE)
    with pytest.raises(InputError, match=r"7 keys, 5 queries, 6 values, but the database has .* 9 values"):
        recall(layer, random_facts((7, 5, 9), 3))
    for tau in (0.0, 1.0, nan):
        with pytest.raises(InputError, match="between 0 and 1"):
            recall(layer, random_facts(SHAPE, 3), tau)
