"""Ranks by many primes against python-flint, and where one prime is not enough."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.tensors.matrix import many_primes
from factrank.tensors.matrix.many_primes import minor_bits, prime_work, primes, rank_by_primes
from factrank.tensors.matrix.matrix_ranks import affordable_rank, rational_rank
from factrank.tensors.matrix.modular import PRIME


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 6), st.integers(0, 2**32 - 1), st.sampled_from([1, 1000]))
def test_ranks_are_those_of_flint(rows, columns, inner, seed, largest):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-largest, largest + 1, (rows, inner)) @ rng.integers(0, 2, (inner, columns))
    assert rank_by_primes(matrix) == rational_rank(matrix)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_no_minor_exceeds_its_bound(seed, size):
    matrix = np.random.default_rng(seed).integers(-3, 4, (7, 6))
    rng = np.random.default_rng(seed)
    rows, columns = rng.choice(7, size, replace=False), rng.choice(6, size, replace=False)
    minor = abs(np.linalg.det(matrix[np.ix_(rows, columns)].astype(float)))
    assert minor <= 2 ** minor_bits(matrix, size) * (1 + 1e-9)


def test_a_prime_that_divides_a_minor_does_not_mislead():
    matrix = np.diag([1, PRIME, primes()[1] * 3])
    assert rank_by_primes(matrix) == rational_rank(matrix) == 3


def test_primes_are_the_largest_and_have_no_divisors():
    found = primes()
    assert found[0] == PRIME
    assert sorted(found, reverse=True) == list(found)
    everything = {n for n in range(found[20], PRIME + 1) if all(n % d for d in range(2, 2897))}
    assert set(found[:21]) == everything


def test_without_flint_small_matrices_are_exact_and_large_ones_are_left(monkeypatch):
    matrix = np.random.default_rng(0).integers(0, 2, (20, 4)) @ np.random.default_rng(1).integers(0, 2, (4, 30))
    expected = rational_rank(matrix)
    monkeypatch.setitem(sys.modules, "flint", None)
    assert rational_rank(matrix) == affordable_rank(matrix) == expected
    monkeypatch.setattr("factrank.tensors.matrix.matrix_ranks.PRIME_WORK", prime_work(matrix) / 2)
    assert affordable_rank(matrix) is None


def test_too_few_primes_are_said(monkeypatch):
    monkeypatch.setattr(many_primes, "primes", lambda: (PRIME,))
    with pytest.raises(ArithmeticError, match="primes are used up"):
        rank_by_primes(np.full((3, 3), 10**6))
