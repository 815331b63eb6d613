"""Decompositions into few fibers of a tensor, using exact bases of its slices: the witness of U5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from factrank.tensors.core import Decomposition, Factor, ZeroOneTensor, distinct, flattening, pair_index
from factrank.tensors.matrix import integers, matrix_rank_bounds


def fiber_decomposition(tensor: ZeroOneTensor, first: int, second: int) -> Decomposition:
    """Returns T = sum over i in I, j in J of A[:, i] (x) B[:, j] (x) T[i, j, :], where I and J are bases of the slices.

    There is one term for each non-zero fiber T[i, j, :], so at most r_first r_second terms.
    """
    third = 3 - first - second
    bases = {axis: _slice_basis(tensor, axis) for axis in (first, second)}
    chosen = np.isin(tensor.coordinates[:, first], bases[first].rows)
    chosen &= np.isin(tensor.coordinates[:, second], bases[second].rows)
    pairs, term = distinct(pair_index(tensor, first, second)[chosen])
    index = np.divmod(pairs, max(tensor.shape[second], 1))
    factors = {third: Factor.indicator(tensor.coordinates[chosen, third], term)}
    for axis, index_of_term in zip((first, second), index, strict=True):
        factors[axis] = _gather(bases[axis], index_of_term)
    denominator = [bases[first].denominator * bases[second].denominator] * len(pairs)
    return Decomposition((factors[0], factors[1], factors[2]), integers(denominator))


class _SliceBasis(NamedTuple):
    """Slice s is the sum over pivot slices r of coefficients[r][s] / denominator times slice r."""

    rows: Int[np.ndarray, " rank"]
    coefficients: list[list[tuple[int, int]]]
    denominator: int


def _slice_basis(tensor: ZeroOneTensor, axis: int) -> _SliceBasis:
    matrix = flattening(tensor, axis)
    if matrix_rank_bounds(matrix)[1] == matrix.shape[0]:
        return _SliceBasis(np.arange(matrix.shape[0]), [[(s, 1)] for s in range(matrix.shape[0])], 1)
    from flint import fmpz_mat  # noqa: PLC0415 - only exact arithmetic needs it

    echelon, denominator, rank = fmpz_mat(matrix.toarray().T.tolist()).rref()
    reduced = [[int(x) for x in row] for row in echelon.tolist()[:rank]]
    rows = [next(s for s, x in enumerate(row) if x) for row in reduced]
    sign = 1 if denominator > 0 else -1
    # Column s of the echelon form expresses slice s by the pivot slices; by_pivot lists these coefficients per pivot.
    by_pivot = [[(s, sign * x) for s, x in enumerate(row) if x] for row in reduced]
    return _SliceBasis(np.array(rows), by_pivot, abs(int(denominator)))


def _gather(basis: _SliceBasis, pivot_of_term: Int[np.ndarray, " terms"]) -> Factor:
    """Returns the factor whose term t is the column of coefficients of its pivot slice."""
    place = {int(row): at for at, row in enumerate(basis.rows)}
    columns = [basis.coefficients[place[int(pivot)]] for pivot in pivot_of_term]
    return Factor(
        np.array([s for column in columns for s, _ in column], dtype=np.int64),
        np.repeat(np.arange(len(columns)), [len(column) for column in columns]),
        integers([x for column in columns for _, x in column]),
    )
