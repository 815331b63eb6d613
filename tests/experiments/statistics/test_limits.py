"""Fisher's z: intervals of correlations stay within -1 and 1, and are what the transformed draws give."""

from math import atanh, inf, tanh

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.intervals import ResampledEstimate
from factrank.experiments.statistics.limits import QuantityLimits
from factrank.experiments.statistics.verdicts import evaluate

N_KINDS = 12


def planted(noise, key=0):
    """Recall falls with the rank, one row per kind, up to some noise."""
    rng = np.random.default_rng(key)
    rank = np.arange(float(N_KINDS))
    return pa.table(
        {
            "data.seed": [0] * N_KINDS,
            "kind": list(range(N_KINDS)),
            "rank": rank,
            "bits": rng.normal(size=N_KINDS),
            "one": [0.95] * N_KINDS,
            "recall": -rank + noise * rng.normal(size=N_KINDS),
        }
    )


def judged(quantity, table, published=None, tolerance=0.0):
    return evaluate(Claim("r", "R.", quantity, published, tolerance, kinds="kind"), table)


@pytest.mark.parametrize("noise", [1e-3, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("given", [(), ("bits",)])
@pytest.mark.parametrize("kind", ["correlation", "rank correlation"])
def test_intervals_stay_within_the_limits(kind, given, noise):
    verdict = judged(Quantity(kind, "recall", "rank", given=given), planted(noise))
    low, high = verdict.interval
    assert -1 <= low <= verdict.value <= high <= 1
    assert verdict.detectable <= 1


def test_a_perfect_correlation_has_its_own_interval():
    verdict = judged(Quantity("rank correlation", "recall", "rank"), planted(0.0), "less")
    assert verdict.value == pytest.approx(-1)
    assert verdict.interval == pytest.approx((-1, -1))
    assert verdict.status == "reproduced"


def test_the_interval_is_that_of_z():
    """Resamples of which some have no spread leave Student's t, whose interval can be written down."""
    values, errors = np.array([0.6, 0.5, 0.7]), np.array([0.1, 0.0, 0.0])
    found = ResampledEstimate(values, errors, 5, limits=QuantityLimits(-1.0, 1.0))
    reach = 2.7764451051977987 * 0.1 / (1 - 0.6**2)
    assert found.interval() == pytest.approx((tanh(atanh(0.6) - reach), tanh(atanh(0.6) + reach)))
    assert found.p_above(found.interval()[0]) == pytest.approx(0.025)
    assert found.p_below(found.interval()[1]) == pytest.approx(0.025)
    assert found.p_above(-1.5) == 0
    assert found.p_above(1.5) == 1


def test_few_units_are_not_transformed_but_cut_off():
    found = ResampledEstimate(np.array([0.6, 0.5]), np.array([0.3, 0.3]), 3, limits=QuantityLimits(-1.0, 1.0))
    plain = ResampledEstimate(found.values, found.errors, 3)
    assert found.interval() == (plain.interval()[0], 1.0)
    assert found.p_above(0.0) == plain.p_above(0.0)


def test_a_constant_moves_the_limits():
    """A correlation minus a constant has the interval of the correlation, moved."""
    table = planted(3.0)
    plain = judged(Quantity("correlation", "recall", "rank"), table)
    moved = judged(Quantity("correlation", "recall", "rank", minus=Quantity("mean", "one")), table)
    assert moved.interval == pytest.approx([end - 0.95 for end in plain.interval], abs=1e-9)


def test_differences_of_correlations_stay_within_twice_the_limits():
    other = Quantity("correlation", "recall", "2 * rank")
    verdict = judged(Quantity("correlation", "recall", "bits", minus=other), planted(3.0))
    assert -2 <= verdict.interval[0] < verdict.interval[1] <= 2


def test_means_have_no_limits():
    assert judged(Quantity("mean", "recall"), planted(3.0)).interval[0] < -1


def test_there_and_back():
    limits = QuantityLimits(-1.95, 0.05)
    for number in (-1.9, -0.5, 0.0):
        assert limits.back(limits.forth(number)) == pytest.approx(number)
    assert limits.forth(0.05) == inf
    assert limits.back(-inf) == -1.95
