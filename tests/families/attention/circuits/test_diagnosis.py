import json
from math import nan

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases.generators.registry import generate
from factrank.databases.sample_tables import sample
from factrank.families.attention.circuits.diagnosis import diagnose, effective_rank_at_least, typical_trained_rank
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from planted_layers import Table, circle_layer, numbered, random_facts, random_layer, sufficient_scale

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


def test_mending_the_attention_is_what_routing_means(database, good):
    """Of the blind layer's wrong facts all can be routed, of other values not all: the whole is put down to routing."""
    blind = eqx.tree_at(lambda x: x.w_q, good, 0 * good.w_q)
    numbers = diagnose(blind, database).findings[0].numbers
    assert numbers["chance"] < 1
    assert numbers["by_routing"] == 1.0


@pytest.fixture(scope="module")
def table():
    return generate("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)


@pytest.mark.parametrize("shape", [(40, 8, 5, 5), (40, 1, 10, 40), (24, 4, 4, 2)])
def test_an_untrained_large_layer_is_told_neither_that_d_vo_is_too_small_nor_of_routing(table, shape):
    found = diagnose(random_layer(shape, table.shape), table)
    assert names(found) == ["unstored"]
    numbers = found.findings[0].numbers
    assert numbers["by_routing"] < 0.25
    assert numbers["heads_rank_at_most"] >= 2 * numbers["effective_rank_typical"]
    assert numbers["layer_rank_at_most"] >= numbers["effective_rank_at_least"]
    assert "d_vo" not in found.findings[0].text
    assert "train longer" in found.findings[0].text


def test_routing_at_chance_is_not_named(monkeypatch, table):
    """Half of the wrong facts can be routed, and half of all other values too."""
    from factrank.families.attention.circuits import diagnosis

    layer, fibers = random_layer((40, 8, 5, 5), table.shape), []

    def half(parts, pairs, fiber):
        fibers.append(fiber[:, 0])
        return np.arange(len(pairs)) % 2 == 0

    monkeypatch.setattr(diagnosis, "routable", half)
    found = diagnose(layer, table)
    assert names(found) == ["unstored"]
    assert found.findings[0].numbers["routable"] == pytest.approx(found.findings[0].numbers["chance"], abs=0.01)
    assert not (fibers[0] == fibers[1][: len(fibers[0])]).any()  # the comparison is with other values


@pytest.mark.parametrize(("could", "expected"), [(0.55, "unstored"), (0.75, "unstored; routing"), (0.95, "routing")])
def test_what_chance_leaves_over_is_shared_between_the_causes(monkeypatch, table, could, expected):
    """Half by chance: of the other half 0.1, 0.5 and 0.9 are put down to routing."""
    from factrank.families.attention.circuits import diagnosis

    shares = iter([could, 0.5])
    monkeypatch.setattr(
        diagnosis, "routable", lambda parts, pairs, _: np.arange(len(pairs)) < next(shares) * len(pairs)
    )
    assert "; ".join(names(diagnose(random_layer((40, 8, 5, 5), table.shape), table))) == expected


def test_few_wrong_facts_are_compared_with_all_other_values(monkeypatch):
    from factrank.families.attention.circuits import diagnosis

    asked = []

    def spy(parts, pairs, fiber):
        asked.append([(*pair, value) for pair, value in zip(pairs.tolist(), fiber[:, 0].tolist(), strict=True)])
        return np.zeros(len(pairs), dtype=bool)

    monkeypatch.setattr(diagnosis, "routable", spy)
    database = numbered([(0, 0, 0), (1, 0, 1), (2, 0, 2)], (3, 1, 5))
    diagnose(random_layer((4, 1, 2, 2), (3, 1, 5), seed=2), database)
    others = [(k, q, v) for k, q, fact in asked[0] for v in range(5) if v != fact]
    assert sorted(asked[1]) == sorted(others)


def test_distortion_is_not_named_at_chance(table):
    """An untrained layer has small logits, and a few facts right: that is not what distorts."""
    found = diagnose(random_layer((40, 1, 10, 40), table.shape), table)
    assert found.recall.recall_tau == 0 < found.recall.recall
    assert "distortion" not in names(found)
    two = numbered([(k, q, (k + q) % 2) for k in range(6) for q in range(4)], (6, 4, 2))
    half = Table(jnp.zeros((6, 4, 2)).at[:, :, 0].set(0.1))
    assert diagnose(half, two).recall.recall == 0.5
    assert "distortion" not in names(diagnose(half, two))


def test_percentages_are_rounded_down():
    """One wrong fact of 20,000 is not nothing, and the rest is not all."""
    logits = jnp.zeros((200, 100, 2)).at[:, :, 0].set(9.0).at[0, 0, 1].set(99.0)
    found = diagnose(Table(logits), numbered([(k, q, 0) for k in range(200) for q in range(100)], (200, 100, 2)))
    assert "argmax gets 99.9% right, softmax>=0.95 99.9%" in found.text
    assert "<0.1% of the facts are wrong" in found.findings[0].text
    assert "100%" not in found.text


def test_single_weak_facts_are_not_called_nothing():
    logits = jnp.zeros((50, 1, 2)).at[:, :, 0].set(9.0).at[0, 0, 0].set(0.1)
    found = diagnose(Table(logits), numbered([(k, 0, 0) for k in range(50)], (50, 1, 2)))
    assert found.findings == ()
    assert "Argmax is right on every fact" in found.text


def test_a_random_layer_with_small_d_vo_lacks_storage():
    shape = (20, 10, 20)
    database = random_facts(shape, 200)
    found = diagnose(random_layer((8, 1, 8, 1), shape), database)
    assert names(found) == ["storage"]
    numbers = found.findings[0].numbers
    assert numbers["routable"] < 0.25
    assert numbers["examined"] == round(200 * numbers["share"])
    assert numbers["circuit_rank"] == 1
    assert numbers["heads_rank_at_most"] == 10 * 1 < 2 * numbers["effective_rank_typical"]
    assert numbers["layer_rank_at_most"] == 10 * 1 + min(10, 8 - 1)
    assert numbers["effective_rank_at_least"] == 2
    assert numbers["effective_rank_typical"] == pytest.approx(200 * np.log2(20) / (2.6 * 47))
    assert (numbers["d_vo"], numbers["n_heads"]) == (1, 1)
    assert "d_vo = 1 and 1 head the shape is too small" in found.findings[0].text
    assert "no weights" not in found.findings[0].text


def test_names_without_facts_make_no_room():
    """The same facts in a vocabulary with many idle names: the same rank is needed, and no more is offered."""
    shape, idle = (20, 10, 20), (60, 40, 50)
    facts = random_facts(shape, 200).triples
    found = diagnose(random_layer((8, 1, 8, 1), idle), numbered(facts, idle))
    numbers = next(finding.numbers for finding in found.findings if finding.name == "storage")
    assert numbers["heads_rank_at_most"] == 10
    assert numbers["effective_rank_typical"] == pytest.approx(200 * np.log2(20) / (2.6 * 47))


def test_a_shape_that_cannot_hold_the_database_is_said_to():
    """Three values under one query need rank two; with d_model = 1 the layer has rank one."""
    database = numbered([(0, 0, 0), (1, 0, 1), (2, 0, 2)], (3, 1, 3))
    found = diagnose(random_layer((1, 1, 1, 1), (3, 1, 3)), database)
    assert "storage" in names(found)
    assert "no weights of this shape can store it" in found.findings[0].text


def test_several_heads_and_many_wrong_facts_are_sampled(monkeypatch):
    from factrank.families.attention.circuits import diagnosis

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
    plain = init_transformer(TransformerShape(8, 1, 8, 1), *SHAPE, key=jax.random.key(0))
    assert "storage" in names(diagnose(plain, random_facts(SHAPE, 80)))
    assert "unstored" in names(diagnose(plain, random_facts(SHAPE, 40)))


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
