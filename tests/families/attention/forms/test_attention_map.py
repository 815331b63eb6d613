"""Attention map: one head holds everything; what is proved of it, counts, levels that a precision tells apart."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import UNICODE, slow_margins
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.attention_map import AttentionMap, most_levels, score_of
from factrank.families.attention.forms.construction import FormSearch
from factrank.nn.part_arrays import to_arrays
from strategies import as_database, tensors

attention_map = AttentionMap()


def built(database, precision="float32"):
    return attention_map.build(database, precision, FormSearch()).layer


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(["float32", "float64"]))
def test_margins_are_squared_distances_of_levels(tensor, precision):
    database = as_database(tensor)
    layer = built(database, precision)
    used = np.unique(database.triples[:, 2])
    label = np.searchsorted(used, database.triples[:, 2]) - (len(used) - 1) / 2
    expected = np.where(len(used) > 1, 1.0, np.inf) * np.ones(len(label))
    if len(used) < database.n_values:
        expected = np.minimum(expected, 1 + label**2)
    np.testing.assert_allclose(slow_margins(layer, database), expected, atol=1e-4)
    assert layer.shape == attention_map.shape(database, precision)
    assert prove(layer, database).holds


def test_the_attention_weights_are_the_facts():
    """A[k, q] = (place + 1/2) / n, and a key holds nothing else."""
    database = uniform(20, 4, 9, seed=0)
    assert len(np.unique(database.triples[:, 2])) == 9
    with jax.enable_x64(True):
        attention = np.asarray(built(database, "float64").parts().attention)
    key, query, value = database.triples.T
    np.testing.assert_allclose(attention[0, key, query, 0], (value + 0.5) / 9, atol=1e-12)


@pytest.mark.parametrize(("precision", "size"), [("float32", (250, 12, 500)), ("float64", (1000, 4, 4000))])
def test_tables_of_the_theory_are_certified(precision, size):
    """500 values in float32, 4,000 in float64: recall 1; the margin is 1 up to rounding."""
    database = uniform(*size, seed=0)
    found = verify(built(database, precision), database)
    assert found.certified
    assert found.arithmetic == "running error bound"
    assert found.margin == pytest.approx(1.0, abs=0.01)


def test_unproved_levels_are_refused():
    """Theory measured recall below 1 at 3,000 values in float32; 589 are proved for 10 queries."""
    assert [most_levels(10, precision) for precision in ("bfloat16", "float32", "float64")] == [0, 589, 13_698_537]
    n = most_levels(3, "float32")
    key, query = np.divmod(np.arange(3 * n), 3)
    facts = [(f"k{k}", f"q{q}", f"v{(k + q) % n:05}") for k, q in zip(key, query, strict=True)]
    database = Database.from_facts(facts)
    proof = prove(built(database), database)
    assert proof.holds
    assert proof.margin < 0.3
    with pytest.raises(InputError, match="attention-map: attention weights in float32 are proved to tell"):
        built(uniform(1500, 2, 2000, seed=0))


@pytest.mark.parametrize("n_queries", [10, 100])
def test_precisions_in_which_no_two_values_are_told_apart_say_so(n_queries):
    reason = attention_map.refusal(uniform(5, n_queries, 9, seed=0), "bfloat16")
    assert "not proved to tell even two values apart" in reason
    assert most_levels(n_queries, "bfloat16") >= 0


@given(st.integers(1, 40), st.sampled_from(["float32", "float64"]))
def test_the_limit_is_the_largest_solution(n_queries, precision):
    unit = {"float32": 2.0**-24, "float64": 2.0**-53}[precision]
    n = most_levels(n_queries, precision)

    def total(levels):
        return (48 * (levels + 1) ** 2 + (4 * n_queries + 24) * (levels + 1)) * unit

    assert total(n) <= 1 + 1e-9
    assert total(n + 1) > 1 - 1e-9


def test_levels_are_symmetric():
    np.testing.assert_allclose(score_of(np.arange(7), 7) + score_of(np.arange(7)[::-1], 7), 2.0)


def test_counts():
    """One head, d_model = Q + 1: fewer parameters than any other form."""
    database = uniform(2000, 12, 500, seed=0)
    shape = attention_map.shape(database, "float32")
    assert (shape.d_model, shape.n_heads, shape.d_qk, shape.d_vo) == (13, 1, 12, 1)
    assert shape.parameters(2000, 12, 500) == 2512 * 13 + 2 * 13 * 13


def test_smallest_tables_unicode_and_names_without_facts():
    for facts in ([("k", "q", "v")], [("k", "q", "v"), ("k", "r", "w")], [("k", "q", "v"), ("j", "q", "v")]):
        database = Database.from_facts(facts)
        assert prove(built(database), database).holds
    assert prove(built(UNICODE), UNICODE).holds
    database = uniform(6, 5, 9, seed=0).select(keys=["k1", "k3"], queries=["q1", "q4"], compact=False)
    assert prove(built(database), database).holds


def test_changing_a_fact_touches_one_number():
    database = uniform(30, 4, 5, seed=0)
    changed = database.triples.copy()
    changed[17, 2] = (changed[17, 2] + 1) % 5
    before, after = (to_arrays(built(db)) for db in (database, Database(changed, *database.vocabularies)))
    differences = {name: int((before[name] != after[name]).sum()) for name in before}
    assert differences.pop("embedding") == 1
    assert not any(differences.values())


def test_a_perturbed_weight_breaks_the_proof():
    database = uniform(30, 4, 5, seed=0)
    layer = built(database)
    embedding = layer.embedding.copy()
    embedding[3, 1] += 1.5
    assert not prove(replace(layer, embedding=embedding), database).holds


def test_refusals():
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    with pytest.raises(InputError, match=r"attention-map: .*several values"):
        built(several)
    with pytest.raises(InputError, match="not proved to tell even two values apart"):
        built(uniform(9, 2, 3, seed=0), "bfloat16")
