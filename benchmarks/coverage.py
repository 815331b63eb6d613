"""How often the 95 % intervals of claims contain the true value, for few tables and for skewed numbers.

    python benchmarks/coverage.py [--tries 20000]

The baseline in the same run is the percentile bootstrap. A slope is that of numbers that rise by 1 per unit of x, with
an error of each table's own.

    python benchmarks/coverage.py --correlations

Correlations of normal columns, over n kinds with one table each, plain and with a third column held constant. The
baseline is the same bootstrap without Fisher's z; "outside" is the fraction of its intervals that pass -1 or 1.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np

from factrank.experiments.statistics.intervals import ResampledEstimate
from factrank.experiments.statistics.limits import QuantityLimits
from factrank.experiments.statistics.quantities import ResampledRows, over_draws

DRAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
}
PLACES = np.arange(4.0)


@cache
def weights(n_units: int, n_resamples: int) -> np.ndarray:
    drawn = np.random.default_rng(0).multinomial(n_units, np.full(n_units, 1 / n_units), size=n_resamples)
    return np.vstack([np.ones(n_units), drawn]).astype(np.float64)


def sample(kind: str, errors: np.ndarray) -> tuple[ResampledRows, float]:
    """Rows of tables with these errors, and the true value of the quantity."""
    n_units = len(errors)
    units = tuple(f"database seed {unit}" for unit in range(n_units))
    if kind == "mean":
        nothing = np.zeros(n_units, dtype=np.int64)
        return ResampledRows(errors, np.zeros(n_units), nothing, np.arange(n_units), units), 0.0
    unit = np.repeat(np.arange(n_units), len(PLACES))
    x = np.tile(PLACES, n_units)
    return ResampledRows((1 + errors[unit]) * x, x, np.zeros(len(x), dtype=np.int64), unit, units), 1.0


def coverage(draw: str, n_units: int, kind: str = "mean", tries: int = 20_000, n_resamples: int = 2_000) -> list[float]:
    """Fractions of tries in which our interval, and the percentile interval, contain the true value."""
    rng = np.random.default_rng([n_units, len(draw), len(kind)])
    own = weights(n_units, n_resamples)
    hits = np.zeros(2)
    for _ in range(tries):
        rows, truth = sample(kind, DRAWS[draw](rng, n_units))
        draws = over_draws(kind, rows, own)
        low, high = ResampledEstimate(draws.values, draws.errors(own), n_units).interval()
        plain_low, plain_high = np.quantile(draws.values[1:], [0.025, 0.975])
        hits += [low <= truth <= high, plain_low <= truth <= plain_high]
    return (hits / tries).tolist()


def correlated(rng: np.random.Generator, n_units: int, rho: float, partial: bool) -> ResampledRows:
    """Rows of kinds with the (partial) correlation rho; a common cause adds to both columns if it is held constant."""
    x, own, cause = rng.normal(size=(3, n_units))
    y = rho * x + np.sqrt(1 - rho**2) * own
    units = tuple(f"kind {unit}" for unit in range(n_units))
    nothing = np.zeros(n_units, dtype=np.int64)
    given = (cause,) if partial else ()
    return ResampledRows(y + partial * cause, x + partial * cause, nothing, np.arange(n_units), units, given)


def correlation_coverage(
    rho: float, n_units: int, partial: bool = False, tries: int = 20_000, n_resamples: int = 2_000
) -> list[float]:
    """Fractions of tries whose interval contains rho, with Fisher's z and without; and that pass -1 or 1, likewise."""
    rng = np.random.default_rng([n_units, round(100 * abs(rho)), int(partial)])
    own = weights(n_units, n_resamples)
    found = np.zeros(4)
    for _ in range(tries):
        draws = over_draws("correlation", correlated(rng, n_units, rho, partial), own)
        estimates = [
            ResampledEstimate(draws.values, draws.errors(own), n_units, "kind", limits)
            for limits in (QuantityLimits(-1.0, 1.0), None)
        ]
        ends = [estimate.interval() for estimate in estimates]
        found += [*(low <= rho <= high for low, high in ends), *(low < -1 or high > 1 for low, high in ends)]
    return (found / tries).tolist()


def print_correlations(tries: int) -> None:
    print(f"{'quantity':14}{'rho':>6}{'kinds':>7}{'ours':>9}{'without z':>11}{'outside':>9}{'without z':>11}")
    for partial in (False, True):
        for rho in (0.0, 0.8):
            for n_units in (5, 12, 32):
                numbers = correlation_coverage(rho, n_units, partial, tries)
                name = "partial" if partial else "correlation"
                ours, plain, *outside = numbers
                print(
                    f"{name:14}{rho:6}{n_units:7}{ours:9.3f}{plain:11.3f}{outside[0]:9.3f}{outside[1]:11.3f}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--correlations", action="store_true", help="correlations instead of means and slopes")
    asked = parser.parse_args()
    tries = asked.tries
    if asked.correlations:
        print_correlations(tries)
        return
    print(f"{'quantity':10}{'numbers':14}{'tables':>7}{'ours':>9}{'percentile':>12}")
    for kind in ("mean", "slope"):
        for draw in DRAWS:
            for n_units in (3, 5, 10, 20):
                ours, plain = coverage(draw, n_units, kind, tries)
                print(f"{kind:10}{draw:14}{n_units:7}{ours:9.3f}{plain:12.3f}", flush=True)


if __name__ == "__main__":
    main()
