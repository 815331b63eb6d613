"""Linear solve: capacity, recall and errors of random attention with one least-squares problem."""

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
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.linear_solve import LinearSolve, solved_layer
from factrank.families.attention.layer_shape import LayerShape
from strategies import as_database, tensors

linear_solve = LinearSolve()


@pytest.mark.parametrize(
    ("size", "d", "n_heads", "capacity"),
    [((30, 10, 50), 32, 10, 330), ((60, 10, 100), 64, 10, 650), ((60, 10, 100), 64, 9, 586)],
)
def test_capacity(size, d, n_heads, capacity):
    """All facts while KQ <= H d + Q, with an error of 1e-12; just beyond, recall collapses."""
    database = uniform(*size, seed=0)
    assert capacity == n_heads * d + size[1]
    layer, error = solved_layer(database, LayerShape(d + 1, n_heads, 4, 1), "float64", np.random.default_rng(0))
    if capacity >= database.n_facts:
        assert error < 1e-10
        found = verify(layer, database)
        assert found.certified
        assert found.margin == pytest.approx(1.0, abs=1e-6)
    else:
        assert error > 1
        assert (slow_margins(layer, database) > 0).mean() < 0.5


@settings(max_examples=20)
@given(tensors(functional=True, empty=False), st.integers(0, 9))
def test_small_tables_are_solved_and_proved(tensor, seed):
    database = as_database(tensor)
    built = linear_solve.build(database, "float64", FormSearch(seed=seed))
    assert built.layer.shape == linear_solve.shape(database, "float64")
    proof = prove(built.layer, database)
    assert proof.holds
    assert proof.arithmetic == "running error bound"
    assert slow_margins(built.layer, database).min() > 0.99


def test_a_larger_table_unicode_and_names_without_facts():
    partial = uniform(6, 5, 9, seed=0).select(keys=["k1", "k3"], queries=["q1", "q4"], compact=False)
    for database in (uniform(60, 8, 40, 400, seed=0), UNICODE, partial):
        layer = linear_solve.build(database, "float64", FormSearch()).layer
        assert prove(layer, database).holds


def test_parameters_per_fact():
    """About 4 (1 + 1/d) numbers per fact in the heads, times the spare unknowns, and the embeddings."""
    shape = linear_solve.shape(uniform(60, 10, 100, seed=0), "float64")
    assert (shape.d_qk, shape.d_vo) == (1, 1)
    assert shape.n_heads * (shape.d_model - 1) + 10 >= 1.1 * 600
    assert 5 < shape.parameters(60, 10, 100) / 600 < 8


def test_float32_recalls_but_is_not_proved():
    """Why it is refused there."""
    database = uniform(30, 10, 50, seed=0)
    layer, _ = solved_layer(database, LayerShape(17, 20, 1, 1), "float32", np.random.default_rng(0))
    found = verify(layer, database)
    assert found.recalled == 300
    assert not found.certified


def test_refusals(monkeypatch):
    database = uniform(4, 3, 5, seed=0)
    for precision in ("float32", "bfloat16"):
        with pytest.raises(InputError, match=f"cannot be proved right in {precision}; it takes float64"):
            linear_solve.build(database, precision, FormSearch())
    assert "at most 2,000" in linear_solve.refusal(uniform(300, 10, 5, seed=0), "float64")
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    assert "several values" in linear_solve.refusal(several, "float64")
    monkeypatch.setattr("factrank.families.attention.forms.linear_solve.LARGEST_ERROR", -1.0)
    with pytest.raises(InputError, match="no random attention solves this table"):
        linear_solve.build(database, "float64", FormSearch())
