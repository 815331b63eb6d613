"""`Grid`: the cells of a heat map, with the names on its axes and what was aggregated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from factrank.report.pictures.axis_blocks import AxisBlocks

Record = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """Cells of one or several heat maps over the same axes.

    Arguments:
        title: What is seen.
        row_title, column_title, colour_title: What the axes and the colours mean.
        records: Cells, with the fields `row`, `column`, `colour` and perhaps `layer`, `fact`, `size` and `text`.
        rows, columns: Labels in their order.
        layers: Labels of the heat maps to choose from; empty if there is only one.
        layer_title: What the heat maps differ in, such as "query".
        notes: How large tables were aggregated.
        is_named: Whether colours are names instead of numbers.
        middle: Number at the middle of a diverging colour scale; None for other scales.
    """

    title: str
    row_title: str
    column_title: str
    colour_title: str
    records: list[Record]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    layers: tuple[str, ...] = ()
    layer_title: str = ""
    notes: tuple[str, ...] = field(default=())
    is_named: bool = False
    middle: float | None = None


def matrix_records(
    matrix: Float[np.ndarray, "rows columns"],
    rows: AxisBlocks,
    columns: AxisBlocks,
    facts: Bool[np.ndarray, "rows columns"] | None = None,
    layer: str = "",
) -> list[Record]:
    """Return one record per cell of an aggregated matrix; numbers that are not finite become None."""
    shown = np.where(np.isfinite(matrix), matrix, np.nan)
    return [
        {
            "row": rows.labels[row],
            "column": columns.labels[column],
            "colour": None if np.isnan(value) else float(f"{value:.5g}"),
            **({} if facts is None else {"fact": bool(facts[row, column])}),
            **({"layer": layer} if layer else {}),
        }
        for (row, column), value in np.ndenumerate(shown)
    ]


def menu_note(kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a menu chooses, and what is seen where there is no menu; empty if there is nothing to choose."""
    return (f"A menu chooses the {kind}; a saved picture shows {names[0]}.",) if len(names) > 1 else ()


def block_note(rows: AxisBlocks, columns: AxisBlocks, row_word: str, column_word: str, what: str) -> tuple[str, ...]:
    """Return how cells were aggregated; empty if they were not."""
    if rows.size == columns.size == 1:
        return ()
    sizes = [f"{axis.size:,} {word}" for axis, word in ((rows, row_word), (columns, column_word)) if axis.size > 1]
    return (f"Each cell is {what} of {' x '.join(sizes)}.",)
