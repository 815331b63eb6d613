import json
from math import nan

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_layers import Table, circle_layer, numbered, random_facts, random_layer, sufficient_scale

from factrank.databases import sample
from factrank.models import TransformerShape, init_transformer
from factrank.readouts import diagnose
from factrank.readouts.diagnosis import effective_rank_at_least, typical_trained_rank

SHAPE = (20, 4, 6)


@pytest.fixture(scope="module")
def database():
    return random_facts(SHAPE, 70, seed=1)


@pytest.fixture(scope="module")
def good(database):
    return circle_layer(database, sufficient_scale(6, 0.95))


def names(diagnosis):
    return [finding.name for finding in diagnosis.findings]


def test_nothing_is_wrong_with_a_planted_layer(database, good):
    found = diagnose(good, database)
    assert found.findings == ()
    assert "Nothing is wrong" in found.text
    assert found.recall.recall == found.recall.recall_tau == 1.0


def test_attention_without_scores_is_starved_routing(database, good):
    blind = eqx.tree_at(lambda x: x.w_q, good, 0 * good.w_q)
    found = diagnose(blind, database)
    assert "routing" in names(found)
    assert "storage" not in names(found)
    numbers = next(finding.numbers for finding in found.findings if finding.name == "routing")
    assert numbers["routable"] == 1.0  # each fact is right when its own head reads the key and the others do not
    assert numbers["share"] == pytest.approx(1 - found.recall.recall)
    assert numbers["examined"] == round(70 * numbers["share"])
    assert numbers["d_qk"] == 1


def test_small_logits_are_distortion(database, good):
    small = eqx.tree_at(lambda x: x.unembedding, good, 0.1 * good.unembedding)
    found = diagnose(small, database)
    assert names(found) == ["distortion"]
    numbers = found.findings[0].numbers
    assert (numbers["share"], numbers["recall"], numbers["recall_tau"]) == (1.0, 1.0, 0.0)
    assert numbers["sufficient_margin"] == pytest.approx(np.log(5 * 19))
    factor = numbers["sufficient_margin"] / numbers["least_margin"]
    mended = eqx.tree_at(lambda x: x.unembedding, small, 1.001 * factor * small.unembedding)
    assert diagnose(mended, database).findings == ()


def test_a_random_layer_with_small_d_vo_lacks_storage():
    shape = (20, 10, 20)
    database = random_facts(shape, 200)
    found = diagnose(random_layer((8, 1, 8, 1), shape), database)
    assert names(found) == ["storage"]
    numbers = found.findings[0].numbers
    assert numbers["routable"] < 0.25
    assert numbers["examined"] == round(200 * numbers["share"])
    assert numbers["circuit_rank"] == 1
    assert numbers["layer_rank_at_most"] == 10 * 1 + min(10, 8 - 1)
    assert numbers["effective_rank_at_least"] == 2
    assert numbers["effective_rank_typical"] == pytest.approx(200 * np.log2(20) / (2.6 * 47))
    assert "no weights" not in found.findings[0].text


def test_a_shape_that_cannot_hold_the_database_is_said_to():
    """Three values under one query need rank two; with d_model = 1 the layer has rank one."""
    database = numbered([(0, 0, 0), (1, 0, 1), (2, 0, 2)], (3, 1, 3))
    found = diagnose(random_layer((1, 1, 1, 1), (3, 1, 3)), database)
    assert "storage" in names(found)
    assert "no weights of this shape can hold it" in found.findings[0].text


def test_several_heads_and_many_wrong_facts_are_sampled(monkeypatch):
    from factrank.readouts import diagnosis

    monkeypatch.setattr(diagnosis, "MOST_PROGRAMS", 17)
    shape = (20, 10, 20)
    found = diagnose(random_layer((8, 2, 2, 1), shape), random_facts(shape, 200))
    assert found.findings[0].numbers["examined"] == 17


def test_models_without_circuits_are_undecided():
    database = random_facts(SHAPE, 40)
    deep = init_transformer(TransformerShape(4, 1, 2, 2, n_layers=2), *SHAPE, key=jax.random.key(0))
    linear = init_transformer(TransformerShape(4, 1, 2, 2, attention="linear"), *SHAPE, key=jax.random.key(0))
    for model in (deep, linear, Table(jnp.zeros(SHAPE))):
        assert "undecided" in names(diagnose(model, database))


def test_a_transformer_that_is_a_layer_is_diagnosed():
    database = random_facts(SHAPE, 40)
    plain = init_transformer(TransformerShape(8, 1, 8, 1), *SHAPE, key=jax.random.key(0))
    assert "storage" in names(diagnose(plain, database))


def test_divergence_is_named():
    table = Table(jnp.full((2, 1, 3), nan).at[1].set(jnp.array([[9.0, 0.0, 0.0]])))
    found = diagnose(table, numbered([(0, 0, 0), (1, 0, 0)], (2, 1, 3)))
    assert names(found) == ["not a number"]
    assert found.findings[0].numbers == {"share": 0.5}


def test_fibers_with_too_many_values_for_tau_are_not_called_distorted():
    table = Table(jnp.array([[[50.0, 50.0, 0.0]], [[0.0, 50.0, 0.0]]]))
    database = numbered([(0, 0, 0), (0, 0, 1), (1, 0, 1)], (2, 1, 3))
    found = diagnose(table, database)
    assert found.recall.recall == 1.0
    assert found.recall.recall_tau == 1 / 3
    assert found.findings == ()


def test_an_empty_database_is_fine():
    assert diagnose(random_layer((4, 1, 2, 2), SHAPE), numbered([], SHAPE)).findings == ()


def test_findings_are_plain_data():
    found = diagnose(random_layer((8, 1, 8, 1), SHAPE), random_facts(SHAPE, 40))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["findings"][0]["numbers"]["d_vo"] == 1


def test_the_effective_rank_is_at_least():
    """The examples of the theory: one common value 0, two values 1, three or more 2; two sets of two values 1."""
    assert effective_rank_at_least(numbered([(i, i, 0) for i in range(5)], (5, 5, 1))) == 0
    assert effective_rank_at_least(numbered([(i, i, i % 2) for i in range(5)], (5, 5, 2))) == 1
    assert effective_rank_at_least(sample("astrid")) == 2
    assert effective_rank_at_least(numbered([(0, 0, 0), (0, 0, 1), (1, 0, 2), (1, 0, 3)], (2, 1, 4))) == 1


def test_sign_patterns_count():
    signs = np.array([[1]])
    while len(signs) < 16:
        signs = np.block([[signs, signs], [signs, -signs]])
    facts = [(k, q, int(signs[k, q] > 0)) for k in range(16) for q in range(16)]
    assert effective_rank_at_least(numbered(facts, (16, 16, 2))) == 4


def test_the_rule_of_thumb():
    assert typical_trained_rank(random_facts((20, 10, 20), 200)) == pytest.approx(7.07, abs=0.01)
    assert typical_trained_rank(numbered([], (2, 2, 2))) == 0.0
