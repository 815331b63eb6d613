"""Trained logits: the published ranks are reached and proved; gradients; nothing below a certified lower bound."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from scipy.optimize import check_grad

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.bounds.certified_bounds import Bound, RankBounds, Skipped
from factrank.tensors.bounds.effective import effective_bounds
from factrank.tensors.bounds.ledger import INTERRUPTED, Ledger
from factrank.tensors.bounds.upper import code_bounds
from factrank.tensors.codes.parabola import least_margin
from factrank.tensors.codes.separation_loss import SeparationLoss
from factrank.tensors.codes.trained_logits import (
    LogitGoal,
    certified,
    expected_terms,
    train_logits,
    train_towards,
    trained_codes,
)
from factrank.tensors.core.decomposition import Decomposition, Factor
from factrank.tensors.core.integer_margins import IntegerLogits
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure
from strategies import as_database, tensors


def recalls(terms, tensor):
    """Whether each value of every fact exceeds all values that its fiber lacks, in plain Python integers."""
    dense = [[[0] * terms.n_terms for _ in range(size)] for size in tensor.shape]
    for rows, factor in zip(dense, terms.factors, strict=True):
        for index, term, weight in zip(
            *(part.tolist() for part in (factor.index, factor.term, factor.weight)), strict=True
        ):
            rows[index][term] += weight
    facts = set(map(tuple, tensor.coordinates.tolist()))
    for k, q in {fact[:2] for fact in facts}:
        logits = [sum(a * b * c for a, b, c in zip(dense[0][k], dense[1][q], row, strict=True)) for row in dense[2]]
        own = [x for v, x in enumerate(logits) if (k, q, v) in facts]
        rivals = [x for v, x in enumerate(logits) if (k, q, v) not in facts]
        if rivals and min(own) <= max(rivals):
            return False
    return True


def planted(shape, rank, density, seed):
    """A set-valued table of effective rank at most `rank`: the largest few logits of each fiber of random terms."""
    rng = np.random.default_rng(seed)
    logits = np.einsum("kr,qr,vr->kqv", *(rng.normal(size=(size, rank)) for size in shape))
    facts = []
    for k, q in product(range(shape[0]), range(shape[1])):
        if rng.random() < density:
            facts += [(k, q, v) for v in np.argsort(-logits[k, q])[: rng.integers(1, shape[2])].tolist()]
    return ZeroOneTensor(np.array(facts), shape)


def least_trained(tensor, between):
    """The fewest terms found, and their logits."""
    found = list(trained_codes(tensor, between, time.monotonic() + 60, np.random.default_rng(0)))
    assert [logits.n_terms for logits in found] == sorted({logits.n_terms for logits in found}, reverse=True)
    return found[-1]


def core_of(*shape, seed):
    return Core.of(ZeroOneTensor.of(uniform(*shape, seed=seed))).tensor


@pytest.mark.parametrize(
    ("shape", "expected", "seed"),
    [((8, 4, 6), 3, 0), ((8, 4, 6), 3, 4), ((12, 6, 12), 4, 0), ((20, 10, 20), 7, 0), ((50, 10, 50), 10, 0)],
)
def test_random_tables(shape, expected, seed):
    """The numbers of terms that training was seen to need on random full tables, now certified."""
    tensor = core_of(*shape, seed=seed)
    logits = train_logits(tensor, expected, 8, np.inf, np.random.default_rng(0))
    terms = logits.decomposition()
    assert terms.n_terms == expected
    assert least_margin(terms, tensor) == logits.least_margin(tensor) > 0
    assert max(np.abs(factor.weight).max() for factor in terms.factors) <= 2**16


def test_the_search_goes_down():
    tensor = core_of(8, 4, 6, seed=2)
    found = least_trained(tensor, (3, 30))
    assert found.n_terms == 3
    assert recalls(found.decomposition(), tensor)
    assert not list(trained_codes(tensor, (2, 5), 0.0, np.random.default_rng(0)))
    assert not list(trained_codes(tensor, (3, 3), time.monotonic() + 60, np.random.default_rng(0)))


def test_the_search_goes_up_where_the_expected_rank_is_too_low():
    """Signs of a Hadamard matrix are harder than random ones."""
    signs = hadamard(8)
    facts = [(f"k{k}", f"q{q}", "yes" if signs[k, q] > 0 else "no") for k in range(8) for q in range(8)]
    tensor = Core.of(ZeroOneTensor.of(Database.from_facts(facts))).tensor
    found = least_trained(tensor, (5, 9))
    assert found.n_terms == 5
    assert least_margin(found.decomposition(), tensor) > 0


@pytest.mark.parametrize(("shape", "rank"), [((7, 6, 5), 2), ((12, 10, 8), 3)])
def test_a_planted_rank_of_sets_is_recovered(shape, rank):
    tensor = planted(shape, rank, 0.7, seed=1)
    found = least_trained(tensor, (rank, 40))
    assert found.n_terms == rank
    assert found.least_margin(tensor) == least_margin(found.decomposition(), tensor) > 0
    assert recalls(found.decomposition(), tensor)


def test_a_tie_with_a_rival_is_refused_and_a_tie_among_values_is_not():
    tensor = ZeroOneTensor(np.array([[0, 0, 0], [0, 0, 1]]), (1, 1, 3))
    one = np.ones((1, 1), dtype=np.int64)
    for column, margin in (([2, 2, 1], 1), ([2, 1, 1], 0), ([3, 1, 2], -1), ([5, 2**61, -(2**61)], 2**61 + 5)):
        logits = IntegerLogits(one, one, np.array(column)[:, None])
        assert logits.least_margin(tensor) == least_margin(logits.decomposition(), tensor) == margin
        assert recalls(logits.decomposition(), tensor) == logits.decomposition().recalls(tensor) == (margin > 0)


@settings(max_examples=30)
@given(tensors(empty=False), st.integers(0, 2**32 - 1))
def test_margins_of_sets_agree_with_plain_integers(tensor, seed):
    rng = np.random.default_rng(seed)
    logits = IntegerLogits(*(rng.integers(-3, 4, (size, 2)) for size in tensor.shape))
    assert logits.least_margin(tensor) == least_margin(logits.decomposition(), tensor)
    terms = logits.decomposition()
    assert (logits.least_margin(tensor) > 0) == recalls(terms, tensor) == terms.recalls(tensor)


def test_an_altered_witness_is_rejected():
    tensor = core_of(8, 4, 6, seed=0)
    terms = train_logits(tensor, 3, 8, np.inf, np.random.default_rng(0)).decomposition()
    first = terms.factors[0]
    weight = first.weight.copy()
    weight[np.argmax(np.abs(weight))] *= -1
    forged = Decomposition((Factor(first.index, first.term, weight), *terms.factors[1:]), terms.denominators)
    assert least_margin(forged, tensor) <= 0
    assert not recalls(forged, tensor)
    assert terms.recalls(tensor)
    assert not forged.recalls(tensor)


@pytest.mark.parametrize(("denominators", "is_right"), [([2, 3], True), ([2, 2], False), ([3, 2], False)])
def test_recall_of_terms_with_denominators(denominators, is_right):
    """One fiber, logits 1/m for its value and 1/n for another; the third value has no entry."""
    one = Factor.indicator(np.array([0, 0]), np.array([0, 1]))
    terms = Decomposition((one, one, Factor.indicator(np.array([0, 1]), np.array([0, 1]))), np.array(denominators))
    assert terms.recalls(ZeroOneTensor(np.array([[0, 0, 0]]), (1, 1, 3))) == is_right
    assert not terms.recalls(ZeroOneTensor(np.array([[0, 0, 2]]), (1, 1, 3)))


def test_wrong_factors_are_not_certified():
    tensor = core_of(8, 4, 6, seed=0)
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(size, 3)) for size in tensor.shape]
    assert certified(tensor, *factors) is None
    assert certified(tensor, *(0 * factor for factor in factors)) is None


@pytest.mark.parametrize("tensor", [core_of(5, 4, 6, seed=0), planted((5, 4, 6), 2, 0.8, seed=0)])
def test_gradient(tensor):
    loss = SeparationLoss.of(tensor, 3)
    rng = np.random.default_rng(0)
    point, weights = rng.normal(size=loss.n_parameters), rng.uniform(1, 3, len(loss))
    value, gradient = (lambda x, part=part: loss.evaluate(x, 0.3, weights)[part] for part in (0, 1))
    assert check_grad(value, gradient, point) < 1e-4


def test_the_loss_is_the_sum_over_pairs_of_a_value_and_a_rival():
    tensor = planted((3, 3, 4), 2, 1.0, seed=2)
    loss = SeparationLoss.of(tensor, 2)
    point = np.random.default_rng(0).normal(size=loss.n_parameters)
    logits = np.einsum("kr,qr,vr->kqv", *loss.factors(point))
    dense, expected, heights = tensor.dense().astype(bool), 0.0, []
    for k, q in product(range(3), range(3)):
        own, rivals = logits[k, q][dense[k, q]], logits[k, q][~dense[k, q]]
        total = np.exp(rivals[None, :] - own[:, None]).sum()
        expected, heights = expected + np.log1p(total), [*heights, np.log(total)]
    value, _, highest = loss.evaluate(point, 0.0, np.ones(len(loss)))
    assert np.allclose([value, highest], [expected, max(heights)])


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


@pytest.mark.searches
@settings(max_examples=10)
@given(tensors(functional=False, empty=False, most=4))
def test_the_bracket_of_a_set_valued_table_holds(tensor):
    database = as_database(tensor).compact()
    bounds = measure(database).effective_rank
    if callable(bounds.upper.witness):
        assert recalls(bounds.upper.witness(), ZeroOneTensor.of(database))


@pytest.fixture
def training(monkeypatch):
    """Training runs, the other searches do not."""
    monkeypatch.setattr(code_bounds, "SHARES", {code_bounds.LABELS: 0.0, code_bounds.TRAINED: 1.0})


def effective(tensor, on_step=lambda _: None, *, interruptible=False):
    """Bounds on the effective rank, given a completion rank of at most 30."""
    completion = RankBounds(Bound(0, "none"), Bound(30, "made up", witness=lambda: None))
    return effective_bounds(Core.of(tensor), completion, Ledger(60.0, on_step, interruptible=interruptible))


@pytest.mark.usefixtures("training")
def test_the_planted_rank_of_a_set_valued_table_is_proved():
    tensor = planted((14, 12, 9), 3, 0.9, seed=3)
    bounds = effective(tensor)
    assert (bounds.lower.value, bounds.upper.value) == (3, 3)
    assert bounds.upper.method == "trained logits, rounded"
    assert recalls(bounds.upper.witness(), tensor)


@pytest.mark.usefixtures("training")
def test_an_interrupted_search_keeps_its_best_bound():
    tensor, seen = planted((14, 12, 9), 3, 0.9, seed=3), set()

    def interrupt(step):
        if step.startswith("trained logits, rounded:"):
            seen.add(step.split(",")[1])
        if len(seen) > 1:
            seen.clear()
            raise KeyboardInterrupt

    bounds = effective(tensor, interrupt, interruptible=True)
    assert Skipped("trained logits, rounded", INTERRUPTED) in bounds.skipped
    assert 3 < bounds.upper.value < 30
    assert recalls(bounds.upper.witness(), tensor)
    with pytest.raises(KeyboardInterrupt):
        effective(tensor, interrupt)


@pytest.mark.usefixtures("training")
def test_bounds_say_what_is_typical_and_what_failed():
    bounds = effective(core_of(8, 4, 6, seed=0))
    assert bounds.upper.value == 3
    typical = bounds.tried[-1]
    assert (typical.value, typical.certified) == (1, False)
    assert bounds.lower.certified
    assert bounds.upper.certified
    assert Skipped("trained logits, rounded with 2 terms", "tried, not found") in bounds.skipped


def test_without_a_budget_the_searches_are_skipped_with_a_reason():
    bounds = measure(uniform(8, 4, 6, seed=0), budget=0.0).effective_rank
    reasons = {skip.method: skip.reason for skip in bounds.skipped}
    assert "budget" in reasons["E2 label search"]
    assert "budget" in reasons["trained logits, rounded"]


def test_bent_logits_and_their_gradient():
    tensor = planted((5, 4, 6), 2, 0.8, seed=0)
    loss = SeparationLoss.of(tensor, 3, bent=True)
    rng = np.random.default_rng(0)
    point, weights = rng.normal(size=loss.n_parameters), rng.uniform(1, 3, len(loss))
    assert loss.n_parameters == 3 * (5 + 4 + 6) + 6
    value, gradient = (lambda x, part=part: loss.evaluate(x, 0.3, weights)[part] for part in (0, 1))
    assert check_grad(value, gradient, point) < 1e-4
    a, b, c = loss.factors(point)
    logits = loss.biases(point) + np.tanh(a[loss.keys] * b[loss.queries] / 2) @ c.T
    margins = np.where(loss.members, logits, np.inf).min(axis=1) - np.where(loss.members, -np.inf, logits).max(axis=1)
    for depth in (0.0, 0.5):
        np.testing.assert_array_equal(loss.wrong(point, depth), margins <= depth)


def test_a_goal_decides_what_is_accepted():
    """Training continues while the goal refuses, and returns what it accepts."""
    tensor, calls = core_of(6, 4, 5, seed=0), []

    def accept(factors, biases):
        calls.append(biases)
        return None if len(calls) < 2 else factors

    goal = LogitGoal(accept, bent=True, depth=0.1)
    found = train_towards(goal, tensor, 4, 8, np.inf, np.random.default_rng(0))
    assert [len(factor) for factor in found] == list(tensor.shape)
    assert len(calls) == 2
    nothing = LogitGoal(lambda *_: None, bent=True)
    assert train_towards(nothing, tensor, 4, 1, np.inf, np.random.default_rng(0)) is None


def test_a_search_ends_by_the_clock_of_its_goal():
    """Its deadline is in the units of that clock, here the number of looks at it."""
    tensor, looks = core_of(6, 4, 5, seed=0), iter(range(1_000))
    goal = LogitGoal(lambda *_: None, bent=True, clock=lambda: float(next(looks)))
    assert train_towards(goal, tensor, 4, 50, 3.0, np.random.default_rng(0)) is None
    assert next(looks) < 10
