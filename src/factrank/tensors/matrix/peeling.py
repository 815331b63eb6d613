"""Peeling: removes singleton rows and columns from a sparse matrix, one rank at a time, in near-linear time.

If column j has a single non-zero, in row i, then rank M = 1 + rank(M without row i and column j), over every field in
which that entry is non-zero; the same holds for rows. Row i (or, for a singleton row, its column) is a *line* that
covers its remaining entries. The lines are the terms of an explicit factorisation of the peeled part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

from factrank.tensors.core import ranges

DELETED_FRACTION = 0.01


@dataclass(frozen=True, eq=False)
class Peeling:
    """Result of peeling: when each row and column was taken as a line (-1 if never).

    An entry belongs to whichever of its lines was taken first. Entries that no line covers form the core.
    """

    row_order: Int[np.ndarray, " rows"]
    column_order: Int[np.ndarray, " columns"]

    @property
    def n_lines(self) -> int:
        """The rank of the peeled part."""
        return int((self.row_order >= 0).sum() + (self.column_order >= 0).sum())

    def in_core(self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Returns which entries no line covers."""
        covered = (self.row_order[rows] >= 0) | (self.column_order[columns] >= 0)
        return np.asarray(~covered)


class _Side:
    """One side of the matrix during peeling: count of the live entries of each line, and sum of their positions.

    If only one entry is left, the sum is its position.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.starts, self.positions = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.count = np.diff(self.starts)
        self.total = np.add.reduceat(np.append(self.positions, 0), self.starts[:-1]) if len(self.count) else self.count
        self.total = np.where(self.count > 0, self.total, 0)

    def entries(self, lines: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """All entries of some lines, as (line, position)."""
        sizes = self.starts[lines + 1] - self.starts[lines]
        return np.repeat(lines, sizes), self.positions[ranges(self.starts[lines], sizes)]

    def lose(self, lines: Int[np.ndarray, " n"], positions: Int[np.ndarray, " n"]) -> None:
        np.subtract.at(self.count, lines, 1)
        np.subtract.at(self.total, lines, positions)


def peel(matrix: sp.csr_array) -> Peeling:
    """Peels until every remaining row and column has at least two entries.

    One pass over columns followed by one over rows is enough, because taking a column never makes another column a
    singleton.
    """
    rows, columns = _Side(matrix), _Side(sp.csr_array(matrix.T.tocsr()))
    row_order, column_order = np.full(matrix.shape[0], -1), np.full(matrix.shape[1], -1)
    taken = _take(columns, rows, row_order, 0)
    rows.count[row_order >= 0] = 0
    _take(rows, columns, column_order, taken)
    return Peeling(row_order, column_order)


def _take(single: _Side, other: _Side, order: Int[np.ndarray, " lines"], taken: int) -> int:
    """Takes the lines of `other` that contain the only entry of a line of `single`, until there are none."""
    frontier = np.flatnonzero(single.count == 1)
    while len(frontier):
        lines = np.unique(single.total[frontier])
        order[lines] = taken + np.arange(len(lines))
        taken += len(lines)
        holders, touched = other.entries(lines)
        single.lose(touched, holders)
        frontier = np.unique(touched[single.count[touched] == 1])
    return taken


def triangular_rank(matrix: sp.csr_array) -> int:
    """Returns a lower bound on the rank over every field in which the entries are non-zero, in near-linear time.

    Alternates between peeling and deleting the fullest columns, which cannot raise the rank.
    """
    rank = 0
    while matrix.nnz:
        peeling = peel(matrix)
        rank += peeling.n_lines
        entries = matrix.tocoo()
        kept = peeling.in_core(entries.row, entries.col)
        rows, columns = entries.row[kept], entries.col[kept]
        if not len(rows):
            break
        weight = np.bincount(columns, minlength=matrix.shape[1])
        n_deleted = max(1, int(DELETED_FRACTION * np.count_nonzero(weight)))
        fullest = np.zeros(matrix.shape[1], dtype=bool)
        fullest[np.argpartition(weight, -n_deleted)[-n_deleted:]] = True
        kept_columns = ~fullest[columns]
        data = entries.data[kept][kept_columns]
        matrix = sp.csr_array((data, (rows[kept_columns], columns[kept_columns])), shape=matrix.shape)
    return rank
