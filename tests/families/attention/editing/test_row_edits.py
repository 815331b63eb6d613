"""Edits of layers without places for facts: rows of keys solved again, everything else bit for bit the same."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from factrank.databases.database import Database
from factrank.errors import InputError, SearchError
from factrank.experiments.models.constructed import notes_of
from factrank.experiments.models.verification import verify
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.editing.fact_edits import edit, edit_file
from factrank.families.attention.editing.row_edits import KeyLogits
from factrank.families.attention.forms.building.cp_terms import Terms
from factrank.families.attention.forms.terms.logits_layer import bent_layer
from factrank.families.attention.layer_files import SavedLayer, load_layer, save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.searching.smallest_certified import construct
from factrank.tensors.codes.trained_logits import LogitGoal, train_towards
from factrank.tensors.core.zero_one import ZeroOneTensor
from slow_layers import slow_layer_tensor

FACTS = [
    ("a", "likes", "x"),
    ("a", "likes", "y"),
    ("a", "owns", "z"),
    ("b", "likes", "y"),
    ("b", "owns", "x"),
    ("b", "owns", "z"),
    ("c", "likes", "z"),
    ("c", "owns", "w"),
    ("d", "owns", "w"),
    ("d", "owns", "y"),
]


@pytest.fixture(scope="module")
def saved():
    """A layer with more terms than the facts need, so that rows have room."""
    database = Database.from_facts(FACTS, multi=True)
    goal = LogitGoal(lambda factors, biases: bent_layer(Terms(*factors), biases, "float32"), bent=True, depth=0.1)
    tensor = ZeroOneTensor.of(database)
    layer = train_towards(goal, tensor, 8, 8, np.inf, np.random.default_rng(0))
    return SavedLayer(layer, database, notes_of("logits", {}, verify(layer, database)))


def rows_of(layer, name, database):
    return np.asarray(layer.embedding)[database.keys.index(name)]


def test_the_logits_of_a_row_are_those_of_the_layer_and_so_is_their_gradient():
    layer = init_layer(LayerShape(4, 3, 2, 2), 3, 5, 6, key=0, dtype="float64")
    logits = KeyLogits.of(layer)
    rows = np.asarray(layer.embedding, np.float64)[:3]
    expected = slow_layer_tensor(layer)
    for row, slow in zip(rows, expected, strict=True):
        np.testing.assert_allclose(logits.logits(row), slow, atol=1e-6)
    slope = np.random.default_rng(0).normal(size=(5, 6))
    value, gradient = (lambda x: float((logits.logits(x) * slope).sum())), (lambda x: logits.pulled_back(x, slope))
    assert check_grad(value, gradient, rows[0]) < 1e-4


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("a", "owns", "w")], {("a", "owns"): {"w"}}),
        ([("a", "owns", "w"), ("a", "owns", "z")], {("a", "owns"): {"w", "z"}}),
        ([("d", "likes", "x"), ("b", "owns")], {("d", "likes"): {"x"}, ("b", "owns"): set()}),
        ([("e", "likes", "x"), ("e", "owns", "y")], {("e", "likes"): {"x"}, ("e", "owns"): {"y"}}),
    ],
)
def test_edited_keys_change_and_all_others_stay_bit_for_bit(saved, changes, expected):
    edited = edit(saved, changes)
    after = edited.saved.database
    assert edited.certificate.certified
    assert verify(edited.saved.layer, after).certified
    for (key, query), values in expected.items():
        assert set(after.fiber(key, query)) == values
    touched = {key for key, _ in expected}
    untouched = [fact for fact in FACTS if (fact[0], fact[1]) not in expected]
    assert set(after) == {*untouched, *((k, q, v) for (k, q), values in expected.items() for v in values)}
    for name in saved.database.keys:
        same = np.array_equal(rows_of(saved.layer, name, saved.database), rows_of(edited.saved.layer, name, after))
        assert same == (name not in touched)
    assert np.array_equal(saved.layer.unembedding, edited.saved.layer.unembedding)
    for key, query, value in edited.answers_after_deletion():
        assert after.values[value] not in saved.database.fiber(after.keys[key], after.queries[query])
    assert edited.n_moved == sum(fact[0] in touched for fact in untouched)
    assert edited.new_keys == tuple(touched - set(saved.database.keys))
    assert (edited.n_set, edited.n_deleted) == (
        sum(bool(values) for values in expected.values()),
        sum(not values for values in expected.values()),
    )


def test_a_change_without_effect_changes_nothing(saved):
    edited = edit(saved, [("a", "likes", "y"), ("a", "likes", "x")])
    assert (edited.n_set, edited.n_deleted, edited.n_unchanged, edited.n_moved) == (0, 0, 1, 0)
    assert np.array_equal(saved.layer.embedding, edited.saved.layer.embedding)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("a", "likes", "new")], "'new' is new to the layer: rebuild it"),
        ([("a", "hates", "x")], "no query 'hates': rebuild it"),
        ([("c", "likes", "x"), ("c", "likes")], "two conflicting changes"),
        ([("d", "likes")], "no fact for .* to delete"),
        ([("nobody", "likes")], "no fact for .* to delete"),
        ([("a", "likes", "")], "non-empty string"),
        ([], "no changes"),
        ([(key, query) for key, query in dict.fromkeys((k, q) for k, q, _ in FACTS)], "delete every fact"),
    ],
)
def test_what_is_refused(saved, changes, message):
    with pytest.raises(InputError, match=message):
        edit(saved, changes)


def test_a_functional_layer_keeps_one_value_for_each_pair():
    facts = Database.from_facts([("a", "q", "x"), ("b", "q", "y"), ("b", "r", "x")])
    functional = construct(facts, only="logits", budget=20.0).to_saved()
    with pytest.raises(InputError, match="conflicting"):
        edit(functional, [("a", "q", "x"), ("a", "q", "y")])
    assert edit(functional, [("a", "q", "y")]).certificate.certified


def test_a_row_that_cannot_hold_the_facts_is_refused_and_the_file_stays(tmp_path):
    """With one term and no bias that depends on the query, one row cannot answer many queries in every way."""
    facts = [(f"k{i}", f"q{j}", "x" if i == 0 else "y") for i in range(2) for j in range(6)]
    saved = construct(Database.from_facts(facts), only="logits", budget=20.0).to_saved()
    assert saved.layer.shape.n_heads == 1
    path = tmp_path / "layer.safetensors"
    save_layer(path, saved.layer, saved.database, notes=saved.notes)
    before = path.read_bytes()
    mixed = [("k0", f"q{j}", "y") for j in range(3)]
    with pytest.raises(SearchError, match="no row of 2 numbers was found that holds all facts of 'k0'"):
        edit_file(path, mixed)
    assert path.read_bytes() == before
    edited = edit_file(path, [("k0", f"q{j}", "y") for j in range(6)])
    assert edited.certificate.certified
    assert set(load_layer(path).database.fiber("k0", "q3")) == {"y"}


def test_a_claim_is_kept():
    """A layer that abstains answers with the reserved value where a fact was deleted, and for the rest of a new key."""
    found = construct(Database.from_facts(FACTS, multi=True), only="logits", budget=20.0, abstain="unknown")
    assert found.certified
    edited = edit(found.to_saved(), [("a", "owns"), ("e", "likes", "x")])
    assert edited.certificate.certified
    assert edited.certificate.confidence.claim == found.certificate.confidence.claim
    assert not edited.saved.database.fiber("a", "owns")
    with pytest.raises(InputError, match="reserved"):
        edit(found.to_saved(), [("a", "owns", found.reserved)])
    with pytest.raises(InputError, match="delete every fact"):
        edit(found.to_saved(), list({(key, query) for key, query, _ in FACTS}))
