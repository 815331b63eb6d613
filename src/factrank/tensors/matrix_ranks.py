"""Certified ranks of sparse integer matrices, block by block.

Peel (exact over the rationals); split what is left into connected pieces; on each piece a modular rank is a lower
bound, the number of distinct rows or columns an upper one, and where they differ a piece of moderate size is done
exactly over the rationals with python-flint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.sparse.csgraph import connected_components

from factrank.tensors.modular import PRIME, rank_mod_prime
from factrank.tensors.peeling import Peeling, peel, triangular_rank
from factrank.tensors.zero_one import distinct

DENSE_CELLS = 4_000_000
"""Pieces with more cells than this stay sparse: their lower bound is `triangular_rank`."""

RATIONAL_SIZE = 600
"""Pieces whose smaller side is at most this long get an exact rational rank."""


@dataclass(frozen=True, eq=False)
class BlockRanks:
    """For each block of a block-diagonal matrix, lower and upper bounds of its rational rank, both certified."""

    lower: Int[np.ndarray, " blocks"]
    upper: Int[np.ndarray, " blocks"]


@dataclass(frozen=True, eq=False)
class Piece:
    """A connected piece of the core: its distinct rows and columns, and which row and column each line equals."""

    matrix: sp.csr_array
    rows: Int[np.ndarray, " rows"]
    columns: Int[np.ndarray, " columns"]
    row_class: Int[np.ndarray, " rows"]
    column_class: Int[np.ndarray, " columns"]

    @property
    def size(self) -> int:
        """The number of distinct rows or of distinct columns, whichever is smaller: at least the rank."""
        return min(self.matrix.shape)

    @property
    def is_dense(self) -> bool:
        """Whether it is small enough for a dense array."""
        return self.matrix.shape[0] * self.matrix.shape[1] <= DENSE_CELLS


def rank_bounds(matrix: sp.csr_array) -> tuple[int, int]:
    """Certified lower and upper bound of the rational rank of one integer matrix."""
    ranks = block_ranks(matrix, np.zeros(matrix.shape[0], dtype=np.int64), 1)
    return int(ranks.lower[0]), int(ranks.upper[0])


def block_ranks(matrix: sp.csr_array, block_of_row: Int[np.ndarray, " rows"], n_blocks: int) -> BlockRanks:
    """Bounds of the ranks of the blocks of a block-diagonal integer matrix; rows say which block they belong to."""
    matrix = without_zeros(matrix)
    peeling = peel(matrix)
    lines = np.bincount(block_of_row[peeling.row_order >= 0], minlength=n_blocks)
    entries = matrix.tocoo()
    block_of_column = np.zeros(matrix.shape[1], dtype=np.int64)
    block_of_column[entries.col] = block_of_row[entries.row]
    lines += np.bincount(block_of_column[peeling.column_order >= 0], minlength=n_blocks)
    lower, upper = lines.copy(), lines.copy()
    for piece in pieces(matrix, peeling):
        low, high = piece_bounds(piece)
        block = block_of_row[piece.rows[0]]
        lower[block] += low
        upper[block] += high
    return BlockRanks(lower, upper)


def without_zeros(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix without stored zeros; its entries must stay non-zero modulo `PRIME`."""
    if not np.all(matrix.data):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if np.any(matrix.data % PRIME == 0):
        raise ValueError(f"entries must not be multiples of {PRIME}")
    return matrix


def pieces(matrix: sp.csr_array, peeling: Peeling) -> Iterator[Piece]:
    """The connected pieces of what peeling left."""
    entries = matrix.tocoo()
    kept = peeling.in_core(entries.row, entries.col)
    if not kept.any():
        return
    rows, row_place = distinct(entries.row[kept].astype(np.int64))
    columns, column_place = distinct(entries.col[kept].astype(np.int64))
    core = sp.csr_array((entries.data[kept], (row_place, column_place)), shape=(len(rows), len(columns)))
    n, m = core.shape
    links = sp.coo_array((np.ones(core.nnz, dtype=np.int8), (row_place, n + column_place)), shape=(n + m, n + m))
    count, labels = connected_components(links, directed=False)
    row_groups, column_groups = _groups(labels[:n], count), _groups(labels[n:], count)
    for row_group, column_group in zip(row_groups, column_groups, strict=True):
        piece = core if count == 1 else sp.csr_array(core[row_group][:, column_group])
        row_class, kept_rows = _equal_rows(piece)
        column_class, kept_columns = _equal_rows(sp.csr_array(piece.T.tocsr()))
        small = sp.csr_array(piece[kept_rows][:, kept_columns])
        yield Piece(small, rows[row_group], columns[column_group], row_class, column_class)


def _groups(labels: Int[np.ndarray, " n"], count: int) -> list[Int[np.ndarray, " _"]]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _equal_rows(matrix: sp.csr_array) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " classes"]]:
    """The class of each row among the distinct rows, and the first row of each class."""
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


def piece_bounds(piece: Piece) -> tuple[int, int]:
    """Certified lower and upper bound of the rank of a piece."""
    if not piece.is_dense:
        return triangular_rank(piece.matrix), piece.size
    lower = rank_mod_prime(piece.matrix.toarray())
    if lower < piece.size <= RATIONAL_SIZE:
        lower = rational_rank(piece.matrix.toarray())
        return lower, lower
    return lower, piece.size


def rational_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """The rank over the rationals, exactly, with python-flint.

    >>> rational_rank(np.array([[1, 2, 3], [2, 4, 6]]))
    1
    """
    from flint import fmpz_mat  # noqa: PLC0415 - only exact arithmetic needs it

    return int(fmpz_mat(matrix.tolist()).rank()) if matrix.size else 0
