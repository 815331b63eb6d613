"""Rounding: exact decompositions from numerical ones, checked by exact multiplication."""

from fractions import Fraction

import numpy as np
import pytest

from cp_fits import fit_many
from factrank.databases.generators.named import matmul, w_state
from factrank.tensors.core.decomposition import Decomposition, Factor
from factrank.tensors.core.zero_one import ZeroOneTensor
from factrank.tensors.cp.rational_rounding import rationalise, solve_third


def rational(database, rank, seed=0):
    tensor = ZeroOneTensor.of(database)
    fits = fit_many(tensor.dense().astype(np.float64), rank, np.random.default_rng(seed), seconds=30.0, starts=3)
    for fit in fits:
        found = rationalise(tensor, fit.factors, seconds=20.0) if fit.status == "converged" else None
        if found is not None:
            return tensor, found
    return tensor, None


def multiplied_out(decomposition, shape):
    """The sum of the terms with fractions, entry by entry."""
    total = np.full(shape, Fraction(0), dtype=object)
    for term, denominator in enumerate(decomposition.denominators.tolist()):
        vectors = []
        for factor, size in zip(decomposition.factors, shape, strict=True):
            vector = np.full(size, Fraction(0), dtype=object)
            for index, own, weight in zip(factor.index, factor.term, factor.weight, strict=True):
                vector[index] += Fraction(int(weight)) if own == term else 0
            vectors.append(vector)
        total += np.multiply.outer(np.multiply.outer(vectors[0], vectors[1]), vectors[2]) / denominator
    return total


@pytest.mark.parametrize(("database", "rank"), [(matmul(2), 7), (w_state(), 3), (matmul(1), 1)])
def test_rational_decompositions(database, rank):
    tensor, found = rational(database, rank)
    assert found.n_terms == rank
    assert found.equals(tensor)
    assert np.all(multiplied_out(found, tensor.shape) == tensor.dense())


def test_an_altered_number_is_rejected():
    tensor, found = rational(matmul(2), 7)
    for axis in range(3):
        factors = list(found.factors)
        weight = factors[axis].weight.copy()
        weight[0] += 1
        factors[axis] = Factor(factors[axis].index, factors[axis].term, weight)
        altered = Decomposition((factors[0], factors[1], factors[2]), found.denominators)
        assert not altered.equals(tensor)
        assert not np.all(multiplied_out(altered, tensor.shape) == tensor.dense())


def test_third_factor_is_solved_exactly():
    tensor = ZeroOneTensor(np.array([[0, 0, 0], [1, 1, 1]]), (2, 2, 2))
    a, b = np.array([[3, 0, 3], [0, 2, 0]]), np.array([[5, 0, 5], [0, 4, 0]])
    found = solve_third(tensor, a, b)
    assert found.n_terms == 2  # the third term repeats the first and gets no pivot
    assert found.equals(tensor)
    assert solve_third(tensor, a[:, :1], b[:, :1]) is None


def test_rounding_fails_on_what_is_not_a_decomposition():
    tensor = ZeroOneTensor.of(matmul(2))
    factors = tuple(np.random.default_rng(0).normal(size=(4, 6)) for _ in range(3))
    assert rationalise(tensor, factors, seconds=1.0) is None
