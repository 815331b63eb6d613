"""Alternating least squares: planted ranks, sparse against dense, and honest endings."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.databases.generators.named import w_state
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import ZeroOneTensor, others
from factrank.tensors.cp.als import DenseEntries, SparseEntries, als_cp
from strategies import tensors


def planted(shape, rank, seed):
    rng = np.random.default_rng(seed)
    return np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, rank)) for size in shape))


def model(fit):
    return np.einsum("ir,jr,kr->ijk", *fit.factors)


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_rank_is_recovered(seed):
    target = planted((9, 8, 7), 4, seed)
    fits = [als_cp(DenseEntries(target), 4, np.random.default_rng(s), seconds=5.0) for s in range(3)]
    best = min(fits, key=lambda fit: fit.residual)
    assert best.status == "converged"
    assert np.allclose(model(best), target, atol=1e-5)


@given(tensors(empty=False), st.integers(1, 4), st.integers(0, 999))
def test_sparse_and_dense_products_agree(tensor, rank, seed):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.normal(size=(size, rank)) for size in tensor.shape)
    sparse, dense = SparseEntries.of(tensor), DenseEntries(tensor.dense())
    assert sparse.norm() == pytest.approx(dense.norm())
    for axis, subscripts in enumerate(("ijk,jr,kr->ir", "ijk,ir,kr->jr", "ijk,ir,jr->kr")):
        expected = np.einsum(subscripts, tensor.dense(), *(factors[other] for other in others(axis)))
        assert np.allclose(sparse.times(factors, axis), expected)
        assert np.allclose(dense.times(factors, axis), expected)


def test_sparse_and_dense_runs_agree():
    tensor = ZeroOneTensor.of(uniform(9, 5, 6, 30, seed=0))
    sparse = als_cp(SparseEntries.of(tensor), 6, np.random.default_rng(0), seconds=5.0, sweeps=50)
    dense = als_cp(DenseEntries(tensor.dense()), 6, np.random.default_rng(0), seconds=5.0, sweeps=50)
    assert sparse.residual == pytest.approx(dense.residual, abs=1e-6)
    error = np.linalg.norm(model(sparse) - tensor.dense()) / np.sqrt(len(tensor))
    assert sparse.residual == pytest.approx(error, abs=1e-6)


def test_more_sweeps_never_raise_the_error():
    target = DenseEntries(ZeroOneTensor.of(uniform(9, 5, 6, seed=1)).dense())
    residuals = [als_cp(target, 5, np.random.default_rng(0), seconds=5.0, sweeps=n).residual for n in (1, 2, 5, 20, 80)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(residuals))


def test_endings_are_named():
    target = DenseEntries(ZeroOneTensor.of(uniform(9, 5, 6, seed=1)).dense())
    assert als_cp(target, 3, np.random.default_rng(0), seconds=0.0).status == "out of time"
    assert als_cp(target, 3, np.random.default_rng(0), seconds=5.0).status == "stalled"


def test_the_w_state_is_not_converged_at_its_border_rank():
    """Rank 3, border rank 2: the residual falls for ever and never arrives."""
    target = DenseEntries(ZeroOneTensor.of(w_state()).dense())
    fit = als_cp(target, 2, np.random.default_rng(0), seconds=5.0)
    assert fit.status != "converged"
    assert als_cp(target, 3, np.random.default_rng(1), seconds=5.0, sweeps=5000).residual < 1e-3
