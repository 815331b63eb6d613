"""Factorisation: an integer matrix as a sum of rank-one terms, the witness of an upper bound on its rank.

The terms follow the steps of `matrix_ranks`: one term per peeled line, then, for each remaining piece, its distinct
rows or columns, or an exact rational factorisation M = M[:, pivots] R with the reduced row echelon form R of M.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int, Shaped

from factrank.tensors.core import Factor, distinct
from factrank.tensors.matrix.matrix_ranks import piece_bounds, without_zeros
from factrank.tensors.matrix.peeling import Peeling, peel
from factrank.tensors.matrix.pieces import MatrixPiece, split_core

Entries = tuple[Int[np.ndarray, " _"], Shaped[np.ndarray, " _"]]
RankOne = tuple[Entries, Entries, int]


@dataclass(frozen=True, eq=False)
class Factorisation:
    """A matrix as the sum over r of left[:, r] right[:, r]^T / denominators[r]."""

    left: Factor
    right: Factor
    denominators: Shaped[np.ndarray, " terms"]

    @property
    def n_terms(self) -> int:
        """The number of terms: the sum over blocks of the upper bounds of `matrix_ranks.block_ranks`."""
        return len(self.denominators)


def factorise(matrix: sp.csr_array) -> Factorisation:
    """Returns rank-one terms that add up to an integer matrix; their number is the certified upper bound on its rank.

    >>> factorise(sp.csr_array(np.array([[1, 2], [2, 4]]))).n_terms
    1
    """
    matrix = without_zeros(matrix)
    peeling = peel(matrix)
    left, right, n_lines = _line_terms(matrix, peeling)
    split = split_core(matrix, peeling)
    everything = np.ones(split.rows.n_pieces, dtype=bool)
    terms = [term for piece in split.pieces(everything) for term in _piece_terms(piece)]
    return Factorisation(
        _with_terms(left, [term[0] for term in terms], n_lines),
        _with_terms(right, [term[1] for term in terms], n_lines),
        integers([1] * n_lines + [term[2] for term in terms]),
    )


def integers(numbers: list[int]) -> Shaped[np.ndarray, " n"]:
    """Returns an int64 array, or an object array of Python integers if they do not fit."""
    return np.array(numbers, dtype=np.int64 if all(abs(x) < 2**62 for x in numbers) else object)


def _with_terms(factor: Factor, columns: list[Entries], n_before: int) -> Factor:
    sizes = [len(index) for index, _ in columns]
    return Factor(
        np.concatenate([factor.index, *(index for index, _ in columns)]).astype(np.int64),
        np.concatenate([factor.term, n_before + np.repeat(np.arange(len(columns)), sizes)]).astype(np.int64),
        np.concatenate([factor.weight, *(weight for _, weight in columns)]),
    )


def _line_terms(matrix: sp.csr_array, peeling: Peeling) -> tuple[Factor, Factor, int]:
    """One term per peeled line: its unit vector times the entries that it covers and no earlier line does."""
    entries = matrix.tocoo()
    never = matrix.shape[0] + matrix.shape[1]
    row_time = np.where(peeling.row_order < 0, never, peeling.row_order)[entries.row]
    column_time = np.where(peeling.column_order < 0, never, peeling.column_order)[entries.col]
    by_row, by_column = row_time < column_time, column_time < row_time
    rows, row_term = distinct(entries.row[by_row].astype(np.int64))
    columns, column_term = distinct(entries.col[by_column].astype(np.int64))
    column_term += len(rows)
    ones = np.ones(len(rows) + len(columns), dtype=np.int64)
    left = Factor(
        np.concatenate([rows, entries.row[by_column]]).astype(np.int64),
        np.concatenate([np.arange(len(rows)), column_term]),
        np.concatenate([ones[: len(rows)], entries.data[by_column]]),
    )
    right = Factor(
        np.concatenate([entries.col[by_row], columns]).astype(np.int64),
        np.concatenate([row_term, len(rows) + np.arange(len(columns))]),
        np.concatenate([entries.data[by_row], ones[len(rows) :]]),
    )
    return left, right, len(ones)


def _piece_terms(piece: MatrixPiece) -> Iterator[RankOne]:
    """Yields the distinct rows, the distinct columns, or an exact rational factorisation, whichever is smallest."""
    _, upper = piece_bounds(piece)
    if upper < piece.size:
        yield from _rational_terms(piece)
    elif piece.matrix.shape[0] == upper:
        for term, (index, weight) in enumerate(_lines(piece.matrix)):
            right = _spread(piece.columns, piece.column_class, index, weight)
            yield _members(piece.rows, piece.row_class, term), right, 1
    else:
        for term, (index, weight) in enumerate(_lines(sp.csr_array(piece.matrix.T.tocsr()))):
            left = _spread(piece.rows, piece.row_class, index, weight)
            yield left, _members(piece.columns, piece.column_class, term), 1


def _lines(matrix: sp.csr_array) -> Iterator[Entries]:
    for start, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        yield matrix.indices[start:end], matrix.data[start:end]


def _members(lines: Int[np.ndarray, " n"], classes: Int[np.ndarray, " n"], chosen: int) -> Entries:
    index = lines[classes == chosen]
    return index, np.ones(len(index), dtype=np.int64)


def _spread(
    lines: Int[np.ndarray, " n"],
    classes: Int[np.ndarray, " n"],
    index: Int[np.ndarray, " m"],
    weight: Shaped[np.ndarray, " m"],
) -> Entries:
    """Expands a sparse vector over the distinct lines to all lines."""
    by_class = np.zeros(int(classes.max()) + 1, dtype=weight.dtype)
    by_class[index] = weight
    spread = by_class[classes]
    return lines[spread != 0], spread[spread != 0]


def _rational_terms(piece: MatrixPiece) -> Iterator[RankOne]:
    """Yields M = M[:, pivots] R / m, where R / m is the reduced row echelon form of M."""
    from flint import fmpz_mat  # noqa: PLC0415 - only exact arithmetic needs it

    dense = piece.matrix.toarray()
    echelon, denominator, rank = fmpz_mat(dense.tolist()).rref()
    for row in ([int(x) for x in numbers] for numbers in echelon.tolist()[:rank]):
        support = np.array([column for column, x in enumerate(row) if x])
        common = gcd(int(denominator), *row) * (1 if denominator > 0 else -1)
        weight = integers([row[column] // common for column in support])
        pivot = np.flatnonzero(dense[:, support[0]])
        yield (
            _spread(piece.rows, piece.row_class, pivot, dense[pivot, support[0]]),
            _spread(piece.columns, piece.column_class, support, weight),
            int(denominator) // common,
        )
