"""Contents of a chart as plain records, with means over seeds.

The fields are `x`, `y`, `colour` and `facet`; if means are drawn also `low`, `high` and `n`. Column names and cells are
user input, and nothing here depends on their contents. Only trials that finished or stopped are drawn: metrics of
diverged trials are meaningless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pyarrow as pa

from factrank.experiments.columns import label
from factrank.experiments.statistics import Value, ended_soundly, missing_columns, selected, values
from factrank.experiments.store import ROW_NAMES, Tables, many_rows
from factrank.experiments.study.study import Chart
from factrank.foreign_text import LONGEST_NAME, shown_name

Cell = str | int | float | None
ChartRecord = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """Records of a chart, notes for the reader, and what the means are over: "seed", or "trial" and the like."""

    rows: list[ChartRecord]
    notes: tuple[str, ...] = ()
    over: str = "trial"


def chart_records(chart: Chart, tables: Tables) -> Records:
    """Return the records of a chart; if there are none, a note explains why.

    `tables` are the tables of the study (`trials_of_study.study_tables`).
    """
    table = tables.rows(chart.data)
    fields = {"x": chart.x, "y": chart.y, "colour": chart.colour, "facet": chart.facet}
    wanted = {field: column for field, column in fields.items() if column}
    unknown = missing_columns(table, *wanted.values())
    if unknown or not table.num_rows:
        what = f"a column {' or '.join(map(label, unknown))}" if unknown and table.num_rows else "a result"
        return Records([], (f"Nothing to draw yet: no {ROW_NAMES[chart.data]} has {what}.",))
    rows, unsound = _sound(table.filter(pa.array(selected(table, chart.where))))
    cells = {field: cells_of(values(rows, column)) for field, column in wanted.items()}
    seeds = rows.column("seed").to_pylist() if "seed" in rows.column_names else [None] * rows.num_rows
    records = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    measured = "colour" if chart.kind == "heatmap" else "y"
    known = [record for record in records if None not in record.values() and is_number(record[measured])]
    if not known:
        what = "search" if chart.data == "searches" else "trial"
        return Records([], (f"Nothing to draw yet: no finished {what} has these numbers.",))
    known, notes = _positive(chart, known)
    lost = len(records) - len(known) - sum(dropped for dropped, _ in notes)
    texts = [text for _, text in notes]
    whose = "searches" if chart.data == "searches" else "trials"
    texts += [f"{unsound:,} {whose} that did not finish are not shown."] if unsound else []
    texts += [f"{lost:,} {many_rows(chart.data)} without these numbers are not shown."] if lost else []
    shown = known if chart.kind == "points" else _means(known, measured)
    over = "seed" if _differ_in_seed(records, seeds, measured) else ROW_NAMES[chart.data]
    if not shown:
        texts.append("Nothing is left to draw.")
    return Records(shown, tuple(texts), over)


def _sound(rows: pa.Table) -> tuple[pa.Table, int]:
    """Select the rows of trials that finished or stopped, or all if there is no status, and count other trials."""
    sound = ended_soundly(rows)
    hashes = rows.column("hash").to_pylist() if "hash" in rows.column_names else range(rows.num_rows)
    others = {name for name, is_sound in zip(hashes, sound, strict=True) if not is_sound}
    return rows.filter(pa.array(sound)), len(others)


def cells_of(column: Sequence[Value]) -> list[Cell]:
    """Convert cells for display: infinite numbers and NaN become None, and strings are made safe to show.

    Long strings are truncated, unless different strings would become equal.

    >>> cells_of([True, float("inf"), 3, "short"])
    ['yes', None, 3, 'short']
    """
    texts = {value for value in column if isinstance(value, str)}
    longest = LONGEST_NAME if len({shown_name(text) for text in texts}) == len(texts) else None
    return [_cell(value, longest) for value in column]


def _cell(value: Value, longest: int | None) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, int) else shown_name(str(value), longest)


def is_number(value: Cell) -> bool:
    """Return whether a cell is a number."""
    return isinstance(value, int | float)


def _positive(chart: Chart, records: list[ChartRecord]) -> tuple[list[ChartRecord], list[tuple[int, str]]]:
    """Select the records that logarithmic axes can show, with notes on the others."""
    notes = []
    for field, logarithmic in (("x", chart.log_x), ("y", chart.log_y)):
        if logarithmic:
            kept = [record for record in records if not is_number(record[field]) or record[field] > 0]
            if len(kept) < len(records):
                dropped = len(records) - len(kept)
                notes.append((dropped, f"{dropped:,} values of 0 or less have no place on the logarithmic axis."))
            records = kept
    return records, notes


def _differ_in_seed(records: Sequence[ChartRecord], seeds: Sequence[Value], measured: str) -> bool:
    """Return whether records that agree in all other fields have different seeds."""
    settings = [tuple(cell for field, cell in record.items() if field != measured) for record in records]
    return None not in seeds and len(set(zip(settings, seeds, strict=True))) == len(records)


def _means(records: Sequence[ChartRecord], measured: str) -> list[ChartRecord]:
    """Compute the mean, minimum and maximum of one field, grouped by all other fields."""
    groups: dict[tuple[Cell, ...], list[float]] = {}
    others = [field for field in (records[0] if records else ()) if field != measured]
    for record in records:
        groups.setdefault(tuple(record[field] for field in others), []).append(float(record[measured]))
    return [
        {
            **dict(zip(others, key, strict=True)),
            measured: sum(found) / len(found),
            "low": min(found),
            "high": max(found),
            "n": len(found),
        }
        for key, found in groups.items()
    ]
