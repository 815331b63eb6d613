"""Pieces: the connected components of the core that peeling leaves.

Pieces have no row or column in common, so their ranks add up. Small pieces, of which there may be very many, are ranked
in batches; the others one by one, with equal rows and equal columns merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import connected_components

from factrank.tensors.core import distinct
from factrank.tensors.matrix.modular import ranks_mod_prime
from factrank.tensors.matrix.peeling import Peeling

SMALL_SIDE = 12
"""Pieces of at most this many rows and columns with entries +-1 are ranked in batches: minors are at most 12^6."""

PIECES_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class MatrixPiece:
    """A connected piece of the core: the matrix of its distinct rows and columns, and the class of each line."""

    matrix: sp.csr_array
    rows: Int[np.ndarray, " rows"]
    columns: Int[np.ndarray, " columns"]
    row_class: Int[np.ndarray, " rows"]
    column_class: Int[np.ndarray, " columns"]

    @property
    def size(self) -> int:
        """The smaller number of distinct rows and columns, an upper bound on the rank."""
        return min(self.matrix.shape)

    @property
    def n_cells(self) -> int:
        """The number of cells of the dense matrix."""
        return self.matrix.shape[0] * self.matrix.shape[1]


@dataclass(frozen=True, eq=False)
class _Lines:
    """The rows (or columns) of the core, with the piece of each."""

    names: Int[np.ndarray, " lines"]
    piece: Int[np.ndarray, " lines"]
    n_pieces: int

    @cached_property
    def sizes(self) -> Int[np.ndarray, " pieces"]:
        return np.bincount(self.piece, minlength=self.n_pieces)

    @cached_property
    def order(self) -> Int[np.ndarray, " lines"]:
        return np.argsort(self.piece, kind="stable")

    @cached_property
    def place(self) -> Int[np.ndarray, " lines"]:
        """Position of each line within its piece."""
        place = np.empty(len(self.names), dtype=np.int64)
        place[self.order] = np.arange(len(self.names)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        return place

    def of(self, piece: int) -> Int[np.ndarray, " lines"]:
        end = int(self._ends[piece])
        return np.asarray(self.names[self.order[end - int(self.sizes[piece]) : end]])

    @cached_property
    def _ends(self) -> Int[np.ndarray, " pieces"]:
        return np.cumsum(self.sizes)


@dataclass(frozen=True, eq=False)
class MatrixSplit:
    """The core left by peeling, as connected pieces. `row` and `column` of an entry refer to the lines of the core."""

    rows: _Lines
    columns: _Lines
    row: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    weight: Int[np.ndarray, " entries"]

    @cached_property
    def small(self) -> Bool[np.ndarray, " pieces"]:
        """Which pieces have minors that are certain to be smaller than the prime."""
        plain = np.ones(self.rows.n_pieces, dtype=bool)
        plain[self.rows.piece[self.row[np.abs(self.weight) > 1]]] = False
        return plain & (self.rows.sizes <= SMALL_SIDE) & (self.columns.sizes <= SMALL_SIDE)

    def small_ranks(self) -> Int[np.ndarray, " small"]:
        """Returns the exact ranks of the small pieces."""
        number = np.cumsum(self.small) - 1
        chosen = np.flatnonzero(self.small[self.rows.piece[self.row]])
        chosen = chosen[np.argsort(self.rows.piece[self.row[chosen]], kind="stable")]
        of_entry = number[self.rows.piece[self.row[chosen]]]
        n_small = int(self.small.sum())
        ranks = [np.array([], dtype=np.int64)]
        for start in range(0, n_small, PIECES_AT_ONCE):
            low, high = np.searchsorted(of_entry, [start, start + PIECES_AT_ONCE])
            row, column = self.row[chosen[low:high]], self.column[chosen[low:high]]
            stack = np.zeros((min(PIECES_AT_ONCE, n_small - start), SMALL_SIDE, SMALL_SIDE), dtype=np.int8)
            place = of_entry[low:high] - start, self.rows.place[row], self.columns.place[column]
            stack[place] = self.weight[chosen[low:high]]
            ranks.append(ranks_mod_prime(stack))
        return np.concatenate(ranks)

    def pieces(self, wanted: Bool[np.ndarray, " pieces"]) -> Iterator[MatrixPiece]:
        """Yields the selected pieces."""
        of_entry = self.rows.piece[self.row]
        order = np.argsort(of_entry, kind="stable")
        ends = np.cumsum(np.bincount(of_entry, minlength=self.rows.n_pieces))
        for piece in np.flatnonzero(wanted).tolist():
            entries = order[ends[piece - 1] if piece else 0 : ends[piece]]
            places = self.rows.place[self.row[entries]], self.columns.place[self.column[entries]]
            shape = int(self.rows.sizes[piece]), int(self.columns.sizes[piece])
            matrix = sp.csr_array((self.weight[entries], places), shape=shape)
            row_class, kept_rows = _equal_rows(matrix)
            column_class, kept_columns = _equal_rows(sp.csr_array(matrix.T.tocsr()))
            distinct_lines = sp.csr_array(matrix[kept_rows][:, kept_columns])
            yield MatrixPiece(distinct_lines, self.rows.of(piece), self.columns.of(piece), row_class, column_class)


def split_core(matrix: sp.csr_array, peeling: Peeling) -> MatrixSplit:
    """Splits the core left by peeling into connected pieces."""
    entries = matrix.tocoo()
    kept = peeling.in_core(entries.row, entries.col)
    rows, row = distinct(entries.row[kept].astype(np.int64))
    columns, column = distinct(entries.col[kept].astype(np.int64))
    n = len(rows) + len(columns)
    links = sp.coo_array((np.ones(len(row), dtype=np.int8), (row, len(rows) + column)), shape=(n, n))
    count, labels = connected_components(links, directed=False) if n else (0, np.array([], dtype=np.int64))
    labels = labels.astype(np.int64)
    by_row, by_column = _Lines(rows, labels[: len(rows)], count), _Lines(columns, labels[len(rows) :], count)
    return MatrixSplit(by_row, by_column, row, column, entries.data[kept])


def _equal_rows(matrix: sp.csr_array) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " classes"]]:
    """Returns the class of each row, and the first row of each class."""
    matrix.sort_indices()
    seen: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    classes = np.empty(matrix.shape[0], dtype=np.int64)
    for row in range(matrix.shape[0]):
        start, end = matrix.indptr[row], matrix.indptr[row + 1]
        content = (matrix.indices[start:end].tobytes(), matrix.data[start:end].tobytes())
        classes[row] = seen.setdefault(content, len(seen))
        if classes[row] == len(first):
            first.append(row)
    return classes, np.array(first, dtype=np.int64)
