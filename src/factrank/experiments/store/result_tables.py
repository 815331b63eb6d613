"""Tables of results: one row per trial, per trial and recorded epoch, per trial and reading, or per search.

The second and third are long tables: their rows refer to a trial by `hash`, and `Tables.rows` adds the columns of that
trial. The table of searches is never stored, because it follows from the trials
(`factrank.experiments.study.searches`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import pyarrow as pa

from factrank.errors import InputError

DataName = Literal["trials", "curves", "readings", "searches"]
STORED: tuple[DataName, ...] = ("trials", "curves", "readings")
"""Tables in a store and in a published folder."""
ROW_NAMES: dict[str, str] = {
    "trials": "trial",
    "curves": "recorded epoch",
    "readings": "reading",
    "searches": "search",
}
"""Singular names of the rows of each table."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Results of trials: `trials` has one row for each; the long tables `curves` and `readings` may have any number.

    `searches` has one row per search of a study. It is empty for a store, which does not know studies.
    """

    trials: pa.Table
    curves: pa.Table
    readings: pa.Table
    searches: pa.Table = field(default_factory=lambda: pa.table({}))

    @classmethod
    def empty(cls) -> Tables:
        """Return tables without rows.

        >>> Tables.empty().readings.num_rows
        0
        """
        keys = pa.table({"hash": pa.array([], pa.string())})
        return cls(keys, keys, keys)

    def rows(self, data: str) -> pa.Table:
        """Return a table by name; long tables include the columns of their trials, in the order of the trials.

        A column of the long table takes precedence over a trial column of the same name. Rows of trials that are not in
        `trials` are omitted.

        >>> tables = Tables(
        ...     trials=pa.table({"hash": ["b", "a"], "model.d_vo": [2, 1], "recall": [1.0, 0.5]}),
        ...     curves=pa.table({"hash": pa.array([], pa.string())}),
        ...     readings=pa.table({"hash": ["a", "b", "c"], "tau": [0.5, 0.5, 0.5], "recall": [0.4, 0.8, 0.0]}),
        ... )
        >>> tables.rows("readings").to_pydict()
        {'hash': ['b', 'a'], 'tau': [0.5, 0.5], 'recall': [0.8, 0.4], 'model.d_vo': [2, 1]}
        """
        require_data("a table of results", data)
        if data in ("trials", "searches"):
            return self.trials if data == "trials" else self.searches
        return self._long_curves if data == "curves" else self._long_readings

    def beside(self, data: str) -> pa.Table | None:
        """Return the trials with the columns that `rows` adds to a long table; None for other tables.

        A long table has no rows for trials that were not run; computations on it need this table to detect them.
        """
        require_data("a table of results", data)
        if data in ("trials", "searches"):
            return None
        hidden = set(getattr(self, data).column_names) - {"hash"}
        return self.trials.select([name for name in self.trials.column_names if name not in hidden])

    @cached_property
    def _long_curves(self) -> pa.Table:
        return _with_trial_columns(self.curves, self.trials)

    @cached_property
    def _long_readings(self) -> pa.Table:
        return _with_trial_columns(self.readings, self.trials)


def many_rows(data: str) -> str:
    """Return the name for several rows of a table.

    >>> many_rows("readings"), many_rows("searches")
    ('readings', 'searches')
    """
    return plural(ROW_NAMES[data])


def plural(row_name: str) -> str:
    """Return the plural of a row name."""
    return f"{row_name}es" if row_name.endswith("ch") else f"{row_name}s"


def require_data(what: str, data: object) -> None:
    """Raise an `InputError` unless this is the name of a table."""
    if data not in get_args(DataName):
        raise InputError(f"{what} must be one of {', '.join(get_args(DataName))}; got {data!r}")


def _with_trial_columns(long: pa.Table, trials: pa.Table) -> pa.Table:
    if "hash" not in long.column_names or "hash" not in trials.column_names:
        return pa.table({})
    place = {found: at for at, found in enumerate(trials.column("hash").to_pylist())}
    known = [(place[found], at) for at, found in enumerate(long.column("hash").to_pylist()) if found in place]
    known.sort()
    own = long.take(pa.array([at for _, at in known], pa.int64()))
    beside = trials.take(pa.array([at for at, _ in known], pa.int64()))
    for name in beside.column_names:
        if name not in own.column_names:
            own = own.append_column(name, beside.column(name))
    return own
