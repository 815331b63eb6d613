"""Means, slopes and other quantities over the rows of a table, on all seeds and on resamples of them at once.

Each seed is summarised per group by the sums of 1, x, y, x^2, xy, y^2. A resample draws seeds with replacement, so that
its sums are those of the seeds times the number of times that each was drawn: one product of matrices serves thousands
of resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from factrank.experiments.statistics.expressions import Value, numbers, values
from factrank.experiments.store import plural

DATABASE_SEED, SEED = "database.seed", "seed"


@dataclass(frozen=True, eq=False)
class ResampledRows:
    """Rows ready for resampling: two columns, the group and the unit of each row, and the names of the units."""

    y: Float[np.ndarray, " rows"]
    x: Float[np.ndarray, " rows"]
    group: Int[np.ndarray, " rows"]
    unit: Int[np.ndarray, " rows"]
    units: tuple[str, ...]

    @property
    def lacking(self) -> Bool[np.ndarray, " rows"]:
        """Rows without a value; an infinite number is none: no mean, slope or interval can be made of it."""
        return np.asarray(~(np.isfinite(self.y) & np.isfinite(self.x)))

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.group.max()) + 1

    def unequal(self, row_name: str = "trial") -> str:
        """Which seed has another number of rows than the others in some group; empty where there is none."""
        counts = np.zeros((len(self.units), self.n_groups), dtype=int)
        np.add.at(counts, (self.unit, self.group), 1)
        most = counts.max(axis=0)
        for unit, own in zip(self.units, counts, strict=True):
            if (own < most).any():
                return f"{unit} has {own.sum():,} of {most.sum():,} {plural(row_name)}"
        return ""


def sample_of(rows: pa.Table, column: str, against: str, within: tuple[str, ...]) -> ResampledRows:
    """The rows of a table; the unit that is drawn as a whole is the seed of the database, or else that of training."""
    names = _units(rows)
    units, unit = np.unique(np.array(names, dtype=str), return_inverse=True)
    keys = list(zip(*(values(rows, name) for name in within), strict=True)) if within else [()] * rows.num_rows
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    return ResampledRows(
        y=numbers(rows, column),
        x=numbers(rows, against) if against else np.zeros(rows.num_rows),
        group=np.array([number[key] for key in keys], dtype=np.int64),
        unit=unit.astype(np.int64),
        units=tuple(units.tolist()),
    )


def _units(rows: pa.Table) -> list[str]:
    def column(name: str) -> list[Value]:
        return values(rows, name) if name in rows.column_names else [None] * rows.num_rows

    databases, seeds = column(DATABASE_SEED), column(SEED)
    if len(set(databases)) > 1:
        return [
            f"database seed {database}" if database is not None else f"seed {seed}"
            for database, seed in zip(databases, seeds, strict=True)
        ]
    return [f"seed {seed}" for seed in seeds]


def over_resamples(
    kind: str, sample: ResampledRows, weights: Float[np.ndarray, "resamples units"], slack: float = 0.0
) -> Float[np.ndarray, " resamples"]:
    """A quantity on each resample, averaged over groups; nan where it is not defined."""
    if kind in ("best", "least"):
        groups = [_means_by_place(sample, group, weights) for group in range(sample.n_groups)]
        by_group = [_best(*group) if kind == "best" else _least(*group, slack) for group in groups]
        return np.asarray(np.mean(by_group, axis=0))
    others = {"first": _first, "greatest": _greatest, "fraction": _fraction}
    return others[kind](sample, weights) if kind in others else _from_moments(kind, sample, weights)


def _from_moments(
    kind: str, sample: ResampledRows, weights: Float[np.ndarray, "resamples units"]
) -> Float[np.ndarray, " resamples"]:
    """Means, slopes and correlations, from the sums of 1, x, y, x^2, xy, y^2."""
    x, y = _centred(sample, ranks=kind == "rank correlation")
    sums = np.zeros((len(sample.units), 6, sample.n_groups))
    for at, term in enumerate((np.ones_like(x), x, y, x * x, x * y, y * y)):
        np.add.at(sums[:, at], (sample.unit, sample.group), term)
    n, sum_x, sum_y, sum_xx, sum_xy, sum_yy = np.moveaxis(np.tensordot(weights, sums, axes=1), 1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "mean":
            offsets = np.array([sample.y[sample.group == group].mean() for group in range(sample.n_groups)])
            return np.asarray((sum_y / n + offsets).mean(axis=1))
        spread_x, spread_y = sum_xx - sum_x**2 / n, sum_yy - sum_y**2 / n
        shared = sum_xy - sum_x * sum_y / n
        spread_x = np.where(_nothing(spread_x, sum_xx), np.nan, spread_x)
        if kind == "slope":
            return np.asarray((shared / spread_x).mean(axis=1))
        spread_y = np.where(_nothing(spread_y, sum_yy), np.nan, spread_y)
        return np.asarray((shared / np.sqrt(spread_x * spread_y)).mean(axis=1))


def _nothing(spread: Float[np.ndarray, "*n"], squares: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
    """Where a column does not vary, up to rounding."""
    return spread <= 1e-12 * squares


def _centred(sample: ResampledRows, ranks: bool) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Both columns less their mean in each group, or their ranks less the mean rank: sums then lose no digits."""
    x, y = np.empty_like(sample.x), np.empty_like(sample.y)
    for group in range(sample.n_groups):
        own = sample.group == group
        for target, column in ((x, sample.x[own]), (y, sample.y[own])):
            numbers_ = _ranks(column) if ranks else column
            target[own] = numbers_ - numbers_.mean()
    return x, y


def _ranks(column: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """The place of each number among all, equal ones sharing the mean of theirs (scipy.stats takes long to load)."""
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _means_by_place(
    sample: ResampledRows, group: int, weights: Float[np.ndarray, "resamples units"]
) -> tuple[Float[np.ndarray, " places"], Float[np.ndarray, "resamples places"]]:
    """The values of x in a group, ascending, and the mean of y at each; nan where a resample has no row there."""
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
    """The x at which the mean of y is greatest; the mean of several such, and nan where all are equally great."""
    greatest = np.nanmax(means, axis=1)
    top = means >= greatest[:, None] - 1e-12
    middle = (top * places).sum(axis=1) / top.sum(axis=1)
    return np.where(np.nanmin(means, axis=1) >= greatest - 1e-12, np.nan, middle)


def _least(
    places: Float[np.ndarray, " places"], means: Float[np.ndarray, "resamples places"], slack: float
) -> Float[np.ndarray, " resamples"]:
    """The least x at which the mean of y is that at the greatest x, less a slack, or more."""
    enough = means >= means[:, -1:] - slack - 1e-12
    return np.where(enough.any(axis=1), places[enough.argmax(axis=1)], np.nan)


def _first(sample: ResampledRows, weights: Float[np.ndarray, "resamples units"]) -> Float[np.ndarray, " resamples"]:
    """The least x of each seed and group at which y is 0 or more, averaged over both; nan where a seed has none."""
    first = np.full((len(sample.units), sample.n_groups), np.inf)
    reached = sample.y >= 0
    np.minimum.at(first, (sample.unit[reached], sample.group[reached]), sample.x[reached])
    with np.errstate(invalid="ignore"):  # a seed that is not drawn, and never gets there: 0 times infinity
        drawn = np.where(weights[:, :, None] > 0, weights[:, :, None] * first, 0.0)
    by_group = drawn.sum(axis=1) / weights.sum(axis=1, keepdims=True)
    return np.asarray(np.where(np.isfinite(by_group), by_group, np.nan).mean(axis=1))


def _greatest(sample: ResampledRows, weights: Float[np.ndarray, "resamples units"]) -> Float[np.ndarray, " resamples"]:
    """The greatest y of each seed and group, averaged over both."""
    greatest = np.full((len(sample.units), sample.n_groups), -np.inf)
    np.maximum.at(greatest, (sample.unit, sample.group), sample.y)
    by_group = (weights @ greatest) / weights.sum(axis=1, keepdims=True)
    return np.asarray(by_group.mean(axis=1))


def _fraction(sample: ResampledRows, weights: Float[np.ndarray, "resamples units"]) -> Float[np.ndarray, " resamples"]:
    """The sum of y over the sum of x."""
    sums = np.zeros((2, len(sample.units), sample.n_groups))
    for total, term in zip(sums, (sample.y, sample.x), strict=True):
        np.add.at(total, (sample.unit, sample.group), term)
    above, below = weights @ sums[0], weights @ sums[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below == 0, np.nan, above / below).mean(axis=1))
