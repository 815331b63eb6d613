"""Summaries: a quantity for every setting of a study, with its confidence interval over seeds, as a table.

A claim evaluates one number; a summary computes it for every combination of values of some columns, such as "the best
d_vo for each d_model and number of queries". Each row is the result of `claims.evaluate` on the rows with these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.expressions import Value, columns_in, missing_columns, selected, values
from factrank.experiments.statistics.quantities import DATABASE_SEED, FINGERPRINT, SEED
from factrank.experiments.statistics.reference_lines import ReferenceLine, frozen_lines
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store import DataName, require_data
from factrank.experiments.study import require_name

QUANTITY = "quantity"
MEASURED = ("value", "low", "high", "seeds", "why")
"""Columns of a summary's table in addition to the quantity and the settings."""

MOST_COLUMNS = 4

Key = tuple[Value, ...]


@dataclass(frozen=True)
class Summary:
    """Quantities by setting.

    The table has one row for each quantity and each combination of values that has rows of the quantity. Rows of `data`
    without a value in a column of `over` are ignored.

    Arguments:
        quantities: Pairs (label, quantity).
        over: Columns whose values are the settings.
        data: Table that the quantities are computed from.
        x: Column on the x axis of the chart, one of `over` or "quantity". Labels of quantities that look like numbers
            are then drawn as numbers.
        references: Lines drawn for comparison, such as a published constant.
        kinds: As in a claim: the intervals are over kinds of table.
    """

    name: str
    title: str
    quantities: tuple[tuple[str, Quantity], ...]
    over: tuple[str, ...]
    data: DataName = "trials"
    x: str = ""
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False
    references: tuple[ReferenceLine, ...] = ()
    kinds: str = ""

    def __post_init__(self) -> None:
        require_name("the name of a summary", self.name)
        require_data(f"summary {self.name}: the data", self.data)
        over: Any = self.over
        object.__setattr__(self, "references", frozen_lines(self.references))
        object.__setattr__(self, "over", (over,) if isinstance(over, str) else tuple(over))
        object.__setattr__(self, "quantities", tuple((label, quantity) for label, quantity in self.quantities))
        labels = [label for label, _ in self.quantities]
        if not labels or len(set(labels)) < len(labels):
            raise InputError(
                f"summary {self.name}: expected one or more quantities with different labels; got {labels}"
            )
        taken = {QUANTITY, *MEASURED} & set(self.over)
        if taken or len(self.over) > MOST_COLUMNS or len(set(self.over)) < len(self.over):
            why = f"; {', '.join(sorted(taken))} is a column of the summary" if taken else ""
            raise InputError(f"summary {self.name}: over takes at most {MOST_COLUMNS} different columns{why}")
        object.__setattr__(self, "x", self.x or (self.over[0] if self.over else QUANTITY))
        if self.x not in (*self.over, QUANTITY):
            choices = ", ".join((*self.over, QUANTITY))
            raise InputError(f"summary {self.name}: x must be one of {choices}; got {self.x!r}")
        self.columns  # noqa: B018 - raises if an expression is invalid

    @property
    def columns(self) -> list[str]:
        """Columns that the summary depends on."""
        parts = [part for _, quantity in self.quantities for part in quantity.parts]
        settings = [name for text in (*self.over, *filter(None, [self.kinds])) for name in columns_in(text)]
        return list(dict.fromkeys([*settings, *(name for part in parts for name in part.columns)]))

    @property
    def mean_of(self) -> str:
        """Column whose mean all quantities are, if there are several; empty otherwise."""
        means = {one.column if one.kind == "mean" and one.minus is None else "" for _, one in self.quantities}
        return means.pop() if len(means) == 1 and len(self.quantities) > 1 else ""


def summary_table(summary: Summary, table: pa.Table, trials: pa.Table | None = None) -> pa.Table:
    """Return one row per quantity and setting: quantity, the columns of `over`, value, low, high, seeds, why.

    `why` explains a missing value. `table` is the table named by `summary.data`, and `trials` all trials if it is a
    long table; see `evaluate`.

    >>> table = pa.table({"seed": [0, 1, 2] * 2, "d_vo": [1] * 3 + [2] * 3, "recall": [0.1, 0.2, 0.3, 0.5, 0.6, 0.7]})
    >>> summary = Summary("means", "Mean recall", (("mean", Quantity("mean", "recall")),), ("d_vo",))
    >>> found = summary_table(summary, table)
    >>> found["d_vo"].to_pylist(), [round(value, 3) for value in found["value"].to_pylist()]
    ([1, 2], [0.2, 0.6])
    """
    rows = _needed(table, summary)
    beside = _needed(trials, summary) if trials is not None else None
    settings = _settings(rows, summary.over)
    own = () if beside is None else tuple(name for name in summary.over if not missing_columns(beside, name))
    trial_settings = {} if beside is None else _settings(beside, own)
    found: list[dict[str, object]] = []
    for label, quantity in summary.quantities:
        claim = Claim(label, summary.title, quantity, None, data=summary.data, kinds=summary.kinds)
        asked = _asked(rows, settings, quantity)
        if beside is not None and own == summary.over:
            asked |= _asked(beside, trial_settings, quantity)
        for key in _in_order(asked):
            setting = dict(zip(summary.over, key, strict=True))
            of_key = trial_settings.get(tuple(setting[name] for name in own), [])
            trials_of_key = None if beside is None else _take(beside, of_key)
            verdict = evaluate(claim, _take(rows, settings.get(key, [])), trials_of_key)
            low, high = verdict.interval or (None, None)
            why = "" if verdict.status == "measured" else verdict.why
            measured = (verdict.value, low, high, verdict.n_seeds, why)
            found.append({QUANTITY: label, **setting, **dict(zip(MEASURED, measured, strict=True))})
    return _as_table(found, summary.over)


def _needed(table: pa.Table, summary: Summary) -> pa.Table:
    """Select the columns that the summary needs, because the table is split into many small ones."""
    names = {"hash", "status", SEED, DATABASE_SEED, FINGERPRINT, *summary.columns, *summary.over}
    names |= {text for _, quantity in summary.quantities for part in quantity.parts for text in part.texts}
    return table.select([name for name in table.column_names if name in names])


def _settings(table: pa.Table, over: tuple[str, ...]) -> dict[Key, list[int]]:
    """Group row numbers by combination of values."""
    if not over:
        return {(): list(range(table.num_rows))}
    if missing_columns(table, *over):
        return {}
    rows: dict[Key, list[int]] = {}
    for at, key in enumerate(zip(*(values(table, name) for name in over), strict=True)):
        if not any(value is None or (isinstance(value, float) and not isfinite(value)) for value in key):
            rows.setdefault(key, []).append(at)
    return rows


def _asked(table: pa.Table, settings: dict[Key, list[int]], quantity: Quantity) -> dict[Key, None]:
    """Select the settings that have rows of the quantity; for trials of a long table, settings that could have some."""
    where = tuple(pair for pair in quantity.where if not missing_columns(table, pair[0]))
    kept = selected(table, where)
    return {key: None for key, rows in settings.items() if kept[rows].any() or not key}


def _in_order(keys: dict[Key, None]) -> list[Key]:
    """Sort settings: numbers by value, strings by first appearance."""
    places: list[dict[Value, int]] = [{} for _ in next(iter(keys), ())]
    for key in keys:
        for seen, value in zip(places, key, strict=True):
            seen.setdefault(value, len(seen))

    def place(key: Key) -> list[tuple[int, float]]:
        return [
            (1, float(seen[value])) if isinstance(value, str) or value is None else (0, float(value))
            for seen, value in zip(places, key, strict=True)
        ]

    return sorted(keys, key=place)


def _take(table: pa.Table, rows: list[int]) -> pa.Table:
    return table.take(pa.array(rows, pa.int64()))


def _as_table(rows: list[dict[str, object]], over: tuple[str, ...]) -> pa.Table:
    kinds = {QUANTITY: pa.string(), "seeds": pa.int64(), "why": pa.string()}
    kinds |= {name: pa.float64() for name in ("value", "low", "high")}
    names = (QUANTITY, *over, *MEASURED)
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in names})
