"""Split the rows of a computation into blocks, to bound memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

BLOCK_CELLS = 2**22
"""Entries of the largest array of a block."""


class RowBlock(NamedTuple):
    """A block of rows.

    Arguments:
        rows: Row numbers.
        padded: Row numbers padded by repetition to the same height in all blocks, so only one shape is compiled.
    """

    rows: Int[np.ndarray, " rows"]
    padded: Int[np.ndarray, " height"]


def row_blocks(n_rows: int, cells_per_row: int, step: int = 1) -> Iterator[RowBlock]:
    """Yield all rows in order, in blocks.

    Arguments:
        n_rows: Number of rows.
        cells_per_row: Entries per row of the largest array computed from a block.
        step: Heights are multiples of this, to reuse compiled code for data of similar size.

    >>> [block.padded.tolist() for block in row_blocks(3, BLOCK_CELLS // 2)]
    [[0, 1], [2, 2]]
    """
    height = min(-(-n_rows // step) * step, max(step, BLOCK_CELLS // max(cells_per_row, 1)))
    for start in range(0, n_rows, max(height, 1)):
        rows = np.arange(start, min(start + height, n_rows))
        yield RowBlock(rows, np.resize(rows, height))
