"""Digits: lattice points, exact margins, how many values a precision holds with so many digits, counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import SMALLEST, UNICODE, every_value, slow_margins
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.building import digits_for, largest_digit
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.digits_layer import Digits, base_for, digits
from factrank.families.attention.forms.parabola_layer import Parabola
from factrank.nn.precision import SIGNIFICAND
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
lattice = Digits()


def built(database, precision="float32"):
    return lattice.build(database, precision, FormSearch()).layer


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(PRECISIONS))
def test_margins_are_squared_distances_of_lattice_points(tensor, precision):
    database = as_database(tensor)
    layer = built(database, precision)
    used = np.unique(database.triples[:, 2])
    base = base_for(len(used), 2)
    points = np.array([[j % base - base // 2, j // base - base // 2] for j in range(len(used))])
    own = points[np.searchsorted(used, database.triples[:, 2])]
    gaps = ((points - own[:, None]) ** 2).sum(axis=2).astype(float)
    gaps[gaps == 0] = np.inf
    shift = max(2 * (base // 2) ** 2, 1)
    unused = shift + (own**2).sum(axis=1) if len(used) < database.n_values else np.inf
    np.testing.assert_allclose(slow_margins(layer, database), np.minimum(gaps.min(axis=1), unused), atol=1e-9)
    proof = prove(layer, database)
    assert (proof.holds, proof.arithmetic) == (True, "exact integers")
    assert layer.shape == lattice.shape(database, precision)


@given(st.integers(1, 40), st.sampled_from(PRECISIONS))
def test_the_largest_digit_is_the_largest(n_digits, precision):
    h, limit = largest_digit(n_digits, precision), 2 ** SIGNIFICAND[precision]
    assert 2 * n_digits * h**2 + 4 * h <= limit < 2 * n_digits * (h + 1) ** 2 + 4 * (h + 1)


@given(st.integers(1, 10**7), st.sampled_from(PRECISIONS))
def test_digits_write_every_place_once(n_values, precision):
    n_digits = digits_for(n_values, precision)
    base = base_for(n_values, n_digits)
    assert base // 2 <= largest_digit(n_digits, precision)
    assert (base - 1) ** n_digits < n_values <= base**n_digits
    places = np.unique(np.linspace(0, n_values - 1, 50).astype(int))
    written = digits(places, base, n_digits)
    np.testing.assert_array_equal((written + base // 2) @ (float(base) ** np.arange(n_digits)), places)


@pytest.mark.parametrize(("n_values", "n_digits"), [(225, 2), (226, 3), (600, 3)])
def test_many_values_in_bfloat16_are_exact(n_values, n_digits):
    database = every_value(n_values, 2)
    layer = built(database, "bfloat16")
    proof = prove(layer, database)
    assert (proof.holds, proof.margin, proof.arithmetic) == (True, 1.0, "exact integers")
    assert (layer.shape.d_model, layer.shape.d_vo) == (2 * n_digits + 1, n_digits)


def test_certified_where_the_parabola_is_refused():
    database = uniform(200, 5, 150, seed=0)
    assert Parabola().refusal(database, "bfloat16") is not None
    found = verify(built(database, "bfloat16"), database)
    assert (found.certified, found.margin, found.arithmetic) == (True, 1.0, "exact integers")


def test_counts():
    """1,000 values in bfloat16: 3 numbers per fact, where binary words take 10."""
    shape = lattice.shape(uniform(2000, 10, 1000, seed=0), "bfloat16")
    assert (shape.d_model, shape.n_heads, shape.d_qk, shape.d_vo) == (31, 10, 1, 3)


def test_small_tables_unicode_and_names_without_facts():
    for database in SMALLEST:
        for precision in PRECISIONS:
            assert prove(built(database, precision), database).holds
    partial = uniform(6, 5, 9, seed=0).select(keys=["k1", "k3"], queries=["q1", "q4"], compact=False)
    for database in (UNICODE, partial):
        assert prove(built(database), database).holds


def test_a_perturbed_weight_breaks_the_proof():
    database = every_value(9, 2)
    layer = built(database)
    unembedding = layer.unembedding.copy()
    unembedding[-1, 3] += 1.0
    assert not prove(replace(layer, unembedding=unembedding), database).holds


def test_refusals():
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    with pytest.raises(InputError, match=r"digits: .*several values"):
        built(several)
    assert "no facts" in lattice.refusal(uniform(2, 2, 2, seed=0).select(keys=[], compact=False), "float32")
