"""Variable projection: planted ranks are found, J and its Gram matrix are derivatives, proofs repeat and can fail."""

import time
from dataclasses import replace

import numpy as np
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import Core, ZeroOneTensor, others
from factrank.tensors.cp.interval_proof import prove
from factrank.tensors.cp.projected_proof import _jacobian, contracts, prove_point, unfolded
from factrank.tensors.cp.projected_search import Elimination, least_terms, projected_bound
from factrank.tensors.cp.variable_projection import ProjectedPoint, solve, start_point


def several(shape, density, seed):
    """A random 0/1 tensor, with several values per fiber."""
    coordinates = np.argwhere(np.random.default_rng(seed).random(shape) < density)
    return Core.of(ZeroOneTensor(coordinates, shape)).tensor


@pytest.fixture(scope="module")
def proof():
    """24 terms for a random 6 x 10 x 6 tensor, where the 10 slices need 10 x 6 and the matrices 36."""
    tensor = several((6, 10, 6), 0.4, seed=0)
    found = projected_bound(tensor, 10, 30, 60.0, np.random.default_rng(0))
    assert found.certified == found.witness.rank < 30
    return found.witness


def test_a_random_tensor_is_proved_near_its_generic_rank(proof):
    assert proof.rank <= least_terms(proof.tensor, 1) + 3
    assert proof.verify(proof.tensor)


def test_the_proof_is_about_its_tensor_alone(proof):
    tensor = proof.tensor
    flipped = ZeroOneTensor(tensor.coordinates[1:], tensor.shape)
    assert not proof.verify(flipped)
    assert not replace(proof, tensor=flipped).verify(flipped)


def test_an_altered_proof_is_rejected(proof):
    altered = proof.left.copy()
    altered[0, 0] += 1e-6
    assert not replace(proof, left=altered).verify(proof.tensor)
    assert not replace(proof, left=proof.left * np.nan).verify(proof.tensor)
    for radius in (0.0, -1.0, np.inf, np.nan, 1e-30, 1.0):
        assert not replace(proof, radius=radius).verify(proof.tensor)
    assert not replace(proof, axis=0).verify(proof.tensor)
    assert not replace(proof, dropped=0).verify(proof.tensor)
    fewer = replace(proof, left=proof.left[:, 1:], right=proof.right[:, 1:])
    assert not fewer.verify(proof.tensor)


@pytest.mark.parametrize("seed", range(3))
def test_ball_arithmetic_agrees(seed):
    """The same decomposition, proved on all equations in ball arithmetic."""
    tensor = several((4, 6, 4), 0.5, seed=seed)
    found = projected_bound(tensor, 1, 15, 20.0, np.random.default_rng(seed)).witness
    point = ProjectedPoint(unfolded(tensor, found.axis), found.left, found.right)
    first, second = others(found.axis)
    factors = {first: found.left, second: found.right, found.axis: point.third.T}
    slow = prove(tensor, (factors[0], factors[1], factors[2]))
    assert slow.rank == found.rank
    assert slow.verify(tensor)


def test_border_rank_is_not_proved():
    """The W state is a limit of sums of two terms: the residual falls to zero, but there is no solution."""
    tensor = ZeroOneTensor(np.array([(0, 0, 1), (0, 1, 0), (1, 0, 0)]), (2, 2, 2))
    for n in (1e2, 1e4, 1e6, 1e8):
        factor = np.array([[1.0, 1.0], [1 / n, 0.0]])
        point = ProjectedPoint(unfolded(tensor, 2), factor, factor)
        assert point.residual < 1e-1 / np.sqrt(n)
        assert not any(contracts(point, radius) for radius in np.geomspace(1e-16, 1, 33))


def test_a_point_that_is_no_solution_is_not_proved():
    tensor = several((6, 10, 6), 0.4, seed=0)
    target = unfolded(tensor, 1)
    point = start_point(target, (6, 6), 24, np.random.default_rng(0))
    assert prove_point(tensor, 1, point) is None
    assert not any(contracts(point, radius) for radius in np.geomspace(1e-16, 1, 9))


def test_one_valued_fibers_drop_a_slice():
    tensor = Core.of(ZeroOneTensor.of(uniform(12, 6, 12, seed=0))).tensor
    found = projected_bound(tensor, 12, 41, 20.0, np.random.default_rng(0))
    assert found.certified < 41
    assert found.witness.dropped == tensor.shape[2] - 1
    assert found.witness.verify(tensor)
    altered = found.witness.left.copy()
    altered[:, -1] = 2.0
    assert not replace(found.witness, left=altered).verify(tensor)


def test_no_decomposition_below_the_rank_is_claimed():
    """A diagonal has rank 5, whatever is tried; nothing below is proved or an estimate."""
    tensor = ZeroOneTensor(np.array([(i, i, i) for i in range(5)]), (5, 5, 5))
    found = projected_bound(tensor, 1, 5, 5.0, np.random.default_rng(0))
    assert found.certified is None
    assert found.estimate is None


def test_the_jacobian_is_the_derivative_and_its_gram_matrix_agrees():
    tensor = several((4, 5, 4), 0.5, seed=1)
    target = unfolded(tensor, 1)
    point, _ = solve(start_point(target, (4, 4), 11, np.random.default_rng(3)), time.monotonic() + 20)
    jacobian = _jacobian(point)
    np.testing.assert_allclose(point.gram(), jacobian @ jacobian.T, atol=1e-9 * np.abs(jacobian).max() ** 2 * 100)
    rng, step = np.random.default_rng(0), 1e-7
    change = rng.normal(size=(4 + 4, 11))
    moved = ProjectedPoint(target, point.left + step * change[:4], point.right + step * change[4:])
    difference = point.complement.T @ (moved.products - point.products) @ point.third / step
    np.testing.assert_allclose(difference.ravel(), jacobian @ change.ravel(), rtol=1e-4, atol=1e-4)


def test_the_axis_that_leaves_the_fewest_equations_is_eliminated():
    elimination = Elimination.of(several((14, 52, 14), 0.3, seed=0))
    assert (elimination.axis, elimination.rows, elimination.slices) == (1, 196, 52)
    assert elimination.equations(150) == 46 * 52
    assert elimination.least(131, 10.0) > elimination.least(131, 1000.0)
