"""Both ends of a capacity: the largest size that holds, and the next size tried, which does not.

A capacity is interval-censored: it is at least `lower` and below `upper`. A quantity of searches names columns of the
lower end; this module gives the same quantity at the upper end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from factrank.experiments.statistics.claims import Quantity

UPPER = "upper"
OF_AN_END = ("lower", "log_lower", "facts", "log_facts")
"""Columns of a search that depend on which end is taken for the capacity."""


def names_an_end(quantity: Quantity) -> bool:
    """Return whether a quantity depends on the end that is taken for the capacity."""
    return any(name in OF_AN_END for part in quantity.parts for name in part.columns)


def at_upper_end(searches: pa.Table) -> pa.Table:
    """Return the table of searches with the upper ends in place of the lower ones.

    >>> at_upper_end(pa.table({"lower": [3], "upper": [4], "facts": [30], "upper_facts": [40]})).to_pydict()
    {'lower': [4], 'upper': [4], 'facts': [40], 'upper_facts': [40]}
    """
    moved = {**{name: f"{UPPER}_{name}" for name in searches.column_names}, "lower": UPPER}
    columns = {
        name: searches.column(moved[name] if moved[name] in searches.column_names else name)
        for name in searches.column_names
    }
    for log, plain in (("log_lower", "lower"), ("log_facts", "facts")):
        if log in columns and plain in columns:
            columns[log] = _logarithms(columns[plain])
    return pa.table(columns)


def _logarithms(column: pa.ChunkedArray) -> pa.Array:
    cells = column.to_pylist()
    return pa.array([float(np.log(cell)) if cell else None for cell in cells], pa.float64())
