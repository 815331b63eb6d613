"""Intervals contain the true value as often as they say, from five tables on."""

import importlib.util
from math import sqrt
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[3] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def simulated():
    spec = importlib.util.spec_from_file_location("simulated_coverage", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("draw", "n_units", "least"), [("normal", 5, 0.94), ("exponential", 5, 0.90), ("exponential", 10, 0.93)]
)
def test_intervals_cover(simulated, draw, n_units, least):
    """600 tries, so that the fraction may miss its bar by chance; the benchmark makes 20,000."""
    ours, percentile = simulated.coverage(draw, n_units, tries=600, n_resamples=1000)
    assert ours >= least - 3 * sqrt(least * (1 - least) / 600)
    assert percentile < least - 3 * sqrt(least * (1 - least) / 600) or n_units == 10


@pytest.mark.parametrize("partial", [False, True])
def test_intervals_of_correlations_cover_and_stay_within_their_limits(simulated, partial):
    """12 kinds, the fewest of any published claim; without Fisher's z most intervals pass 1."""
    ours, _, outside, outside_before = simulated.correlation_coverage(0.5, 12, partial, tries=300, n_resamples=500)
    assert ours >= 0.94 - 3 * sqrt(0.94 * 0.06 / 300)
    assert outside == 0
    assert outside_before > 0.25
