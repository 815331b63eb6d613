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
    return module.coverage


@pytest.mark.parametrize(
    ("draw", "n_units", "least"), [("normal", 5, 0.94), ("exponential", 5, 0.90), ("exponential", 10, 0.93)]
)
def test_intervals_cover(simulated, draw, n_units, least):
    """600 tries, so that the fraction may miss its bar by chance; the benchmark makes 20,000."""
    ours, percentile = simulated(draw, n_units, tries=600, n_resamples=1000)
    assert ours >= least - 3 * sqrt(least * (1 - least) / 600)
    assert percentile < least - 3 * sqrt(least * (1 - least) / 600) or n_units == 10
