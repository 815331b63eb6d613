"""Sparse certified ranks and factorisations against dense references."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from factrank.tensors.matrix import matrix_ranks, pieces
from factrank.tensors.matrix.factorisation import factorise
from factrank.tensors.matrix.matrix_ranks import block_ranks, matrix_rank_bounds, projected_rank, rational_rank
from factrank.tensors.matrix.modular import PRIME
from factrank.tensors.matrix.peeling import peel, triangular_rank
from strategies import dense_rank


@st.composite
def matrices(draw):
    rows, columns = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        inner = draw(st.integers(1, 5))
        return rng.integers(0, 2, (rows, inner)) @ rng.integers(-1, 2, (inner, columns))
    return (rng.random((rows, columns)) < draw(st.floats(0.0, 0.6))) * rng.integers(-2, 3, (rows, columns))


@given(matrices())
def test_rank_is_exact(matrix):
    assert matrix_rank_bounds(sp.csr_array(matrix)) == (dense_rank(matrix), dense_rank(matrix))


@given(matrices())
def test_rational_rank_agrees(matrix):
    assert rational_rank(matrix) == dense_rank(matrix)


@given(matrices())
def test_peeled_lines_and_core_add_up_to_the_rank(matrix):
    sparse = sp.csr_array(matrix)
    peeling = peel(sparse)
    rows, columns = np.nonzero(matrix)
    core = peeling.in_core(rows, columns)
    rest = np.zeros_like(matrix)
    rest[rows[core], columns[core]] = matrix[rows[core], columns[core]]
    assert peeling.n_lines + dense_rank(rest) == dense_rank(matrix)
    assert all(count != 1 for count in [*(rest != 0).sum(axis=0), *(rest != 0).sum(axis=1)])


@given(matrices())
def test_triangular_rank_is_a_lower_bound(matrix):
    assert triangular_rank(sp.csr_array(matrix)) <= dense_rank(matrix)


@given(matrices())
def test_factorisation_multiplies_out_with_as_many_terms_as_the_rank(matrix):
    factors = factorise(sp.csr_array(matrix))
    assert factors.n_terms == dense_rank(matrix)
    total = np.zeros(matrix.shape, dtype=object)
    for term in range(factors.n_terms):
        left, right = np.zeros(matrix.shape[0], dtype=object), np.zeros(matrix.shape[1], dtype=object)
        for vector, factor in ((left, factors.left), (right, factors.right)):
            vector[factor.index[factor.term == term]] = factor.weight[factor.term == term]
        total = total + np.outer(left, right) * Fraction(1, int(factors.denominators[term]))
    assert (total == matrix).all()


@given(st.lists(matrices(), min_size=1, max_size=5))
def test_blocks_are_ranked_one_by_one(blocks):
    stacked = sp.csr_array(sp.block_diag(blocks))
    block_of_row = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    ranks = block_ranks(stacked, block_of_row, len(blocks))
    assert ranks.lower.tolist() == ranks.upper.tolist() == [dense_rank(block) for block in blocks]


@given(matrices())
def test_large_pieces_still_give_a_valid_bracket(matrix):
    """With the limits for dense, small and rational work at zero, only peeling and counting are left."""
    sparse = sp.csr_array(matrix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix_ranks, "DENSE_CELLS", 0)
        patch.setattr(matrix_ranks, "RATIONAL_SIZE", 0)
        patch.setattr(pieces, "SMALL_SIDE", 0)
        lower, upper = matrix_rank_bounds(sparse)
        terms = factorise(sparse).n_terms
    assert lower <= dense_rank(matrix) <= upper == terms


@given(matrices())
def test_pieces_one_by_one_agree_with_pieces_all_at_once(matrix):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SMALL_SIDE", 0)
        one_by_one = matrix_rank_bounds(sp.csr_array(matrix))
    assert one_by_one == matrix_rank_bounds(sp.csr_array(matrix))


def test_small_pieces_have_minors_below_the_prime():
    """Hadamard: a minor of size s with entries +-1 is at most s^(s/2)."""
    assert pieces.SMALL_SIDE ** (pieces.SMALL_SIDE / 2) < PRIME


def test_a_matrix_of_dependent_rows_needs_the_rationals():
    """The cycle graph's incidence matrix has no singleton row or column and rank one less than its size."""
    size = 9
    cycle = np.zeros((size, size), dtype=np.int64)
    cycle[np.arange(size), np.arange(size)] = 1
    cycle[np.arange(size), (np.arange(size) + 1) % size] = -1
    assert peel(sp.csr_array(cycle)).n_lines == 0
    assert matrix_rank_bounds(sp.csr_array(cycle)) == (size - 1, size - 1)


def test_entries_that_vanish_modulo_the_prime_are_refused():
    with pytest.raises(ValueError, match="multiples"):
        matrix_rank_bounds(sp.csr_array(np.array([[PRIME, 1], [1, 1]])))


@given(matrices())
def test_projecting_the_longer_side_never_raises_the_rank(matrix):
    assert projected_rank(sp.csr_array(np.hstack([matrix, matrix, matrix]))) == dense_rank(matrix)


def test_thin_pieces_are_projected_and_not_guessed():
    """500 x 10,000 with no singleton line: too many cells for a dense rank, and exactly full by projection."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 10_000, (500, 60))
    matrix = sp.csr_array((np.ones(30_000, dtype=np.int64), (np.repeat(np.arange(500), 60), columns.ravel())))
    matrix.data[:] = 1
    wide = sp.csr_array(sp.hstack([matrix, matrix[:, ::-1]]))
    assert matrix_rank_bounds(wide) == (500, 500)


def test_limits_are_consistent():
    """What is ranked at once must also be within reach of the exact factorisation."""
    assert matrix_ranks.DENSE_CELLS >= pieces.SMALL_SIDE**2
    assert matrix_ranks.RATIONAL_SIZE >= pieces.SMALL_SIDE


def test_more_small_pieces_than_are_done_at_once(monkeypatch):
    monkeypatch.setattr(pieces, "PIECES_AT_ONCE", 3)
    block = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    deficient = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
    stacked = sp.csr_array(sp.block_diag([block, deficient] * 5))
    ranks = block_ranks(stacked, np.repeat(np.arange(10), 3), 10)
    assert ranks.lower.tolist() == ranks.upper.tolist() == [3, 2] * 5
