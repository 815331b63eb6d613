"""Blocks: the rows of a long computation, some at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block."""


class RowBlock(NamedTuple):
    """Some rows.

    Arguments:
        rows: their numbers.
        padded: the same, repeated up to a height that all blocks share, so that one shape is compiled.
    """

    rows: Int[np.ndarray, " rows"]
    padded: Int[np.ndarray, " height"]


def row_blocks(n_rows: int, cells_per_row: int, step: int = 1) -> Iterator[RowBlock]:
    """All rows in order.

    Arguments:
        n_rows: how many there are.
        cells_per_row: numbers per row in the largest array that is made of a block.
        step: heights are multiples of it, so that data of similar size share what is compiled.

    >>> [block.padded.tolist() for block in row_blocks(3, BLOCK_CELLS // 2)]
    [[0, 1], [2, 2]]
    """
    height = min(-(-n_rows // step) * step, max(step, BLOCK_CELLS // max(cells_per_row, 1)))
    for start in range(0, n_rows, max(height, 1)):
        rows = np.arange(start, min(start + height, n_rows))
        yield RowBlock(rows, np.resize(rows, height))
