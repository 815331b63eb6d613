"""Axes of pictures: names that are safe in charts, and blocks of neighbours if there are too many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from jaxtyping import Float, Int

from factrank.foreign_text import shown_name
from factrank.report.study import chart_text

MOST_MARKS = 5_000
"""Most marks of a picture; larger tables are aggregated to blocks."""

MOST_SIDE = 250
"""Most rows or columns of a heat map, so that it fits a screen."""

LONGEST_LABEL = 24


@dataclass(frozen=True)
class AxisBlocks:
    """Consecutive names of an axis in blocks of equal size, the last of which may be smaller.

    Arguments:
        n_names: Number of names.
        size: Number of names in a block; 1 if nothing is aggregated.
        labels: Distinct labels of the blocks.
    """

    n_names: int
    size: int
    labels: tuple[str, ...]

    @property
    def starts(self) -> Int[np.ndarray, " blocks"]:
        """First index of each block."""
        return np.arange(0, self.n_names, self.size)

    @property
    def counts(self) -> Int[np.ndarray, " blocks"]:
        """Number of names in each block."""
        return np.diff(np.append(self.starts, self.n_names))


def blocks_of(names: Sequence[str], most: int) -> AxisBlocks:
    """Cut an axis into at most `most` blocks.

    >>> blocks_of(["Lima", "Oslo", "Rome"], 2)
    AxisBlocks(n_names=3, size=2, labels=('Lima to Oslo', 'Rome'))
    """
    size = max(1, -(-len(names) // max(most, 1)))
    if size == 1:
        return AxisBlocks(len(names), 1, distinct_labels(names))
    starts = range(0, len(names), size)
    ends = [(names[start], names[min(start + size, len(names)) - 1]) for start in starts]
    texts = [_label(first) if first == last else f"{_label(first)} to {_label(last)}" for first, last in ends]
    return AxisBlocks(len(names), size, _distinct(texts))


def block_sides(n_rows: int, n_columns: int, most: int = MOST_MARKS) -> tuple[int, int]:
    """Return the most row and column blocks, with at most `most` cells; a short axis keeps all its names.

    >>> block_sides(10, 20), block_sides(10, 10_000), block_sides(40, 400), block_sides(10_000, 10_000)
    ((10, 20), (10, 250), (40, 125), (70, 70))
    """
    rows, columns = max(min(n_rows, MOST_SIDE), 1), max(min(n_columns, MOST_SIDE), 1)
    if rows * columns <= most:
        return rows, columns
    side = isqrt(most)
    if rows <= side:
        return rows, most // rows
    return (most // columns, columns) if columns <= side else (side, side)


def block_means(
    matrix: Float[np.ndarray, "rows columns"], rows: AxisBlocks, columns: AxisBlocks
) -> Float[np.ndarray, "row_blocks column_blocks"]:
    """Return the mean of a matrix over each block of rows and columns."""
    sums = np.add.reduceat(np.add.reduceat(matrix, rows.starts, axis=0), columns.starts, axis=1)
    means: Float[np.ndarray, "row_blocks column_blocks"] = sums / np.outer(rows.counts, columns.counts)
    return means


def distinct_labels(names: Sequence[str], longest: int = LONGEST_LABEL) -> tuple[str, ...]:
    r"""Return labels that are short, safe in any chart and page, and distinct.

    >>> print(*distinct_labels(["Oslo", "a" * 30 + "b", "a" * 30 + "c", "<b>\n"]))
    Oslo aaaaaaaaaaaaaaaaaaaaa... aaaaaaaaaaaaaaaaaaaaa... (2) ‹b>
    """
    return _distinct([_label(name, longest) for name in names])


def _label(name: str, longest: int = LONGEST_LABEL) -> str:
    """Return a label without "<", which could start a tag in a page that embeds the chart."""
    return chart_text(shown_name(name, longest).replace("\\n", " ").strip()).replace("<", "‹") or "(blank)"


def _distinct(labels: Sequence[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    taken, found = set(labels), []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        number, unique = seen[label], label
        while number > 1 and (unique := f"{label} ({number})") in taken:
            number += 1
        taken.add(unique)
        seen[label] = number
        found.append(unique)
    return tuple(found)
