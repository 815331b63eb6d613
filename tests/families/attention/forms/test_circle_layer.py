"""Circle: margins, how many points a precision holds, counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import UNICODE, every_value, slow_margins, strict_winners, with_ranges
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.circle_layer import OWN, Circle, most_points, points
from factrank.families.attention.forms.construction import FormSearch
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
circle = Circle()


def built(database, precision="float32"):
    return circle.build(database, precision, FormSearch()).layer


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(["float32", "float64"]))
def test_margins_are_those_of_the_circle(tensor, precision):
    database = as_database(tensor)
    layer = built(database, precision)
    n = len(np.unique(database.triples[:, 2]))
    expected = 2 * np.sin(np.pi / n) ** 2 if n > 1 else np.inf
    expected = min(expected, 1.0) if n < database.n_values else expected
    np.testing.assert_allclose(slow_margins(layer, database), expected, atol=1e-6)
    assert layer.shape == circle.shape(database, precision)
    assert prove(layer, database).holds
    if database.n_values > 1:
        assert strict_winners(layer, database) == 0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_random_tables_are_certified(precision):
    database = uniform(60, 7, 16, 300, seed=1)
    found = verify(built(database, precision), database)
    assert found.certified
    assert found.recalled == 300
    assert found.arithmetic == "running error bound"
    assert found["answered"] == 0


def test_the_most_points():
    """All points in bfloat16, and the least gaps in float32, at the proved limit; far beyond it the proof fails."""
    assert [most_points(precision) for precision in ("bfloat16", "float32")] == [16, 4289]
    database = every_value(16)
    layer = built(database, "bfloat16")
    assert prove(layer, database).holds
    assert "17 values do not fit into bfloat16: at most 16 do" in circle.refusal(every_value(17), "bfloat16")
    large = every_value(4289, 2)
    some = large.select(keys=[f"k{k}" for k in range(0, 4289, 13)], compact=False)
    layer = built(large)
    assert prove(layer, some).holds
    assert circle.refusal(every_value(4290, 1), "float32") is not None


def test_too_many_points_are_not_proved(monkeypatch):
    monkeypatch.setattr("factrank.families.attention.forms.circle_layer.most_points", lambda _: 10**6)
    database = every_value(40)
    assert not prove(built(database, "bfloat16"), database).holds


def test_a_range_has_a_circle_of_its_own_where_all_values_are_too_many():
    database = with_ranges(3, n_keys=300, n_queries=6, size=15)
    layer = built(database, "bfloat16")
    assert layer.shape.d_model == 2 * 6 + 3
    assert prove(layer, database).holds


def test_counts():
    """2 numbers per fact; the margin at 500 values is 7.9e-5."""
    database = uniform(1000, 12, 500, seed=0)
    shape = circle.shape(database, "float32")
    assert (shape.d_model, shape.n_heads, shape.d_qk, shape.d_vo) == (25, 12, 1, 2)
    cosines = points(500) @ points(500).T
    np.fill_diagonal(cosines, -1.0)
    assert round((1 - cosines.max()) * 1e5, 1) == 7.9
    assert round(prove(built(database), database).margin * 1e5) == 8


def test_own_coordinates_are_small_and_scores_as_before():
    database = uniform(5, 4, 6, seed=0)
    layer = built(database)
    tokens = np.asarray(layer.embedding[5:], float)
    scores = (tokens @ np.asarray(layer.w_q[..., 0], float).T) * -(tokens @ np.asarray(layer.w_k[..., 0], float).T)
    np.testing.assert_array_equal(scores, np.where(np.eye(4), 120.0, -120.0))
    assert sorted(np.unique(tokens).tolist()) == [0.0, OWN, 1.0]


def test_smallest_tables_and_unicode():
    for facts in ([("k", "q", "v")], [("k", "q", "v"), ("k", "r", "w")], [("k", "q", "v"), ("j", "q", "v")]):
        database = Database.from_facts(facts)
        for precision in PRECISIONS:
            assert prove(built(database, precision), database).holds
    assert prove(built(UNICODE), UNICODE).holds


def test_a_perturbed_weight_breaks_the_proof():
    database = every_value(9)
    layer = built(database)
    unembedding = layer.unembedding.copy()
    unembedding[0, 3] += 2.0
    assert not prove(replace(layer, unembedding=unembedding), database).holds


def test_refusals():
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    with pytest.raises(InputError, match=r"circle: .*several values"):
        built(several)
    with pytest.raises(InputError, match="circle: 40 values do not fit into bfloat16"):
        built(every_value(40), "bfloat16")


def test_many_ranges_in_bfloat16_are_held_query_by_query():
    """Seven ranges of 16 values, two queries each: with a constant per range, saturation would not be proved."""
    facts = [(k, 2 * r + j, 16 * r + (k + j) % 16) for r in range(7) for j in (0, 1) for k in range(16)]
    database = numbered(np.array(facts), (16, 14, 112))
    assert circle.refusal(database, "bfloat16") is None
    layer = built(database, "bfloat16")
    assert layer.shape == circle.shape(database, "bfloat16")
    assert layer.shape.d_model == 2 * 14 + 14
    assert prove(layer, database).holds
    assert circle.shape(database, "float64").d_model == 2 * 14 + 1
