r"""Codes for sets: a matrix of rank 2m reads out every table with at most m values per row.

With $t_v = 2 \pi v / V$, the code of value v is $(\cos j t_v, \sin j t_v)_{j = 1..m}$, and the row of a set S contains
the coefficients, without the constant, of

$-\prod_{s \in S} (2 - 2 \cos(t - t_s)) = -|p(e^{it})|^2, \quad p(z) = \prod_{s \in S} (z - e^{i t_s}),$

a trigonometric polynomial of degree |S| that is zero on S and negative elsewhere. So the values in S tie, all others
are strictly lower, and the readout is *the |S| largest entries*. With the autocorrelation
$r_j = \sum_k p_{k+j} \bar p_k$ of the coefficients of p,
$|p(e^{it})|^2 = r_0 + 2 \sum_j (\mathrm{Re}\, r_j \cos jt - \mathrm{Im}\, r_j \sin jt)$.

The ties are exact up to rounding. The margin is the minimum of $\prod_s 4 \sin^2((t_v - t_s)/2)$ over v outside S. For
neighbouring values it decreases as $(2 \pi/V)^{2m}$, soon below the rounding error of float32. Between two neighbouring
roots the logarithm of the product is a sum of concave functions, hence minimal next to a root: only the values next to
a member have to be checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

import numpy as np
from jaxtyping import Complex, Float, Int

from factrank.errors import InputError
from factrank.tensors.codes.distortion import ReadoutCode, circle

ROUNDING = 1e-12
"""Relative amount by which the reported margin is lowered; more than its rounding error."""


def set_code(sets: Sequence[Collection[int]], n_values: int) -> ReadoutCode:
    """Returns a matrix of rank at most 2m, m = max |S|, whose |S| largest entries in each row are the row's set S.

    An empty set gives a row of zeros.

    Raises:
        InputError: if a value is not in 0, ..., n_values - 1.

    >>> sorted(np.argsort(set_code([{0, 2}, {1}], 5).matrix()[0])[-2:].tolist())
    [0, 2]
    """
    most = max(map(len, sets), default=0)
    points = circle(np.arange(n_values), n_values)
    left, right = np.zeros((len(sets), 2 * most)), np.empty((n_values, 2 * most))
    for rows, members in _by_size(sets, n_values):
        left[rows, : 2 * members.shape[1]] = _coefficients(points[members] @ np.array([1, 1j]))
    for j in range(1, most + 1):
        right[:, 2 * j - 2 : 2 * j] = points[np.arange(n_values) * j % n_values]
    return ReadoutCode(left, right, "set", set_margin(sets, n_values))


def set_margin(sets: Sequence[Collection[int]], n_values: int) -> float:
    """Returns the margin of the code without building it; infinity if every set contains all values.

    >>> round(set_margin([{0, 2}, {1}], 5), 3)  # 4 sin^2(pi/5), between 1 and its neighbours
    1.382
    """
    return min((_margin(members, n_values) for _, members in _by_size(sets, n_values)), default=inf)


def _by_size(
    sets: Sequence[Collection[int]], n_values: int
) -> Iterator[tuple[Int[np.ndarray, " rows"], Int[np.ndarray, "rows size"]]]:
    """Yields the rows of the non-empty sets of each size, and their sorted members."""
    rows: dict[int, list[int]] = {}
    members: dict[int, list[list[int]]] = {}
    for row, values in enumerate(sets):
        ordered = sorted(set(values))
        if ordered and not 0 <= ordered[0] <= ordered[-1] < n_values:
            raise InputError(f"row {row}: expected values from 0 to {n_values - 1}; got {ordered}")
        rows.setdefault(len(ordered), []).append(row)
        members.setdefault(len(ordered), []).append(ordered)
    for size in sorted(rows.keys() - {0}):
        yield np.array(rows[size]), np.array(members[size])


def _coefficients(roots: Complex[np.ndarray, "rows size"]) -> Float[np.ndarray, "rows coefficients"]:
    """Coefficients of -|p|^2 without the constant: (-2 Re r_j, 2 Im r_j) for j = 1..size."""
    n_rows, size = roots.shape
    p = np.ones((n_rows, 1), dtype=np.complex128)
    for j in range(size):
        p = np.pad(p, ((0, 0), (1, 0))) - roots[:, j : j + 1] * np.pad(p, ((0, 0), (0, 1)))
    pairs = np.empty((n_rows, size, 2))
    for j in range(1, size + 1):
        r = (p[:, : size + 1 - j].conj() * p[:, j:]).sum(axis=1)
        pairs[:, j - 1] = 2 * np.column_stack([-r.real, r.imag])
    return pairs.reshape(n_rows, 2 * size)


def _margin(members: Int[np.ndarray, "rows size"], n_values: int) -> float:
    """Minimum of |p|^2 outside the sets."""
    size = members.shape[1]
    if size == n_values:
        return inf
    followed = np.roll(members, -1, axis=1) == (members + 1) % n_values
    products = np.where(np.concatenate([followed, np.roll(followed, 1, axis=1)], axis=1), inf, 1.0)
    neighbours = np.concatenate([members + 1, members - 1], axis=1)
    for j in range(size):
        sines = np.sin(np.pi * ((neighbours - members[:, j : j + 1]) % n_values) / n_values)
        products *= np.where(np.isinf(products), 1.0, 4 * sines**2)
    return float(products.min() * (1 - ROUNDING))
