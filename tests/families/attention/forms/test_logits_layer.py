"""Logits with few terms: the layer against its formula, sizes, edges, precisions, and what a search may not claim."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import slow_margins, with_sets
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, uniform
from factrank.errors import InputError, SearchError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.building.cp_terms import Terms
from factrank.families.attention.forms.choose import construct_by_formula
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.terms.from_cp import with_angles
from factrank.families.attention.forms.terms.logits_layer import Logits, bent_layer, logits_shape
from factrank.families.attention.searching.smallest_certified import construct
from slow_layers import slow_layer_tensor
from strategies import as_database, tensors

form = Logits()
LONG = FormSearch(seconds=60.0)


def structured(n_keys=6, n_queries=4, n_values=7, most=3, seed=0):
    """The largest 0 to `most` values of a tensor of rank 2."""
    rng = np.random.default_rng(seed)
    logits = np.einsum("kr,qr,vr->kqv", *(rng.normal(size=(size, 2)) for size in (n_keys, n_queries, n_values)))
    sizes = rng.integers(0, most + 1, size=(n_keys, n_queries))
    above = np.argsort(np.argsort(-logits, axis=2), axis=2) < sizes[..., None]
    return numbered(np.argwhere(above), (n_keys, n_queries, n_values))


def random_terms(rng, shape, n_terms):
    return Terms(*(rng.normal(size=(size, n_terms)) for size in shape))


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_the_layer_has_the_bent_logits(n_keys, n_queries, n_values, n_terms, seed):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.normal(size=(size, n_terms)) for size in (n_keys, n_queries, n_values))
    biases = rng.normal(size=n_values)
    layer = bent_layer(Terms(a, b, c), biases, "float64")
    expected = biases + np.tanh(a[:, None] * b / 2) @ c.T
    np.testing.assert_allclose(slow_layer_tensor(layer), expected, atol=1e-10)
    assert layer.shape == logits_shape(n_terms)
    assert layer.parameters == (n_terms + 1) * (n_keys + n_queries + n_values) + 4 * n_terms * (n_terms + 1)


def test_small_angles_approach_any_tensor_by_their_square():
    terms = random_terms(np.random.default_rng(0), (5, 4, 6), 3)
    total = np.einsum("kr,qr,vr->kqv", terms.keys, terms.queries, terms.values)
    size = sum(np.prod([np.abs(f[:, r]).max() for f in (terms.keys, terms.queries, terms.values)]) for r in range(3))
    for angle in (0.1, 0.01, 0.001):
        off = np.abs(slow_layer_tensor(with_angles(terms, angle, "float64")) - total).max()
        assert off <= size * (angle**2 / 3 + 1e-9)


@pytest.mark.parametrize(("precision", "tau"), [("float32", 0.95), ("float64", None)])
def test_sets_with_structure_take_few_terms(precision, tau):
    database = structured()
    found = construct(database, precision, only="logits", budget=60.0, tau=tau)
    assert found.certified
    assert found.spec.n_heads <= 2  # planted: rank 2
    assert found.parameters == logits_shape(found.spec.n_heads).parameters(*database.shape)
    assert (slow_margins(found.model, database) > 0).all()
    assert slow_margins(found.model, database).min() >= found.certificate.proved_margin - 1e-4


@settings(max_examples=8)
@given(tensors(empty=False, most=4), st.sampled_from(["float32", "float64"]))
def test_any_small_table_is_held(tensor, precision):
    database = as_database(tensor)
    layer = form.build(database, precision, LONG).layer
    assert prove(layer, database).holds
    assert (slow_margins(layer, database) > 0).all()


EDGES = {
    "one fact": [("k", "q", "v")],
    "one key": [("k", "q", "v"), ("k", "q", "w"), ("k", "r", "x")],
    "one query": [("k", "q", "v"), ("j", "q", "w"), ("j", "q", "v"), ("i", "q", "x")],
    "one value": [("k", "q", "v"), ("j", "r", "v")],
    "all values in a fiber": [("k", "q", v) for v in "vwx"] + [("j", "q", "v")],
}


@pytest.mark.parametrize("facts", EDGES.values(), ids=EDGES)
def test_edges(facts):
    database = Database.from_facts(facts, multi=True)
    layer = form.build(database, "float32", LONG).layer
    certificate = verify(layer, database)
    assert certificate.certified
    assert certificate.recalled == len(facts)


def test_names_without_facts_are_answered_by_nothing_else():
    """Keys, queries and values of the vocabularies that no fact uses, and equal slices, which share their rows."""
    facts = np.array([(0, 0, 0), (0, 0, 1), (2, 0, 0), (2, 0, 1), (1, 2, 3), (1, 0, 3)])
    database = numbered(facts, (4, 3, 6))
    layer = form.build(database, "float32", LONG).layer
    assert verify(layer, database).certified
    np.testing.assert_array_equal(layer.embedding[0], layer.embedding[2])
    logits = slow_layer_tensor(layer)
    assert logits[..., [2, 4, 5]].max() < logits[..., [0, 1, 3]].min()


def test_what_it_refuses():
    database = structured()
    assert "bfloat16" in form.refusal(database, "bfloat16")
    with pytest.raises(InputError, match="bfloat16"):
        construct(database, "bfloat16", only="logits")
    large = Database(np.zeros((0, 3), dtype=np.int32), *uniform(2, 2, 2, seed=0).vocabularies)
    assert "no facts" in form.refusal(large, "float32")


def test_a_search_without_time_finds_nothing_and_others_take_its_place():
    database = structured()
    with pytest.raises(SearchError, match="no certified terms were found in 0 s"):
        construct(database, only="logits", budget=0.0)
    found = construct(database, budget=0.0)
    assert found.certified
    assert found.form != "logits"
    assert [one.reason for one in found.runners_up if one.construction == "logits"]


def test_sets_are_searched_by_default_and_functional_tables_on_demand():
    assert construct(structured(8, 5, 16, 3), budget=60.0).form == "logits"
    functional = uniform(6, 4, 5, seed=0)
    plain = construct(functional)
    assert "logits" not in [plain.form, *(one.construction for one in plain.runners_up)]
    assert construct(functional, only="logits", budget=20.0).certified
    more = construct_by_formula(functional, budget=20.0, with_search=True)
    assert "logits" in [more.form, *(one.construction for one in more.runners_up)]
    assert more.parameters <= plain.parameters


def test_an_altered_layer_is_not_certified():
    database = with_sets(8, 4, 6, 3, seed=1)
    found = construct(database, only="logits", budget=60.0)
    assert found.certified
    parts = {"embedding": (0, 1), "unembedding": (1, 0)}
    key, _, value = database.triples[0]
    for name, place in parts.items():
        changed = getattr(found.model, name).copy()
        if name == "embedding":
            changed[key] *= -1
        else:
            changed[:, value] *= -1
        assert not verify(replace(found.model, **{name: changed}), database).certified, place
