r"""B2, the Koszul flattening (Landsberg and Ottaviani, arXiv 1112.6007): a lower bound beyond the flattening ranks.

Project one axis to dimension 2p + 1, $T = \sum_i a_i \otimes T_i$. The matrix

$$ T^{\wedge p} : \Lambda^p A \otimes B^* \to \Lambda^{p+1} A \otimes C, \quad
   w \otimes \beta \mapsto \sum_i (a_i \wedge w) \otimes T_i(\beta) $$

has block $\pm T_i$ at $(S, S \cup \{i\})$. It has rank $\binom{2p}{p}$ if T has rank one, hence rank T $\ge \lceil$
rank $T^{\wedge p} / \binom{2p}{p} \rceil$. Neither projecting nor reducing modulo a prime can raise a rank, so the
bound is certified no matter which random integers are drawn for the projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from factrank.tensors.core import AXES, AXIS_NAMES, ZeroOneTensor, others
from factrank.tensors.matrix import PRIME, rank_mod_prime

MAX_P = 5
MAX_SIZE = 5_000
"""Maximum side length of a Koszul matrix; longer slices are projected to fit."""


@dataclass(frozen=True)
class Koszul:
    """A Koszul flattening: the wedged axis, p, and the slice sizes after projection."""

    axis: int
    p: int
    rows: int
    columns: int
    seed: int = 0

    @property
    def size(self) -> int:
        """The longer side of the matrix."""
        return comb(2 * self.p + 1, self.p) * max(self.rows, self.columns)

    @property
    def cap(self) -> int:
        """The largest bound that it could prove."""
        n = comb(2 * self.p + 1, self.p) * min(self.rows, self.columns)
        return ceil(n / comb(2 * self.p, self.p))

    @property
    def name(self) -> str:
        """Name for labels."""
        return f"Koszul flattening by {AXIS_NAMES[self.axis]}, p={self.p}"


def koszul_choices(shape: tuple[int, int, int], max_size: int = MAX_SIZE) -> Iterator[Koszul]:
    """Yields all Koszul flattenings of a tensor of this shape whose matrices have sides of at most `max_size`."""
    for axis in AXES:
        row_axis, column_axis = others(axis)
        for p in range(1, min((shape[axis] - 1) // 2, MAX_P) + 1):
            longest = max_size // comb(2 * p + 1, p)
            if longest >= 1:
                yield Koszul(axis, p, min(shape[row_axis], longest), min(shape[column_axis], longest))


def koszul_bound(tensor: ZeroOneTensor, choice: Koszul) -> int:
    """Returns the lower bound on the rank (in fact on the border rank) from one Koszul flattening."""
    return ceil(rank_mod_prime(koszul_matrix(tensor, choice)) / comb(2 * choice.p, choice.p))


def koszul_matrix(tensor: ZeroOneTensor, choice: Koszul) -> Int[np.ndarray, "rows columns"]:
    """Returns the matrix T^p modulo `PRIME`."""
    slices = _projected_slices(tensor, choice)
    size, p = len(slices), choice.p
    subsets = list(combinations(range(size), p))
    place = {subset: at for at, subset in enumerate(combinations(range(size), p + 1))}
    b, c = choice.rows, choice.columns
    matrix = np.zeros((len(subsets) * b, len(place) * c), dtype=np.int64)
    for row, subset in enumerate(subsets):
        for i in sorted(set(range(size)) - set(subset)):
            target = tuple(sorted((*subset, i)))
            sign = (-1) ** target.index(i)
            column = place[target]
            matrix[row * b : (row + 1) * b, column * c : (column + 1) * c] = sign * slices[i]
    return matrix


def _projected_slices(tensor: ZeroOneTensor, choice: Koszul) -> Int[np.ndarray, "size rows columns"]:
    """The 2p + 1 matrices T_i, with all axes projected to the sizes of the choice."""
    rng = np.random.default_rng(choice.seed)
    row_axis, column_axis = others(choice.axis)
    i, rows, columns = (tensor.coordinates[:, axis] for axis in (choice.axis, row_axis, column_axis))
    wedge = _projection(rng, 2 * choice.p + 1, tensor.shape[choice.axis])
    left = _projection(rng, choice.rows, tensor.shape[row_axis])
    right = _projection(rng, choice.columns, tensor.shape[column_axis])
    shape = (tensor.shape[row_axis], tensor.shape[column_axis])
    slices = []
    for weights in wedge:
        matrix = sp.csr_array((weights[i], (rows, columns)), shape=shape)
        matrix.sum_duplicates()
        matrix.data %= PRIME
        half = (right @ matrix.T) % PRIME
        slices.append((left @ half.T) % PRIME)
    return np.array(slices)


def _projection(rng: np.random.Generator, size: int, dimension: int) -> Int[np.ndarray, "size dimension"]:
    """A random integer matrix; the identity if the dimension does not shrink."""
    if size == dimension:
        return np.eye(size, dtype=np.int64)
    return rng.integers(0, 2**15, size=(size, dimension))
