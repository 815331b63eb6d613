"""From a CP decomposition: the logits are the tensor itself; exact switches, dials with a correction, counts."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import UNICODE, with_sets
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.building import cp_terms
from factrank.families.attention.forms.building.cp_terms import (
    Terms,
    about_terms,
    exact_terms,
    measured_terms,
    numerical_terms,
)
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.terms.from_cp import FromCP, with_dials, with_switches
from factrank.tensors.bounds import Bound
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.cp.projected_proof import ProjectedProof
from factrank.tensors.cp.projected_search import projected_bound
from slow_layers import slow_layer_tensor
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
AT_ONCE = FormSearch(seconds=0.0)
cp = FromCP()


def own_tensor(layer):
    with jax.enable_x64(True):
        return np.asarray(layer.tensor(), np.float64)


def dense(database):
    return ZeroOneTensor.of(database).dense().astype(float)


def total(terms):
    return np.einsum("kr,qr,vr->kqv", terms.keys, terms.queries, terms.values)


def random_terms(rng, shape, n_terms):
    return Terms(*(rng.normal(size=(size, n_terms)) for size in shape))


@settings(max_examples=25)
@given(tensors(empty=False), st.sampled_from(PRECISIONS))
def test_every_witness_reproduces_the_valid_fibers_exactly(tensor, precision):
    database = as_database(tensor)
    target, valid = dense(database), dense(database).any(axis=2)
    for terms in exact_terms(database):
        np.testing.assert_array_equal(total(terms)[valid], target[valid])
        layer = with_switches(terms, precision)
        np.testing.assert_allclose(slow_layer_tensor(layer)[valid], target[valid], atol=1e-9)
    found = prove(cp.build(database, precision, AT_ONCE).layer, database)
    assert found.holds
    assert found.arithmetic == "exact integers"
    assert found.margin >= 1


@settings(max_examples=20)
@given(st.integers(1, 7), st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_dials_give_any_sum_of_terms(n_keys, n_queries, n_values, n_terms, seed):
    """D plus G minus the correction, for random terms, and for terms with equal columns of b."""
    terms = random_terms(np.random.default_rng(seed), (n_keys, n_queries, n_values), n_terms)
    equal = Terms(terms.keys, np.repeat(terms.queries[:, :1], n_terms, axis=1), terms.values)
    for each in (terms, equal):
        layer = with_dials(each, "float64")
        np.testing.assert_allclose(
            slow_layer_tensor(layer), total(each), atol=1e-11 * (1 + np.abs(each.keys).max() ** 3)
        )
    assert layer.shape.n_heads <= 2 * n_terms


def test_switches_add_up_levels():
    """Columns of b with several levels, negative ones too."""
    rng = np.random.default_rng(0)
    terms = Terms(*(rng.integers(-2, 3, size=(size, 5)).astype(float) for size in (6, 4, 7)))
    for precision in PRECISIONS:
        np.testing.assert_allclose(slow_layer_tensor(with_switches(terms, precision)), total(terms), atol=1e-9)


@pytest.mark.parametrize(("size", "n_terms", "seed"), [((8, 4, 6), 13, 0), ((12, 6, 12), 33, 0)])
def test_numerical_decompositions_of_the_theory(size, n_terms, seed):
    """|L - D| is 1e-14 in float64 and 1e-6 in float32; a correction of width at most V."""
    database = uniform(*size, seed=seed)
    terms = numerical_terms(database, n_terms + 1, 60.0, np.random.default_rng(0))
    assert terms is not None
    assert terms.n_terms <= n_terms
    exact = with_dials(terms, "float64")
    assert np.abs(slow_layer_tensor(exact) - dense(database)).max() < 1e-11
    assert exact.shape.n_heads == terms.n_terms + size[2]
    assert exact.shape.d_vo == 1
    layer = with_dials(terms, "float32")
    assert np.abs(own_tensor(layer) - dense(database)).max() < 1e-5
    for each in (exact, layer):
        assert prove(each, database).holds


def test_the_slice_decomposition_needs_one_head_per_query():
    """40 x 5 x 9 as slices: Q heads of width V with switches, one more with dials for the correction."""
    database = uniform(40, 5, 9, seed=0)
    terms = next(exact_terms(database))
    assert terms.n_terms == 45
    switches, dials = with_switches(terms, "float64"), with_dials(terms, "float64")
    assert (switches.shape.n_heads, switches.shape.d_vo, switches.shape.d_model) == (5, 9, 50)
    assert (dials.shape.n_heads, dials.shape.d_vo, dials.shape.d_model) == (6, 9, 50)
    np.testing.assert_array_equal(own_tensor(switches), dense(database))
    assert np.abs(slow_layer_tensor(dials) - dense(database)).max() < 1e-12
    found = verify(with_dials(terms, "float32"), database)
    assert found.certified
    assert found.arithmetic == "running error bound"
    assert prove(dials, database).holds


@pytest.mark.parametrize("precision", PRECISIONS)
def test_certified_with_several_values_and_without(precision):
    for database in (uniform(30, 5, 8, 90, seed=0), with_sets(15, 4, 6, 3, seed=0), UNICODE):
        layer = cp.build(database, precision, AT_ONCE).layer
        found = prove(layer, database)
        assert (found.holds, found.margin, found.arithmetic) == (True, 1.0, "exact integers")
        assert layer.shape == cp.shape(database, precision)
    database = UNICODE if precision == "float64" else with_sets(15, 4, 6, 3, seed=0)
    assert verify(cp.build(database, precision, AT_ONCE).layer, database).certified


def test_a_search_never_makes_it_larger():
    database = uniform(8, 4, 6, seed=1)
    before, after = (cp.build(database, "float32", FormSearch(seconds=s)).layer for s in (0.0, 1.0))
    assert after.parameters <= before.parameters
    assert verify(after, database).certified


def test_the_decomposition_that_proves_the_rank_becomes_a_layer(monkeypatch):
    """Its terms, not those of another bound, add up to the table, and a certified layer is made of them."""
    database = with_sets(6, 10, 6, 3, seed=0)
    found = projected_bound(Core.of(ZeroOneTensor.of(database)).tensor, 30, 36, 600.0, np.random.default_rng(0))
    assert isinstance(found.witness, ProjectedProof)
    measured = Bound(found.certified, "CP", witness=found.witness)
    monkeypatch.setattr(cp_terms, "upper_bound", lambda *_: measured)
    terms = measured_terms(database, 1.0)
    assert terms.n_terms == found.certified < min(one.n_terms for one in exact_terms(database))
    np.testing.assert_allclose(total(terms), dense(database), atol=1e-6)
    assert verify(with_dials(terms, "float64"), database).certified


def test_the_number_of_terms_is_estimated_well():
    database = uniform(20, 4, 10, seed=0)
    assert about_terms(database) <= min(terms.n_terms for terms in exact_terms(database)) <= about_terms(database) + 4


def test_refusals():
    with pytest.raises(InputError, match="cp: the database has no facts"):
        cp.build(uniform(2, 2, 2, seed=0).select(keys=[], compact=False), "float32", AT_ONCE)
    with pytest.raises(InputError, match="terms would make a layer of about"):
        cp.build(uniform(5000, 10, 500, seed=0), "float32", AT_ONCE)
    assert cp.refusal(Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True), "bfloat16") is None
