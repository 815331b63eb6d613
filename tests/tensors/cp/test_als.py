"""Alternating least squares: planted ranks, the residual, and how a fit ends."""

from itertools import pairwise

import numpy as np
import pytest

from factrank.databases.generators.named import w_state
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import ZeroOneTensor
from factrank.tensors.cp.als import improve_by_sweeps


def planted(shape, rank, seed):
    rng = np.random.default_rng(seed)
    return np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, rank)) for size in shape))


def als_cp(target, rank, seed, *, seconds=5.0, sweeps=1000):
    rng = np.random.default_rng(seed)
    start = tuple(rng.normal(size=(size, rank)) for size in target.shape)
    return improve_by_sweeps(target, start, seconds=seconds, sweeps=sweeps)


def model(fit):
    return np.einsum("ir,jr,kr->ijk", *fit.factors)


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_rank_is_recovered(seed):
    target = planted((9, 8, 7), 4, seed)
    fits = [als_cp(target, 4, s) for s in range(3)]
    best = min(fits, key=lambda fit: fit.residual)
    assert best.status == "converged"
    assert np.allclose(model(best), target, atol=1e-5)


def test_the_residual_is_that_of_the_model():
    tensor = ZeroOneTensor.of(uniform(9, 5, 6, 30, seed=0))
    fit = als_cp(tensor.dense(), 6, 0, sweeps=50)
    error = np.linalg.norm(model(fit) - tensor.dense()) / np.sqrt(len(tensor))
    assert fit.residual == pytest.approx(error, abs=1e-6)


def test_more_sweeps_never_raise_the_error():
    target = ZeroOneTensor.of(uniform(9, 5, 6, seed=1)).dense()
    residuals = [als_cp(target, 5, 0, sweeps=n).residual for n in (1, 2, 5, 20, 80)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(residuals))


def test_endings_are_named():
    target = ZeroOneTensor.of(uniform(9, 5, 6, seed=1)).dense()
    assert als_cp(target, 3, 0, seconds=0.0).status == "out of time"
    assert als_cp(target, 3, 0).status == "stalled"


def test_the_w_state_is_not_converged_at_its_border_rank():
    """Rank 3, border rank 2: the residual falls for ever and never arrives."""
    target = ZeroOneTensor.of(w_state()).dense()
    fit = als_cp(target, 2, 0)
    assert fit.status != "converged"
    assert als_cp(target, 3, 1, sweeps=5000).residual < 1e-3
