"""Means, slopes and other quantities of the rows of a table, on all tables of facts and on many resamples of them.

The rows of one table of facts form a unit, summarised per group by the sums of 1, x, y, x^2, xy and y^2. A resample
draws units with replacement, so its sums are a weighted sum over units, and one matrix product computes thousands of
resamples.

A quantity theta(w) that is smooth in the weights w of the n units has the influences I_u = n dtheta/dw_u and the
standard error sqrt(sum_u w_u I_u^2 / (n (n - 1))) (the infinitesimal jackknife): s / sqrt(n) if theta is a mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from factrank.experiments.statistics.claims import CORRELATIONS, OF_SLACK
from factrank.experiments.statistics.expressions import Value, missing_columns, numbers, values
from factrank.experiments.statistics.limits import QuantityLimits
from factrank.experiments.statistics.partial_correlations import partial_correlation
from factrank.experiments.store import plural

CONSTANT = 1e-12
DATABASE_SEED, FINGERPRINT, SEED = "data.seed", "data.fingerprint", "seed"


@dataclass(frozen=True, eq=False)
class ResampledRows:
    """Rows ready for resampling: two columns, the group and the unit of each row, the names of the units, controls."""

    y: Float[np.ndarray, " rows"]
    x: Float[np.ndarray, " rows"]
    group: Int[np.ndarray, " rows"]
    unit: Int[np.ndarray, " rows"]
    units: tuple[str, ...]
    given: tuple[Float[np.ndarray, " rows"], ...] = ()

    @property
    def lacking(self) -> Bool[np.ndarray, " rows"]:
        """Rows without a finite value."""
        return np.asarray(~np.isfinite(np.stack([self.y, self.x, *self.given])).all(axis=0))

    @property
    def unit_name(self) -> str:
        """What a unit is: a table, a seed or a kind."""
        return {"database": "table"}.get(first := self.units[0].split()[0], first)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1

    def unequal(self, row_name: str = "trial") -> str:
        """Describe the first seed that has fewer rows than others in some group; empty if all have equally many."""
        counts = np.zeros((len(self.units), self.n_groups), dtype=int)
        np.add.at(counts, (self.unit, self.group), 1)
        most = counts.max(axis=0)
        for unit, own in zip(self.units, counts, strict=True):
            if (own < most).any():
                return f"{unit} has {own.sum():,} of {most.sum():,} {plural(row_name)}"
        return ""


def sample_of(
    rows: pa.Table,
    column: str,
    against: str,
    within: tuple[str, ...],
    kinds: str = "",
    given: tuple[str, ...] = (),
) -> ResampledRows:
    """Prepare rows for resampling.

    Units are tables of facts, identified by fingerprint or by the seed that drew them, with all trainings on them; the
    training seeds if there is only one table; or the values of `kinds`, a column or arithmetic on columns.
    """
    names = _units(rows, kinds)
    units, unit = np.unique(np.array(names, dtype=str), return_inverse=True)
    keys = list(zip(*(values(rows, name) for name in within), strict=True)) if within else [()] * rows.num_rows
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    return ResampledRows(
        y=numbers(rows, column),
        x=numbers(rows, against) if against else np.zeros(rows.num_rows),
        group=np.array([number[key] for key in keys], dtype=np.int64),
        unit=unit.astype(np.int64),
        units=tuple(units.tolist()),
        given=tuple(numbers(rows, name) for name in given),
    )


def _units(rows: pa.Table, kinds: str) -> list[str]:
    """Name the unit of each row: its kind, its table of facts, or its training seed if there is only one table."""

    def column(name: str) -> list[Value]:
        return [None] * rows.num_rows if missing_columns(rows, name) else values(rows, name)

    if kinds:
        return [f"kind {kind}" for kind in column(kinds)]
    cells = list(zip(column(FINGERPRINT), column(DATABASE_SEED), column(SEED), strict=True))
    if len({cell[:2] for cell in cells}) == 1:
        return [f"seed {seed}" for *_, seed in cells]
    return [
        f"table {given[:12]}"
        if isinstance(given, str)
        else (f"database seed {drawn}" if drawn is not None else f"seed {seed}")
        for given, drawn, seed in cells
    ]


@dataclass(frozen=True, eq=False)
class Draws:
    """A quantity on every draw of units, and the influence of each unit; None if the quantity is not smooth."""

    values: Float[np.ndarray, " draws"]
    influences: Float[np.ndarray, "draws units"] | None

    def minus(self, other: Draws) -> Draws:
        """Subtract a quantity of the same draws."""
        smooth = self.influences is not None and other.influences is not None
        return Draws(self.values - other.values, self.influences - other.influences if smooth else None)  # type: ignore[operator]

    def errors(self, weights: Float[np.ndarray, "draws units"]) -> Float[np.ndarray, " draws"] | None:
        """Return the standard error on every draw, or None."""
        if self.influences is None:
            return None
        n_units = weights.shape[1]
        return np.asarray(np.sqrt((weights * self.influences**2).sum(axis=1) / (n_units * max(n_units - 1, 1))))


def limits_of(kind: str, draws: Draws) -> QuantityLimits | None:
    """Return the limits of a quantity: -1 and 1 for correlations, its value if it is constant; otherwise None."""
    if kind in CORRELATIONS:
        return QuantityLimits(-1.0, 1.0)
    first = float(draws.values[0])
    constant = np.abs(draws.values - first).max() <= CONSTANT * max(abs(first), 1.0)
    return QuantityLimits(first, first) if constant else None


def over_draws(
    kind: str, sample: ResampledRows, weights: Float[np.ndarray, "draws units"], slack: float = 0.0
) -> Draws:
    """Return a quantity on each draw, averaged over groups; NaN if it is undefined."""
    if kind in ("best", *OF_SLACK):
        groups = [_means_by_place(sample, group, weights) for group in range(sample.n_groups)]
        by_group = [_best(*group) if kind == "best" else _least(kind, *group, slack) for group in groups]
        return Draws(np.asarray(np.mean(by_group, axis=0)), None)
    if kind in ("first", "greatest"):
        return _mean_of_units(_first(sample) if kind == "first" else _greatest(sample), weights)
    if kind == "fraction":
        return _fraction(sample, weights)
    return _partial(kind, sample, weights) if sample.given else _from_moments(kind, sample, weights)


def _from_moments(kind: str, sample: ResampledRows, weights: Float[np.ndarray, "draws units"]) -> Draws:
    """Compute means, slopes and correlations, and their influences, from the sums of 1, x, y, x^2, xy, y^2."""
    x, y = _centred(sample, ranks=kind == "rank correlation")
    sums = np.zeros((len(sample.units), 6, sample.n_groups))
    for at, term in enumerate((np.ones_like(x), x, y, x * x, x * y, y * y)):
        np.add.at(sums[:, at], (sample.unit, sample.group), term)
    n, sum_x, sum_y, sum_xx, sum_xy, sum_yy = np.moveaxis(np.tensordot(weights, sums, axes=1), 1, 0)
    zero, one = np.zeros_like(n), np.ones_like(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_x, mean_y = sum_x / n, sum_y / n
        if kind == "mean":
            offsets = np.array([sample.y[sample.group == group].mean() for group in range(sample.n_groups)])
            slopes = np.stack([-mean_y, zero, one, zero, zero, zero], axis=1) / n[:, None]
            return Draws((mean_y + offsets).mean(axis=1), _influences(slopes, sums))
        # The derivatives of the three central moments with respect to the six sums.
        of_shared = np.stack([mean_x * mean_y, -mean_y, -mean_x, zero, one, zero], axis=1)
        of_spread_x = np.stack([mean_x**2, -2 * mean_x, zero, one, zero, zero], axis=1)
        of_spread_y = np.stack([mean_y**2, zero, -2 * mean_y, zero, zero, one], axis=1)
        spread_x, spread_y = sum_xx - sum_x * mean_x, sum_yy - sum_y * mean_y
        shared = sum_xy - sum_x * mean_y
        spread_x = np.where(_nothing(spread_x, sum_xx), np.nan, spread_x)
        if kind == "slope":
            slope = shared / spread_x
            slopes = (of_shared - slope[:, None] * of_spread_x) / spread_x[:, None]
            return Draws(slope.mean(axis=1), _influences(slopes, sums))
        spread_y = np.where(_nothing(spread_y, sum_yy), np.nan, spread_y)
        scale = np.sqrt(spread_x * spread_y)
        found = shared / scale
        relative = of_spread_x / spread_x[:, None] + of_spread_y / spread_y[:, None]
        slopes = of_shared / scale[:, None] - found[:, None] * relative / 2
        return Draws(found.mean(axis=1), _influences(slopes, sums))


def _partial(kind: str, sample: ResampledRows, weights: Float[np.ndarray, "draws units"]) -> Draws:
    """Compute correlations of x and y with the controls held constant in each group, averaged over groups."""
    found = np.zeros(len(weights))
    influences = np.zeros(weights.shape)
    for group in range(sample.n_groups):
        own = sample.group == group
        columns = [sample.x[own], sample.y[own], *(one[own] for one in sample.given)]
        ranked = [_ranks(one) for one in columns] if kind == "rank correlation" else columns
        x, y, *controls = [one - one.mean() for one in ranked]
        rows = np.stack([x, y, np.ones_like(x), *controls], axis=1)
        moments = np.zeros((len(sample.units), rows.shape[1], rows.shape[1]))
        np.add.at(moments, sample.unit[own], rows[:, :, None] * rows[:, None, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            values_, derivatives = partial_correlation(moments, weights)
        found += values_ / sample.n_groups
        influences += derivatives * (len(sample.units) / sample.n_groups)
    return Draws(found, influences)


def _influences(
    derivatives: Float[np.ndarray, "draws sums groups"], sums: Float[np.ndarray, "units sums groups"]
) -> Float[np.ndarray, "draws units"]:
    """Return n times the derivative by the weight of each unit, of the average over groups."""
    n_units, _, n_groups = sums.shape
    products = derivatives.reshape(len(derivatives), -1) @ sums.reshape(n_units, -1).T
    return np.asarray(products * (n_units / n_groups))


def _nothing(spread: Float[np.ndarray, "*n"], squares: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
    """Check whether a column is constant, up to rounding."""
    return spread <= 1e-12 * squares


def _centred(sample: ResampledRows, ranks: bool) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Subtract the mean of each group from both columns, or from their ranks, so the sums do not lose digits."""
    x, y = np.empty_like(sample.x), np.empty_like(sample.y)
    for group in range(sample.n_groups):
        own = sample.group == group
        for target, column in ((x, sample.x[own]), (y, sample.y[own])):
            numbers_ = _ranks(column) if ranks else column
            target[own] = numbers_ - numbers_.mean()
    return x, y


def _ranks(column: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Rank the numbers, averaging over ties (scipy.stats takes long to import)."""
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _means_by_place(
    sample: ResampledRows, group: int, weights: Float[np.ndarray, "resamples units"]
) -> tuple[Float[np.ndarray, " places"], Float[np.ndarray, "resamples places"]]:
    """Compute the mean of y at each value of x in a group, ascending; NaN if a resample has no row there."""
    own = sample.group == group
    places, place = np.unique(sample.x[own], return_inverse=True)
    sums = np.zeros((2, len(sample.units), len(places)))
    for total, term in zip(sums, (np.ones(own.sum()), sample.y[own]), strict=True):
        np.add.at(total, (sample.unit[own], place), term)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (weights @ sums[1]) / (weights @ sums[0])
    return places, means


def _best(
    places: Float[np.ndarray, " places"], means: Float[np.ndarray, "resamples places"]
) -> Float[np.ndarray, " resamples"]:
    """Find the x with the largest mean of y, averaged over ties; NaN if all means are equal."""
    greatest = np.nanmax(means, axis=1)
    top = means >= greatest[:, None] - 1e-12
    middle = (top * places).sum(axis=1) / top.sum(axis=1)
    return np.where(np.nanmin(means, axis=1) >= greatest - 1e-12, np.nan, middle)


def _least(
    kind: str, places: Float[np.ndarray, " places"], means: Float[np.ndarray, "resamples places"], slack: float
) -> Float[np.ndarray, " resamples"]:
    """Find the smallest x whose mean of y is at least the mean at the largest x, or the largest mean, minus a slack."""
    reference = means[:, -1:] if kind == "least" else np.nanmax(means, axis=1, keepdims=True)
    enough = means >= reference - slack - 1e-12
    return np.where(enough.any(axis=1), places[enough.argmax(axis=1)], np.nan)


def _first(sample: ResampledRows) -> Float[np.ndarray, " units"]:
    """Return the smallest x with y >= 0 of each unit, averaged over groups; infinite if a unit has none."""
    first = np.full((len(sample.units), sample.n_groups), np.inf)
    reached = sample.y >= 0
    np.minimum.at(first, (sample.unit[reached], sample.group[reached]), sample.x[reached])
    return np.asarray(first.mean(axis=1))


def _greatest(sample: ResampledRows) -> Float[np.ndarray, " units"]:
    """Return the maximum of y of each unit, averaged over groups."""
    greatest = np.full((len(sample.units), sample.n_groups), -np.inf)
    np.maximum.at(greatest, (sample.unit, sample.group), sample.y)
    return np.asarray(greatest.mean(axis=1))


def _mean_of_units(by_unit: Float[np.ndarray, " units"], weights: Float[np.ndarray, "draws units"]) -> Draws:
    """Average over units; NaN on draws that contain a unit without a finite value."""
    known = np.isfinite(by_unit)
    finite = np.where(known, by_unit, 0.0)
    means = np.where((weights[:, ~known] > 0).any(axis=1), np.nan, weights @ finite / weights.sum(axis=1))
    return Draws(means, np.where(known, finite - means[:, None], 0.0))


def _fraction(sample: ResampledRows, weights: Float[np.ndarray, "draws units"]) -> Draws:
    """Divide the sum of y by the sum of x."""
    sums = np.zeros((len(sample.units), 2, sample.n_groups))
    for at, term in enumerate((sample.y, sample.x)):
        np.add.at(sums[:, at], (sample.unit, sample.group), term)
    above, below = np.moveaxis(np.tensordot(weights, sums, axes=1), 1, 0)
    below = np.where(below == 0, np.nan, below)
    found = above / below
    return Draws(found.mean(axis=1), _influences(np.stack([1 / below, -found / below], axis=1), sums))
