"""Peeling: take the singleton rows and columns off a sparse matrix, one rank at a time, in near-linear time.

If column j has a single non-zero, at row i, then rank M = 1 + rank(M without row i and column j), over every field in
which that entry is not zero; likewise for a row. The row i (or, for a singleton row, its column) is a *line* that
covers its remaining entries, and the lines are the terms of an explicit factorisation of what was peeled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

DELETED_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Peeling:
    """What peeling took and what it left.

    `row_order` and `column_order` say when a line was taken (-1: never); an entry belongs to the line taken first. What
    neither its row nor its column covers is the core: the entries with `in_core`, in the matrix's coordinate order.
    """

    row_order: Int[np.ndarray, " rows"]
    column_order: Int[np.ndarray, " columns"]

    @property
    def n_lines(self) -> int:
        """The rank of what was peeled."""
        return int((self.row_order >= 0).sum() + (self.column_order >= 0).sum())

    def in_core(self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Which entries no line covers."""
        covered = (self.row_order[rows] >= 0) | (self.column_order[columns] >= 0)
        return np.asarray(~covered)


class _Side:
    """One side of the matrix while it is peeled: the live entries of each of its lines, counted and summed.

    The sum of the positions of a line's live entries names the entry when only one is left.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.starts, self.positions = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.count = np.diff(self.starts)
        self.total = np.add.reduceat(np.append(self.positions, 0), self.starts[:-1]) if len(self.count) else self.count
        self.total = np.where(self.count > 0, self.total, 0)

    def entries(self, lines: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """All entries of some lines, as (line, position)."""
        sizes = self.starts[lines + 1] - self.starts[lines]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(lines, sizes), self.positions[np.repeat(self.starts[lines], sizes) + within]

    def lose(self, lines: Int[np.ndarray, " n"], positions: Int[np.ndarray, " n"]) -> None:
        """These entries are gone."""
        np.subtract.at(self.count, lines, 1)
        np.subtract.at(self.total, lines, positions)


def peel(matrix: sp.csr_array) -> Peeling:
    """Peel until every remaining row and column has at least two entries.

    Singleton columns first, then singleton rows: taking a column never makes another column a singleton, so one pass of
    each is enough.
    """
    rows, columns = _Side(matrix), _Side(sp.csr_array(matrix.T.tocsr()))
    row_order, column_order = np.full(matrix.shape[0], -1), np.full(matrix.shape[1], -1)
    taken = _take(columns, rows, row_order, 0)
    rows.count[row_order >= 0] = 0
    _take(rows, columns, column_order, taken)
    return Peeling(row_order, column_order)


def _take(single: _Side, other: _Side, order: Int[np.ndarray, " lines"], taken: int) -> int:
    """Take the lines of `other` that hold the only entry of a line of `single`, until there are none."""
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
    """A near-linear lower bound of the rank, over every field in which the entries are not zero.

    Peel; where nothing is left to peel, delete the fullest columns (that cannot raise the rank) and go on.
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
        n_deleted = max(1, int(DELETED_SHARE * np.count_nonzero(weight)))
        fullest = np.zeros(matrix.shape[1], dtype=bool)
        fullest[np.argpartition(weight, -n_deleted)[-n_deleted:]] = True
        kept_columns = ~fullest[columns]
        data = entries.data[kept][kept_columns]
        matrix = sp.csr_array((data, (rows[kept_columns], columns[kept_columns])), shape=matrix.shape)
    return rank
