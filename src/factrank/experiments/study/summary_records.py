"""Contents of the chart of a summary as plain records: a point for each setting, and its 95 % interval.

The fields are the same as in other charts: `x`, `y`, `low`, `high`, `n`, `colour`, `facet`. If there are more columns
than fields, the panel headings combine the remaining ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from factrank.experiments.statistics import QUANTITY, Summary
from factrank.experiments.study.chart_records import Cell, ChartRecord, Records, cells_of, is_number


def summary_records(summary: Summary, table: pa.Table) -> Records:
    """Return the records of a summary's table; if there are none, a note explains why."""
    fields = drawn_fields(summary)
    names = _numbered([name for name, _ in summary.quantities])
    rows: list[ChartRecord] = []
    columns = {column: cells_of(table[column].to_pylist()) for column in summary.over}
    columns[QUANTITY] = [names[name] for name in table[QUANTITY].to_pylist()]
    for at, row in enumerate(table.to_pylist()):
        cells = {column: found[at] for column, found in columns.items()}
        record: ChartRecord = {field: cells[column] for field, column in fields.items() if field != "facet"}
        if "facet" in fields:
            record["facet"] = [cells[column] for column in facet_columns(summary)]
        record |= {"y": row["value"], "low": row["low"], "high": row["high"], "n": row["seeds"]}
        rows.append(record)
    known = [row for row in rows if row["y"] is not None]
    notes = [f"{len(rows) - len(known):,} of {len(rows):,} have no value; the table says why."] if known != rows else []
    if not known:
        return Records([], ("Nothing to draw yet: no setting has a value.",))
    known, dropped = _on_logarithmic_axes(summary, known)
    nothing = [] if known else ["Nothing is left to draw."]
    return Records(known, (*notes, *dropped, *nothing))


def drawn_fields(summary: Summary) -> dict[str, str]:
    """Return the columns drawn as x, colour and facet."""
    columns = [*([QUANTITY] if len(summary.quantities) > 1 else []), *summary.over]
    others = [column for column in columns if column != summary.x]
    return {"x": summary.x, **dict(zip(("colour", "facet"), others, strict=False))}


def facet_columns(summary: Summary) -> list[str]:
    """Return the columns in the headings of panels."""
    columns = [*([QUANTITY] if len(summary.quantities) > 1 else []), *summary.over]
    return [column for column in columns if column != summary.x][1:]


def _numbered(labels: Sequence[str]) -> dict[str, Cell]:
    """Convert labels to numbers, if all of them are numbers."""
    try:
        numbers = {name: float(name) for name in labels}
    except ValueError:
        return {name: name for name in labels}
    return {name: int(value) if value == int(value) else value for name, value in numbers.items()}


def _on_logarithmic_axes(summary: Summary, rows: list[ChartRecord]) -> tuple[list[ChartRecord], list[str]]:
    """Select the records that logarithmic axes can show, truncate whiskers above 0, and note what was changed."""
    kept = [
        row
        for row in rows
        if not (summary.log_x and is_number(row["x"]) and row["x"] <= 0) and not (summary.log_y and row["y"] <= 0)
    ]
    notes = []
    if len(kept) < len(rows):
        notes.append(f"{len(rows) - len(kept):,} values of 0 or less have no place on the logarithmic axis.")
    cut = [row for row in kept if summary.log_y and row["low"] is not None and row["low"] <= 0]
    if cut:
        least = min(min(row["y"], row["low"] if row["low"] and row["low"] > 0 else row["y"]) for row in kept) / 2
        kept = [row | {"low": least} if row in cut else row for row in kept]
        notes.append(f"{len(cut):,} intervals reach 0 or less and are cut at the foot of the logarithmic axis.")
    return kept, notes
