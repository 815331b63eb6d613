"""The limit of linear memories: Gardner's formula at finite sizes."""

from math import log, pi, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from factrank.errors import InputError
from factrank.families.memory.memory_limit import asymptotic_memory_limit, expected_maximum, memory_limit


def test_the_largest_of_normal_numbers():
    rng = np.random.default_rng(0)
    assert expected_maximum(3.0) == pytest.approx(3 / (2 * sqrt(pi)), abs=1e-9)
    assert expected_maximum(1000.0) == pytest.approx(rng.standard_normal((4000, 1000)).max(axis=1).mean(), abs=0.02)
    with pytest.raises(InputError, match="at least 1"):
        expected_maximum(0.5)


@pytest.mark.parametrize("d_model", [1, 16, 512])
def test_limits_solve_their_equations(d_model):
    n, half = memory_limit(d_model), asymptotic_memory_limit(d_model)
    k = expected_maximum(n)
    assert n * ((1 + k * k) * norm.cdf(k) + k * norm.pdf(k)) == pytest.approx(d_model**2, rel=1e-6)
    assert half * log(half) == pytest.approx(d_model**2 / 2)


def test_the_limit_of_the_limit_is_one_half():
    ratios = [memory_limit(d) * log(memory_limit(d)) / d**2 for d in (16, 256, 4096, 10**6)]
    assert sorted(ratios, reverse=True) == ratios
    assert 0.5 < ratios[-1] < 0.55
    with pytest.raises(InputError, match="d_model"):
        memory_limit(0)
