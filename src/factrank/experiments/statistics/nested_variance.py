"""Variance components: how much a quantity varies from table to table, and from training to training on one table.

With m trainings on each of N tables and J_us the influence of training s on table u, the quantity is close to the mean
of J. As in a nested analysis of variance,

    within^2 = sum_us (J_us - J_u)^2 / (N (m - 1)),    between^2 = Var_u(J_u) - within^2 / m

where J_u is the mean over the trainings of a table. An interval over tables includes both: trainings are nested in
tables, so more of them reduce only the second term of Var(J_u) = between^2 + within^2 / m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from factrank.experiments.statistics.claims import Claim
from factrank.experiments.statistics.expressions import selected, values
from factrank.experiments.statistics.quantities import DATABASE_SEED, FINGERPRINT, SEED, over_draws, sample_of

TRAINING = "training of a table"


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations between tables and between trainings on one table.

    Arguments:
        between: Standard deviation between tables; 0 if the trainings alone explain the differences.
        within: Standard deviation between trainings on one table.
    """

    between: float
    within: float
    n_tables: int
    n_trainings: int


def variance_components(claim: Claim, table: pa.Table) -> VarianceComponents | None:
    """Split the variance of a claim's quantity; None unless several tables were each trained m >= 2 times.

    Arguments:
        claim: A claim about a smooth quantity, which "best" and "least" are not.
        table: Table named by `claim.data`, without missing values.
    """
    if not _has_nested_trainings(table):
        return None
    total: np.ndarray | None = None
    units: tuple[str, ...] = ()
    for at, part in enumerate(claim.quantity.parts):
        rows = table.filter(pa.array(selected(table, part.where)))
        sample = sample_of(_with_trainings(rows), part.column, part.against, part.within, TRAINING, part.given)
        draws = over_draws(part.kind, sample, np.ones((1, len(sample.units))), float(part.slack))
        if draws.influences is None or (at and sample.units != units):
            return None
        units = sample.units
        signed = draws.influences[0] * (-1) ** at
        total = signed if total is None else total + signed
    tables = np.array([unit.rpartition("/")[0] for unit in units])
    names, counts = np.unique(tables, return_counts=True)
    if total is None or len(names) < 2 or counts.min() < 2 or counts.min() < counts.max():
        return None
    by_table = np.stack([total[tables == name] for name in names])
    n_trainings = int(counts[0])
    within = float(by_table.var(axis=1, ddof=1).mean())
    between = max(0.0, float(by_table.mean(axis=1).var(ddof=1)) - within / n_trainings)
    return VarianceComponents(between**0.5, within**0.5, len(names), n_trainings)


def _has_nested_trainings(rows: pa.Table) -> bool:
    """Return whether there are several tables, and one that was trained with several seeds."""
    trainings = set(_trainings(rows))
    tables = {training[:2] for training in trainings}
    return 1 < len(tables) < len(trainings)


def _trainings(rows: pa.Table) -> list[tuple[object, ...]]:
    """Return the table (fingerprint and seed) and the training seed of each row."""

    def column(name: str) -> list[object]:
        return list(values(rows, name)) if name in rows.column_names else [None] * rows.num_rows

    return list(zip(column(FINGERPRINT), column(DATABASE_SEED), column(SEED), strict=True))


def _with_trainings(rows: pa.Table) -> pa.Table:
    """Add a column that names the training of each row: its table and its seed."""
    names = [f"{given} {drawn}/{seed}" for given, drawn, seed in _trainings(rows)]
    return rows.append_column(TRAINING, pa.array(names, pa.string()))
