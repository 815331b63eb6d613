r"""Rows with several values: a matrix of rank 2m reads out every table with at most m values per row.

With $t_v = 2 \pi v / V$, value v has the code $(\cos j t_v, \sin j t_v)_{j = 1..m}$, and a row with the set S the
coefficients, without the constant, of

$-\prod_{s \in S} (2 - 2 \cos(t - t_s)) = -|p(e^{it})|^2, \quad p(z) = \prod_{s \in S} (z - e^{i t_s}),$

a trigonometric polynomial of degree |S|: zero on S, negative elsewhere. Hence ties on S, everything else strictly
lower, and the readout is *the |S| largest entries*. With the autocorrelation $r_j = \sum_k p_{k+j} \bar p_k$ of the
coefficients of p, $|p(e^{it})|^2 = r_0 + 2 \sum_j (\mathrm{Re}\, r_j \cos jt - \mathrm{Im}\, r_j \sin jt)$.

The ties hold up to rounding. The margin is the least $\prod_s 4 \sin^2((t_v - t_s)/2)$ over v outside S, which falls
as $(2 \pi/V)^{2m}$ for neighbours: count errors with `code_precision.holds` in the precision that is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

import numpy as np
from jaxtyping import Float

from factrank.errors import InputError
from factrank.tensors.distortion import ReadoutCode, circle

ROUNDING = 1e-12
"""The margin is reported a little lower, by more than its own rounding."""


def set_code(sets: Sequence[Collection[int]], n_values: int) -> ReadoutCode:
    """The matrix of rank at most 2m whose |S| largest entries in each row are the row's set S; m = max |S|.

    An empty set is a row of zeros.

    >>> sorted(np.argsort(set_code([{0, 2}, {1}], 5).matrix()[0])[-2:].tolist())
    [0, 2]
    """
    members = [sorted(set(values)) for values in sets]
    for row, values in enumerate(members):
        if values and not 0 <= values[0] <= values[-1] < n_values:
            raise InputError(f"row {row}: expected values from 0 to {n_values - 1}, got {values}")
    most = max(map(len, members), default=0)
    points = circle(np.arange(n_values), n_values)
    right = np.empty((n_values, 2 * most))
    for j in range(1, most + 1):
        right[:, 2 * j - 2 : 2 * j] = points[np.arange(n_values) * j % n_values]
    left = np.array([_coefficients(points[values], most) for values in members]).reshape(len(members), 2 * most)
    margin = min((_margin(values, n_values) for values in members), default=inf)
    return ReadoutCode(left, right, "set", margin)


def _coefficients(roots: Float[np.ndarray, "size 2"], most: int) -> Float[np.ndarray, " coefficients"]:
    """The coefficients of -|p|^2 without the constant: (-2 Re r_j, 2 Im r_j) for j = 1..most; zeros beyond |S|."""
    pairs = np.zeros((most, 2))
    if len(roots):
        p = np.poly(roots[:, 0] + 1j * roots[:, 1])[::-1].astype(np.complex128)
        r = np.array([np.vdot(p[: len(p) - j], p[j:]) for j in range(1, len(p))])
        pairs[: len(r)] = 2 * np.column_stack([-r.real, r.imag])
    return pairs.ravel()


def _margin(values: list[int], n_values: int) -> float:
    """The least of |p|^2 outside the set: how far the rest lies below the ties."""
    rest = np.setdiff1d(np.arange(n_values), values)
    if not values or not len(rest):
        return inf
    sines = np.sin(np.pi * ((rest[:, None] - np.array(values)) % n_values) / n_values)
    return float(np.prod(4 * sines**2, axis=1).min() * (1 - ROUNDING))
