"""Ranks by numerical CP: planted ranks are found again, residuals are what they are said to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.generators.registry import generate
from factrank.errors import InputError
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.cp import planted
from factrank.tensors.cp.cp_equations import multiply
from factrank.tensors.cp.greedy_terms import greedy_terms, needed, slice_terms, spectral_bound
from factrank.tensors.cp.planted import approximate_rank, planted_rank, weighted


def random_target(seed, shape=(5, 4, 6), rank=3):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.normal(size=(size, rank)) for size in shape)
    return multiply((a, b, c))


@pytest.mark.parametrize(("shape", "rank"), [((30, 8), 12), ((20, 10), 80), ((100, 20), 50)])
def test_planted_boxes_are_found_again(shape, rank):
    database = generate("overlapping-boxes", n_keys=shape[0], n_queries=shape[1], rank=rank, seed=1)
    found, residual = planted_rank(database, 1e-3)
    assert found == rank
    assert residual < 1e-6
    greedy = greedy_terms(weighted(Core.of(ZeroOneTensor.of(database))), 1e-3, 2 * rank)
    assert greedy[0].shape[1] == rank  # also without the slices, of which each value's is a term


def test_a_planted_rank_that_no_slice_shows():
    """Matrix multiplication 2 x 2: every slice has rank 2 and so eight terms, but seven are enough, and six are not."""
    ones = [(2 * i + j, 2 * j + k, 2 * k + i) for i in range(2) for j in range(2) for k in range(2)]
    found, residual = approximate_rank(ZeroOneTensor(np.array(ones), (4, 4, 4)), 1e-3)
    assert found == 7
    assert residual <= 1e-3


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_merged_slices_weigh_as_much_as_the_slices_they_stand_for(seed):
    rng = np.random.default_rng(seed)
    small = rng.random((3, 2, 3)) < 0.5
    small[0, 0, 0] = True
    whole = small.repeat(rng.integers(1, 4, 3), 0).repeat(rng.integers(1, 4, 2), 1)
    target = weighted(Core.of(ZeroOneTensor(np.argwhere(whole), whole.shape)))
    for axis in range(3):
        spectra = [
            np.linalg.svd(np.moveaxis(t.astype(float), axis, 0).reshape(t.shape[axis], -1), compute_uv=False)
            for t in (whole, target)
        ]
        longest = max(map(len, spectra))
        first, second = (np.pad(spectrum, (0, longest - len(spectrum))) for spectrum in spectra)
        np.testing.assert_allclose(first, second, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2]), st.floats(0.001, 0.9))
def test_slice_terms_add_up_and_leave_what_they_say(seed, axis, tolerance):
    target = random_target(seed)
    terms = slice_terms(target, axis)
    np.testing.assert_allclose(multiply(terms), target, atol=1e-9)
    count, norm = needed(np.linalg.norm(terms[axis], axis=0), tolerance), np.linalg.norm(target)
    left = [np.linalg.norm(multiply(tuple(f[:, :n] for f in terms)) - target) / norm for n in (count, count - 1)]
    assert left[0] <= tolerance + 1e-6 < left[1] + 2e-6


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_no_decomposition_is_shorter_than_the_spectral_bound(seed, rank):
    target = random_target(seed, rank=rank)
    assert spectral_bound(target, 1e-6) == rank
    noisy = target + 1e-3 * np.linalg.norm(target) / target.size * np.random.default_rng(seed).normal(size=target.shape)
    assert spectral_bound(noisy, 0.01) <= rank


def test_numbers_that_are_needed():
    assert [needed(np.array([3.0, 2.0, 1.0]), t) for t in (0.99, 0.5, 0.2, 1e-6)] == [1, 2, 3, 3]
    assert needed(np.zeros(3), 0.1) == 0


def test_a_looser_tolerance_needs_no_more_terms():
    database = generate("uniform", n_keys=5, n_queries=3, n_values=4, seed=0)
    ranks = [planted_rank(database, tolerance)[0] for tolerance in (0.5, 0.1, 1e-3)]
    assert ranks == sorted(ranks)


def test_alternating_least_squares_finds_ranks_between_the_bounds(monkeypatch):
    monkeypatch.setattr(planted, "LEAST_SQUARES_UNKNOWNS", 0)
    ones = np.argwhere(np.array([[[1, 1], [1, 1]], [[1, 0], [0, 1]], [[0, 1], [1, 1]]]))
    rank, residual = approximate_rank(ZeroOneTensor(ones, (3, 2, 2)), 1e-3)
    assert rank == 3
    assert residual <= 1e-3


def test_nothing_mistakes_and_giving_up(monkeypatch):
    assert planted_rank(Database.from_facts([]), 0.1) == (0.0, 0.0)
    database = generate("uniform", n_keys=4, n_queries=3, n_values=3, seed=0)
    for tolerance in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            planted_rank(database, tolerance)
    monkeypatch.setattr(planted, "MOST_CELLS", 1)
    assert all(np.isnan(planted_rank(database, 0.123)))
