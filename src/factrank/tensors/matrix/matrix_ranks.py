"""Certified ranks of sparse integer matrices, block by block.

Singleton rows and columns are peeled off (exact over the rationals), and the rest is split into connected pieces. For
each piece, a modular rank is a lower bound and the number of distinct rows or columns an upper bound. If they differ, a
piece of moderate size is ranked exactly over the rationals, by python-flint or, if that is not installed, modulo many
primes. Small pieces, of which there may be very many, are ranked in one batch: their minors are smaller than the prime
(Hadamard), so the modular rank is the rational rank.
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
"""Pieces with more cells than this stay sparse, with `triangular_rank` as their lower bound,"""

THIN_SIDE = 2_000
PROJECTION_WORK = 1_000_000_000
"""unless their smaller side is short: then the longer side is projected, which cannot raise the rank."""

PROJECTION_STEP, PROJECTION_MARGIN = 4096, 16

RATIONAL_SIZE = 600
"""Pieces whose smaller side is at most this long are ranked exactly."""

PRIME_WORK = 1_000_000_000
"""Maximum number of multiplications without python-flint: a second or two."""


@dataclass(frozen=True, eq=False)
class BlockRanks:
    """Certified lower and upper bounds on the rational rank of each block of a block-diagonal matrix."""

    lower: Int[np.ndarray, " blocks"]
    upper: Int[np.ndarray, " blocks"]


def matrix_rank_bounds(matrix: sp.csr_array) -> tuple[int, int]:
    """Returns certified lower and upper bounds on the rational rank of an integer matrix."""
    ranks = block_ranks(matrix, np.zeros(matrix.shape[0], dtype=np.int64), 1)
    return int(ranks.lower[0]), int(ranks.upper[0])


def block_ranks(matrix: sp.csr_array, block_of_row: Int[np.ndarray, " rows"], n_blocks: int) -> BlockRanks:
    """Returns bounds on the ranks of the blocks of a block-diagonal integer matrix, given the block of each row."""
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
    """Returns the matrix without stored zeros.

    Raises:
        ValueError: if an entry is a multiple of `PRIME`.
    """
    if not np.all(matrix.data):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if np.any(matrix.data % PRIME == 0):
        raise ValueError(f"matrix entries must not be multiples of {PRIME}, the prime used for modular ranks")
    return matrix


def piece_bounds(piece: MatrixPiece) -> tuple[int, int]:
    """Returns certified lower and upper bounds on the rank of a piece."""
    if piece.n_cells > DENSE_CELLS:
        thin = piece.size <= THIN_SIDE and piece.matrix.nnz * piece.size <= PROJECTION_WORK
        return projected_rank(piece.matrix) if thin else triangular_rank(piece.matrix), piece.size
    lower = rank_mod_prime(piece.matrix.toarray())
    if lower < piece.size <= RATIONAL_SIZE:
        exact = affordable_rank(piece.matrix.toarray())
        return (lower, piece.size) if exact is None else (exact, exact)
    return lower, piece.size


def projected_rank(matrix: sp.csr_array) -> int:
    """Returns a lower bound on the rank of a thin matrix, by a random projection of its longer side modulo `PRIME`."""
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
    """Returns the exact rank over the rationals, using python-flint if installed and many primes otherwise.

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
    """Returns the exact rank, or None if python-flint is not installed and the primes would take too long."""
    if prime_work(matrix) > PRIME_WORK and find_spec("flint") is None:
        return None
    return rational_rank(matrix)
