"""The modular rank against python-flint and against floating point."""

import numpy as np
import pytest
from flint import nmod_mat
from hypothesis import given
from hypothesis import strategies as st

from factrank.tensors.matrix.modular import PANEL, PRIME, rank_mod_prime, ranks_mod_prime


def flint_rank(matrix):
    rows, columns = matrix.shape
    return nmod_mat(rows, columns, [int(x) % PRIME for x in matrix.ravel()], PRIME).rank()


@given(st.integers(1, 3 * PANEL), st.integers(1, 3 * PANEL), st.integers(1, PANEL + 5), st.integers(0, 2**32 - 1))
def test_products_have_the_rank_that_flint_finds(rows, columns, inner, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-9, 10, (rows, inner)) @ rng.integers(-9, 10, (inner, columns))
    assert rank_mod_prime(matrix) == flint_rank(matrix)


@given(st.floats(0.0, 0.2), st.integers(0, 2**32 - 1))
def test_sparse_matrices_have_the_rank_that_flint_finds(density, seed):
    rng = np.random.default_rng(seed)
    matrix = (rng.random((150, 90)) < density) * rng.integers(-2, 3, (150, 90))
    assert rank_mod_prime(matrix) == flint_rank(matrix)


def test_large_entries_are_reduced_exactly():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 2**40, (200, 200))
    matrix[7] = matrix[3] + 5 * matrix[4]
    assert rank_mod_prime(matrix) == flint_rank(matrix) == 199


def test_a_multiple_of_the_prime_is_zero():
    assert rank_mod_prime(np.array([[PRIME, 0], [0, 1]])) == 1


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_degenerate_shapes(shape):
    assert rank_mod_prime(np.zeros(shape, dtype=np.int64)) == 0


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_many_small_matrices_side_by_side(count, rows, columns, seed):
    rng = np.random.default_rng(seed)
    stack = rng.integers(-1, 2, (count, rows, columns)) * (rng.random((count, rows, columns)) < 0.5)
    stack[0] = rng.integers(0, 2**22, (rows, columns))
    assert ranks_mod_prime(stack).tolist() == [rank_mod_prime(matrix) for matrix in stack]
