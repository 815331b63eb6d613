"""Certified ranks of sparse integer matrices, block by block.

Peel (exact over the rationals); split what is left into connected pieces; on each piece a modular rank is a lower
bound, the number of distinct rows or columns an upper one, and where they differ a piece of moderate size is done
exactly over the rationals, with python-flint or, where that is missing, modulo many primes. Small pieces, of which
there may be very many, are done all at once: their minors are smaller than the prime (Hadamard), so that the modular
rank is the rational one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from factrank.tensors.matrix.many_primes import prime_work, rank_by_primes
from factrank.tensors.matrix.modular import PRIME, rank_mod_prime
from factrank.tensors.matrix.peeling import peel, triangular_rank
from factrank.tensors.matrix.pieces import MatrixPiece, split_core

DENSE_CELLS = 4_000_000
"""Pieces with more cells than this stay sparse: their lower bound is `triangular_rank`."""

THIN_SIDE = 2_000
PROJECTION_WORK = 1_000_000_000
"""Unless their smaller side is short: then the longer side is projected, which cannot raise the rank."""

PROJECTION_STEP, PROJECTION_MARGIN = 4096, 16

RATIONAL_SIZE = 600
"""Pieces whose smaller side is at most this long get an exact rational rank."""

PRIME_WORK = 1_000_000_000
"""Without python-flint only up to so many products, a second or two."""


@dataclass(frozen=True, eq=False)
class BlockRanks:
    """For each block of a block-diagonal matrix, lower and upper bounds of its rational rank, both certified."""

    lower: Int[np.ndarray, " blocks"]
    upper: Int[np.ndarray, " blocks"]


def matrix_rank_bounds(matrix: sp.csr_array) -> tuple[int, int]:
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
    split = split_core(matrix, peeling)
    block_of_piece = np.zeros(split.rows.n_pieces, dtype=np.int64)
    block_of_piece[split.rows.piece] = block_of_row[split.rows.names]
    np.add.at(lines, block_of_piece[split.small], split.small_ranks())
    lower, upper = lines.copy(), lines.copy()
    large = np.flatnonzero(~split.small)
    for block, piece in zip(block_of_piece[large], split.pieces(~split.small), strict=True):
        low, high = piece_bounds(piece)
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


def piece_bounds(piece: MatrixPiece) -> tuple[int, int]:
    """Certified lower and upper bound of the rank of a piece."""
    if piece.n_cells > DENSE_CELLS:
        thin = piece.size <= THIN_SIDE and piece.matrix.nnz * piece.size <= PROJECTION_WORK
        return projected_rank(piece.matrix) if thin else triangular_rank(piece.matrix), piece.size
    lower = rank_mod_prime(piece.matrix.toarray())
    if lower < piece.size <= RATIONAL_SIZE:
        exact = affordable_rank(piece.matrix.toarray())
        return (lower, piece.size) if exact is None else (exact, exact)
    return lower, piece.size


def projected_rank(matrix: sp.csr_array) -> int:
    """A lower bound of the rank of a thin matrix: its longer side projected by random integers, modulo `PRIME`."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else sp.csr_array(matrix.T.tocsr())
    rng = np.random.default_rng(0)
    size = wide.shape[0] + PROJECTION_MARGIN
    projected = np.zeros((wide.shape[0], size), dtype=np.int64)
    by_column = sp.csc_array(wide)
    for start in range(0, wide.shape[1], PROJECTION_STEP):
        part = by_column[:, start : start + PROJECTION_STEP]
        projected += (part @ rng.integers(0, 2**15, (part.shape[1], size))) % PRIME
    return rank_mod_prime(projected % PRIME)


def rational_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """The rank over the rationals, exactly, with python-flint or else modulo many primes.

    >>> rational_rank(np.array([[1, 2, 3], [2, 4, 6]]))
    1
    """
    if not matrix.size:
        return 0
    try:
        from flint import fmpz_mat  # noqa: PLC0415 - only exact arithmetic needs it, and trials run without it
    except ImportError:
        return rank_by_primes(matrix)
    return int(fmpz_mat(matrix.tolist()).rank())


def affordable_rank(matrix: Int[np.ndarray, "rows columns"]) -> int | None:
    """The same, or None where python-flint is missing and the primes would take too long."""
    if prime_work(matrix) > PRIME_WORK and find_spec("flint") is None:
        return None
    return rational_rank(matrix)
