"""Trained logits: the published ranks are reached and proved; gradients; nothing below a certified lower bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.linalg import hadamard
from scipy.optimize import check_grad

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.bounds.upper import code_searches
from factrank.tensors.codes.parabola import least_margin
from factrank.tensors.codes.trained_logits import _Loss, certified, expected_terms, train, trained_bound
from factrank.tensors.core.decomposition import Decomposition, Factor
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure
from strategies import as_database, tensors


def recalls(terms, tensor):
    """Whether the argmax of the terms, as dense integer arrays, is the value of every fact, without a tie."""
    dense = [np.zeros((size, terms.n_terms), dtype=np.int64) for size in tensor.shape]
    for array, factor in zip(dense, terms.factors, strict=True):
        array[factor.index, factor.term] = factor.weight
    logits = np.einsum("kr,qr,vr->kqv", *dense)
    key, query, value = tensor.coordinates.T
    best = logits.max(axis=2, keepdims=True)
    return bool(
        np.all(logits.argmax(axis=2)[key, query] == value) and np.all((logits == best).sum(axis=2)[key, query] == 1)
    )


def core_of(*shape, seed):
    return Core.of(ZeroOneTensor.of(uniform(*shape, seed=seed))).tensor


@pytest.mark.parametrize(
    ("shape", "expected", "seed"),
    [((8, 4, 6), 3, 0), ((8, 4, 6), 3, 4), ((12, 6, 12), 4, 0), ((20, 10, 20), 7, 0), ((50, 10, 50), 10, 0)],
)
def test_random_tables(shape, expected, seed):
    """The numbers of terms that training was seen to need on random full tables, now certified."""
    tensor = core_of(*shape, seed=seed)
    logits = train(tensor, expected, 8, np.inf, np.random.default_rng(0))
    terms = logits.decomposition()
    assert terms.n_terms == expected
    assert least_margin(terms, tensor) == logits.least_margin(tensor) > 0
    assert max(np.abs(factor.weight).max() for factor in terms.factors) <= 2**16


def test_the_search_goes_down():
    tensor = core_of(8, 4, 6, seed=2)
    bound = trained_bound(tensor, (2, 5), 60.0, np.random.default_rng(0))
    assert bound.value == 3
    assert recalls(bound.decomposition(), tensor)
    assert trained_bound(tensor, (2, 5), 0.0, np.random.default_rng(0)) is None
    assert trained_bound(tensor, (3, 3), 60.0, np.random.default_rng(0)) is None


def test_the_search_goes_up_where_the_expected_rank_is_too_low():
    """Signs of a Hadamard matrix are harder than random ones."""
    signs = hadamard(8)
    facts = [(f"k{k}", f"q{q}", "yes" if signs[k, q] > 0 else "no") for k in range(8) for q in range(8)]
    tensor = Core.of(ZeroOneTensor.of(Database.from_facts(facts))).tensor
    bound = trained_bound(tensor, (1, 9), 60.0, np.random.default_rng(0))
    assert 3 <= bound.value <= 5  # Forster: at least sqrt(8)
    assert least_margin(bound.decomposition(), tensor) > 0


def test_an_altered_witness_is_rejected():
    tensor = core_of(8, 4, 6, seed=0)
    terms = train(tensor, 3, 8, np.inf, np.random.default_rng(0)).decomposition()
    first = terms.factors[0]
    weight = first.weight.copy()
    weight[np.argmax(np.abs(weight))] *= -1
    forged = Decomposition((Factor(first.index, first.term, weight), *terms.factors[1:]), terms.denominators)
    assert least_margin(forged, tensor) <= 0
    assert not recalls(forged, tensor)


def test_wrong_factors_are_not_certified():
    tensor = core_of(8, 4, 6, seed=0)
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(size, 3)) for size in tensor.shape]
    assert certified(tensor, *factors) is None
    assert certified(tensor, *(0 * factor for factor in factors)) is None


def test_gradient():
    tensor = Core.of(ZeroOneTensor.of(uniform(5, 4, 6, 13, seed=0))).tensor
    loss = _Loss(tensor, 3, np.inf)
    point = np.random.default_rng(0).normal(size=loss.n_parameters)
    assert check_grad(lambda x: loss(x, 0.3)[0], lambda x: loss(x, 0.3)[1], point) < 1e-4


def test_expected_terms():
    sizes = [(8, 4, 6), (12, 6, 12), (20, 10, 20), (50, 10, 50)]
    assert [expected_terms(ZeroOneTensor.of(uniform(*size, seed=0))) for size in sizes] == [3, 4, 8, 11]


@settings(max_examples=15)
@given(tensors(functional=True, empty=False))
def test_the_bracket_holds_and_its_witness_recalls(tensor):
    """Certified bounds never cross (`RankBounds.best_of` raises), and the best witness is right on every fact."""
    database = as_database(tensor).compact()
    bounds = measure(database).effective_rank
    assert bounds.lower.value <= bounds.upper.value
    assert least_margin(bounds.upper.witness(), ZeroOneTensor.of(database)) > 0


def test_measure_reaches_the_trained_rank_and_says_what_is_typical(monkeypatch):
    monkeypatch.setattr(code_searches, "SEARCH_SECONDS", 20.0)
    effective = measure(uniform(8, 4, 6, seed=0), budget=60.0).effective_rank
    assert effective.upper.value == 3
    typical = effective.tried[-1]
    assert (typical.value, typical.certified) == (1, False)
    assert effective.lower.certified
    assert effective.upper.certified


def test_without_a_budget_the_searches_are_skipped_with_a_reason():
    effective = measure(uniform(8, 4, 6, seed=0), budget=0.0).effective_rank
    reasons = {skip.method: skip.reason for skip in effective.skipped}
    assert "budget" in reasons["E2 label search"]
    assert "budget" in reasons["trained logits, rounded"]
