"""Numerical CP: derivatives, planted ranks, border rank, masks, and the search with its proofs."""

import numpy as np
import pytest

from cp_fits import fit_cp, fit_many
from factrank.databases.generators.named import diagonal2, matmul, w_state
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.cp import cp_search
from factrank.tensors.cp.cp_equations import (
    balance,
    gradient,
    jacobian,
    join,
    multiply,
    normal_matrix,
    split,
    term_norms,
)
from factrank.tensors.cp.cp_fit import CONVERGED, LARGEST_TERM, Problem, improve
from factrank.tensors.cp.cp_search import CpSearch, cp_bound, generic_rank
from factrank.tensors.cp.interval_proof import IntervalProof, valid_fibers


def random_factors(shape, rank, seed):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(size, rank)) for size in shape)


def dense(database):
    return ZeroOneTensor.of(database).dense().astype(np.float64)


def test_multiply_is_the_sum_of_outer_products():
    factors = random_factors((3, 4, 5), 2, 0)
    expected = sum(np.multiply.outer(np.outer(a, b), c) for a, b, c in zip(*(f.T for f in factors), strict=True))
    np.testing.assert_allclose(multiply(factors), expected, atol=1e-14)


def test_derivatives_agree_with_finite_differences():
    shape, rank, step = (3, 4, 2), 3, 1e-6
    factors, target = random_factors(shape, rank, 1), np.random.default_rng(2).normal(size=(3, 4, 2))
    point, error = join(factors), multiply(factors) - target
    numerical_gradient, numerical_jacobian = np.zeros(len(point)), np.zeros((error.size, len(point)))
    for unknown in range(len(point)):
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved[unknown] += sign * step
            ends.append(multiply(split(moved, shape, rank)))
        numerical_jacobian[:, unknown] = (ends[0] - ends[1]).ravel() / (2 * step)
        losses = [np.sum((end - target) ** 2) for end in ends]
        numerical_gradient[unknown] = (losses[0] - losses[1]) / (2 * step)
    np.testing.assert_allclose(jacobian(factors), numerical_jacobian, atol=1e-8)
    np.testing.assert_allclose(2 * gradient(error, factors), numerical_gradient, atol=1e-6)
    np.testing.assert_allclose(normal_matrix(factors), jacobian(factors).T @ jacobian(factors), atol=1e-12)


def test_masked_jacobian_has_the_rows_of_the_valid_fibers():
    factors = random_factors((3, 4, 2), 3, 1)
    mask = np.random.default_rng(0).random((3, 4)) < 0.5
    rows = jacobian(factors).reshape(3, 4, 2, -1)
    np.testing.assert_array_equal(jacobian(factors, mask), rows[mask].reshape(-1, rows.shape[3]))


def test_balancing_keeps_the_terms():
    factors = random_factors((3, 4, 5), 4, 3)
    factors[1][:, 2] = 0
    balanced = balance(factors)
    np.testing.assert_allclose(multiply(balanced), multiply(factors), atol=1e-13)
    np.testing.assert_allclose(term_norms(balanced), term_norms(factors), atol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), [((5, 6, 7), 4), ((4, 3, 6), 5), ((2, 2, 2), 1), ((7, 1, 3), 3)])
def test_planted_rank_is_recovered_and_one_less_is_not(shape, rank):
    target = multiply(random_factors(shape, rank, 4))
    best = fit_many(target, rank, np.random.default_rng(0), seconds=30.0, starts=12)[0]
    assert best.status == "converged"
    assert best.residual <= CONVERGED
    np.testing.assert_allclose(multiply(best.factors), target, atol=1e-10)
    if rank > 1:
        fewer = fit_many(target, rank - 1, np.random.default_rng(0), seconds=30.0, starts=4)
        assert all(fit.status != "converged" for fit in fewer)


def test_w_state_diverges_at_two_and_converges_at_three():
    target, rng = dense(w_state()), np.random.default_rng(0)
    two = fit_many(target, 2, rng, seconds=60.0, starts=3)
    assert {fit.status for fit in two} == {"diverging"}
    assert all(fit.residual < 1e-3 and fit.largest_term > LARGEST_TERM for fit in two)
    assert fit_many(target, 3, rng, seconds=60.0, starts=4)[0].status == "converged"


def test_fits_are_repeatable_and_say_when_the_time_is_over():
    target = dense(matmul(2))
    one, two = (fit_cp(target, 7, np.random.default_rng(5), seconds=60.0) for _ in range(2))
    np.testing.assert_array_equal(one.factors[0], two.factors[0])
    assert fit_cp(target, 7, np.random.default_rng(5), seconds=0.0).status == "out of time"
    assert len(fit_many(target, 7, np.random.default_rng(5), seconds=0.0, starts=5)) == 1


def test_only_valid_fibers_count_with_a_mask():
    target = multiply(random_factors((5, 6, 4), 2, 6))
    mask = np.random.default_rng(1).random((5, 6)) < 0.8
    spoiled = np.where(mask[:, :, None], target, 100.0)
    best = fit_many(spoiled, 2, np.random.default_rng(0), seconds=30.0, starts=6, mask=mask)[0]
    assert best.status == "converged"
    np.testing.assert_allclose(multiply(best.factors)[mask], target[mask], atol=1e-9)


def test_held_unknowns_keep_their_values():
    factors = random_factors((3, 4, 5), 3, 7)
    target = multiply(factors)
    start = tuple(factor + 0.05 * np.random.default_rng(8).normal(size=factor.shape) for factor in factors)
    free = np.random.default_rng(9).random(12 * 3) < 0.5
    fit = improve(Problem(target, None, free), start, seconds=10.0)
    np.testing.assert_array_equal(join(fit.factors)[~free], join(start)[~free])
    assert fit.residual < np.linalg.norm(multiply(start) - target) / np.linalg.norm(target)


def test_zero_tensor_and_rank_zero():
    zero = np.zeros((2, 3, 4))
    assert fit_cp(zero, 1, np.random.default_rng(0), seconds=10.0).residual < 1e-6
    assert fit_cp(zero, 0, np.random.default_rng(0), seconds=10.0).status == "converged"
    assert fit_cp(dense(w_state()), 0, np.random.default_rng(0), seconds=10.0).residual == 1.0


def test_search_certifies_strassen():
    core = Core.of(ZeroOneTensor.of(matmul(2)))
    found = cp_bound(core.tensor, 7, 8, 60.0, np.random.default_rng(0))
    assert found.certified == found.witness.n_terms == 7
    assert found.witness.equals(core.tensor)
    assert found.estimate is None


def test_search_never_takes_a_diverging_fit_for_an_estimate(monkeypatch):
    monkeypatch.setattr(cp_search, "HOPELESS", 4)
    found = cp_bound(ZeroOneTensor.of(w_state()), 2, 4, 30.0, np.random.default_rng(0))
    assert found.certified == 3
    assert found.estimate is None
    assert [attempt.statuses.get("converged", 0) for attempt in found.attempts if attempt.rank == 2] == [0]


def test_search_on_a_full_table_drops_a_slice():
    core = Core.of(ZeroOneTensor.of(uniform(8, 4, 6, seed=1)))
    found = cp_bound(core.tensor, 12, 15, 60.0, np.random.default_rng(0))
    assert 12 <= found.certified <= 14  # how far it gets depends on the clock; what it proves does not
    proof = found.witness
    assert proof.verify(core.tensor) if isinstance(proof, IntervalProof) else proof.equals(core.tensor)


def test_twelve_terms_of_a_full_table_are_proved_with_its_last_slice_dropped():
    """The same without a clock: among a fixed list of starts one converges to a regular solution, which is proved."""
    tensor = Core.of(ZeroOneTensor.of(uniform(8, 4, 6, seed=1))).tensor
    search = CpSearch.of(tensor, 3600.0, np.random.default_rng(0))
    fits = (search.fit(12, start, 3600.0) for start in range(30))
    proofs = (search.interval_proof(fit.factors) for fit in fits if fit.status == "converged")
    proof = next(proof for proof in proofs if proof is not None)
    assert (proof.rank, proof.dropped, proof.mask) == (12, tensor.shape[2] - 1, None)
    assert proof.verify(tensor)


def test_search_of_completions():
    tensor = ZeroOneTensor.of(diagonal2(6))
    found = cp_bound(tensor, 1, 5, 20.0, np.random.default_rng(0), valid_fibers(tensor))
    assert found.certified == 2
    assert found.estimate is None
    proof = found.witness
    assert proof.verify(tensor) if isinstance(proof, IntervalProof) else proof.completes(tensor)


def test_search_has_nothing_to_do():
    tensor = ZeroOneTensor.of(w_state())
    assert cp_bound(tensor, 3, 3, 1.0, np.random.default_rng(0)) is None
    large = ZeroOneTensor.of(uniform(60, 30, 60, seed=0))
    assert cp_bound(large, 60, 900, 1.0, np.random.default_rng(0)) is None
    assert generic_rank((1, 1, 1)) == 1
