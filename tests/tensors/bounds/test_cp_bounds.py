"""CP inside `measure`: what is proved is an upper bound with a witness, what is not is an estimate, or nothing."""

import re

import numpy as np
import pytest

from factrank.databases.generators.named import matmul, w_state
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, Estimate, RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import run_methods
from factrank.tensors.bounds.registry import methods
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.cp import cp_search
from factrank.tensors.cp.interval_proof import IntervalProof
from factrank.tensors.measurement import measure

pytestmark = pytest.mark.searches


@pytest.fixture(autouse=True)
def _few_starts(monkeypatch):
    """After 8 starts that do not converge a rank is given up; 30 find no more here."""
    monkeypatch.setattr(cp_search, "HOPELESS", 8)


def core_of(database):
    return Core.of(ZeroOneTensor.of(database))


def ledger(seconds):
    return Ledger(seconds, lambda _: None)


def searched(of, core, lower, upper, clock):
    """The bounds and the estimate that CP finds between two ends."""
    ends = {"lower": (Bound(lower, "known"),), "upper": (Bound(upper, "known"),)}
    cp = [method for method in methods(of) if method.code == "CP"]
    found = run_methods(cp, Bracket(of, core, clock, **ends))
    return list(found.upper[1:]), found.estimate


def test_strassen_is_found_and_proved():
    core = core_of(matmul(2))
    bounds, estimate = searched("rank", core, 6, 8, ledger(25.0))
    assert [bound.value for bound in bounds] == [7]
    assert bounds[0].certified
    assert bounds[0].witness().equals(ZeroOneTensor.of(matmul(2)))
    assert estimate is None or estimate.value < 7


def test_a_search_in_vain_reports_its_least_residual():
    """The border rank of 2 x 2 matrix multiplication is 7 too, so fits with 6 terms stay away from 0."""
    clock = ledger(30.0)
    assert searched("rank", core_of(matmul(2)), 6, 7, clock) == ([], None)
    (skipped,) = clock.take_skipped()
    assert skipped.method == "CP with 6 terms"
    assert float(re.search(r"least relative residual (\S+)$", skipped.reason)[1]) > 0.01


def test_matrix_multiplication_completes_at_the_number_of_its_values():
    """Only n^3 of the n^4 fibers are valid; the others are free, and 4 terms are enough (and needed)."""
    core = core_of(matmul(2))
    bounds, _ = searched("completion rank", core, 4, 6, ledger(60.0))
    assert min(bound.value for bound in bounds) == 4
    witness = min(bounds, key=lambda bound: bound.value).witness
    if isinstance(witness, IntervalProof):
        assert witness.verify(core.tensor)
    else:
        assert witness().completes(ZeroOneTensor.of(matmul(2)))


def test_an_interval_proof_beats_the_constructive_bounds_and_repeats():
    database = uniform(8, 4, 6, seed=1)
    core = core_of(database)
    bounds, _ = searched("rank", core, 9, 16, ledger(25.0))
    assert bounds
    assert bounds[0].value < 16
    if isinstance(bounds[0].witness, IntervalProof):
        assert bounds[0].witness.verify(core.tensor)
        assert not bounds[0].witness.verify(core_of(uniform(8, 4, 6, seed=2)).tensor)
    else:
        assert bounds[0].witness().equals(ZeroOneTensor.of(database))


def test_border_rank_is_never_an_estimate():
    core, clock = core_of(w_state()), ledger(200.0)
    bounds, estimate = searched("rank", core, 2, 3, clock)
    assert bounds == []
    assert estimate is None
    skipped = {skip.method: skip.reason for skip in clock.take_skipped()}
    assert "border rank" in skipped["CP with 2 terms"]


def test_measure_uses_the_proof():
    rank = measure(matmul(2), budget=30.0).rank
    assert (rank.lower.value, rank.upper.value) == (6, 7)
    assert rank.upper.method.startswith("CP")


def test_no_time_no_search():
    clock = ledger(0.0)
    assert searched("rank", core_of(matmul(2)), 6, 8, clock) == ([], None)
    assert "budget" in clock.take_skipped()[0].reason


def test_an_estimate_stays_only_between_the_bounds():
    lower, upper = [Bound(4, "low")], [Bound(9, "high")]
    for value, kept in ((3, False), (4, True), (8, True), (9, False)):
        bounds = RankBounds.best_of(lower, upper, (), Estimate(value, "numerical", 1e-13))
        assert (bounds.estimate is not None) == kept
    assert RankBounds.best_of(lower, upper, (), None).to_dict()["estimate"] is None
    data = RankBounds.best_of(lower, upper, (), Estimate(5, "numerical", 1e-13)).to_dict()
    assert data["estimate"] == {"value": 5, "method": "numerical", "residual": 1e-13}
    assert np.isfinite(data["estimate"]["residual"])
