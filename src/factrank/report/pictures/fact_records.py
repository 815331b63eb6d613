"""Records of facts: contributions of the paths of a layer, and margins."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.families.attention.circuits import Attribution
from factrank.report.pictures.axis_blocks import (
    MOST_MARKS,
    AxisBlocks,
    block_means,
    block_sides,
    blocks_of,
    distinct_labels,
)
from factrank.report.pictures.grid import Grid, Record, block_note, matrix_records
from factrank.report.plain_output import fact_text

BINS, LEAST, LONGEST_FACT = 40, 12, 60
"""Number of bars of a histogram, of facts with the least margins, and of characters of a fact."""
NAME = 16


def contribution_records(found: Attribution, most: int = MOST_MARKS) -> Grid:
    """Return the contribution of each path to the margin of each fact, weakest facts first."""
    order = np.argsort(found.margins, kind="stable")
    parts = np.column_stack([found.direct, found.heads]).astype(float)[order]
    sides = block_sides(len(parts), parts.shape[1], most)
    rows = _fact_blocks(found.database, order.tolist(), sides[0])
    columns = blocks_of(found.paths, sides[1])
    return Grid(
        title=f"Contribution of each path to the margin of each fact ({len(order):,} facts)",
        row_title="fact, weakest first",
        column_title="path",
        colour_title="contribution",
        records=matrix_records(block_means(parts, rows, columns) if len(parts) else parts, rows, columns),
        rows=rows.labels,
        columns=columns.labels,
        notes=block_note(rows, columns, "facts of similar margin", "paths", "the mean contribution"),
        middle=0.0,
    )


def _fact_blocks(database: Database, order: list[int], most: int) -> AxisBlocks:
    size = max(1, -(-len(order) // most))
    if size == 1:
        return AxisBlocks(
            len(order), 1, distinct_labels([fact_text(database, row, NAME) for row in order], LONGEST_FACT)
        )
    starts = range(0, len(order), size)
    names = [f"facts {start + 1:,} to {min(start + size, len(order)):,}" for start in starts]
    return AxisBlocks(len(order), size, tuple(names))


def margin_records(
    margins: Float[np.ndarray, " facts"], database: Database
) -> tuple[list[Record], list[Record], tuple[str, ...]]:
    """Return the bars of a histogram of margins, the facts with the least margins, and notes on what is left out."""
    finite, notes = margins[np.isfinite(margins)], list[str]()
    for what, found in (("infinite", np.isinf(margins)), ("NaN", np.isnan(margins))):
        if found.any():
            notes.append(f"{int(found.sum()):,} facts with {what} margins are left out.")
    bars: list[Record] = []
    if len(finite):
        low, high = float(min(finite.min(), 0.0)), float(max(finite.max(), 0.0))
        width = (high - low or 1.0) / BINS
        below = -(-max(-low, 0.0) // width)  # bars end at 0, so none has both right and wrong facts
        edges = (np.arange(BINS + 2) - below) * width
        counts, _ = np.histogram(finite, edges)
        bars = [
            {"x": float(left), "x2": float(right), "y": int(count), "colour": "right" if left >= 0 else "wrong"}
            for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True)
            if count
        ]
    order = np.argsort(margins, kind="stable")[:LEAST]
    order = order[np.isfinite(margins[order])]
    names = distinct_labels([fact_text(database, row, NAME) for row in order.tolist()], LONGEST_FACT)
    least = [
        {"row": name, "x": float(f"{margins[row]:.5g}"), "colour": "right" if margins[row] > 0 else "wrong"}
        for name, row in zip(names, order.tolist(), strict=True)
    ]
    return bars, least, tuple(notes)
