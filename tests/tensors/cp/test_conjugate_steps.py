"""Conjugate gradients for CP: products against the dense normal matrix, fits and shorter decompositions planted."""

import numpy as np
import pytest

from factrank.tensors.bounds.upper.cp_bounds import factor_of, representatives
from factrank.tensors.bounds.upper.plain_bounds import slices_bound
from factrank.tensors.core import AXES, Core, ZeroOneTensor, lift
from factrank.tensors.cp import cp_fit
from factrank.tensors.cp.conjugate_steps import NormalProducts, SelectedFibers, conjugate_step
from factrank.tensors.cp.cp_equations import jacobian, multiply
from factrank.tensors.cp.cp_fit import CONVERGED_BY_PRODUCTS, Problem, improve
from factrank.tensors.cp.shorter_fits import shortened

SHAPE, RANK = (4, 5, 3), 3


def random_factors(seed, rank=RANK):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(size, rank)) for size in SHAPE)


MASK = np.random.default_rng(1).random(SHAPE[:2]) < 0.7
FREE = np.random.default_rng(2).random(sum(SHAPE) * RANK) < 0.6


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("free", [None, FREE])
def test_products_and_steps_are_those_of_the_dense_normal_matrix(mask, free):
    factors, rng = random_factors(0), np.random.default_rng(3)
    held = np.zeros(len(FREE), dtype=bool) if free is None else ~free
    derivatives = jacobian(factors, mask)
    dense = derivatives.T @ derivatives
    fibers = None if mask is None else SelectedFibers.of(mask)
    products = NormalProducts(factors, fibers, free)
    change = np.where(held, 0.0, rng.normal(size=len(dense)))
    np.testing.assert_allclose(products.times(change), np.where(held, 0.0, dense @ change), atol=1e-10)
    slope = np.where(held, 0.0, rng.normal(size=len(dense)))
    step = conjugate_step(products, slope, 0.5, 1e-9, np.inf)
    assert not step[held].any()
    moving = np.flatnonzero(~held)
    expected = np.linalg.solve(dense[np.ix_(moving, moving)] + 0.5 * np.eye(len(moving)), slope[moving])
    np.testing.assert_allclose(step[moving], expected, atol=1e-4)


@pytest.mark.parametrize("mask", [None, MASK])
def test_fits_by_conjugate_gradients_converge_near_a_planted_decomposition(mask, monkeypatch):
    monkeypatch.setattr(cp_fit, "MOST_DENSE", 0)
    monkeypatch.setattr(Problem, "normal", None)  # no dense matrix is made
    planted, rng = random_factors(4), np.random.default_rng(5)
    target = multiply(planted)
    spoiled = target if mask is None else np.where(mask[:, :, None], target, 100.0)
    start = tuple(factor + 0.05 * rng.normal(size=factor.shape) for factor in planted)
    fit = improve(Problem(spoiled, mask), start, seconds=30.0, ridge=1e-3)
    assert fit.status == "converged"
    assert fit.residual <= CONVERGED_BY_PRODUCTS
    kept = np.ones(SHAPE[:2], dtype=bool) if mask is None else mask
    np.testing.assert_allclose(multiply(fit.factors)[kept], target[kept], atol=1e-6)


def test_a_known_decomposition_is_shortened_to_the_planted_rank():
    """Each of 2 planted terms is split into 2 that are parallel; one term is too few for the target."""
    planted = random_factors(6, rank=2)
    known = tuple(np.concatenate([factor, factor], axis=1) for factor in planted)
    known = (known[0] / 2, known[1], known[2])
    found = shortened(Problem(multiply(planted)), known, (1, 4), 5, 30.0, np.random.default_rng(0))
    assert found.certified is None
    assert found.witness is None
    assert found.estimate.rank == 2
    np.testing.assert_allclose(multiply(found.estimate.factors), multiply(planted), atol=1e-5)
    attempts = {attempt.rank: attempt for attempt in found.attempts}
    assert attempts[2].residual <= CONVERGED_BY_PRODUCTS < 0.01 < attempts[1].residual < 1


def test_a_witness_on_the_original_slices_has_the_factors_of_the_core():
    facts = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 2], [0, 1, 2], [3, 1, 0], [3, 2, 2]])  # keys 0 and 2 are equal
    core = Core.of(ZeroOneTensor(facts, (5, 3, 4)))
    bound = slices_bound(core, 1)
    within = tuple(factor_of(bound.decomposition(), axis, np.arange(core.tensor.shape[axis])) for axis in AXES)
    np.testing.assert_array_equal(multiply(within), core.tensor.dense())
    lifted = lift(bound.decomposition(), core)
    again = tuple(factor_of(lifted, axis, representatives(core.classes[axis])) for axis in AXES)
    np.testing.assert_array_equal(multiply(again), core.tensor.dense())
