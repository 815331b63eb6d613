"""Exact rational decompositions from numerical ones, by progressive rounding.

Numerical decompositions of structured tensors come in families that contain members with small rational entries. Scale
every term such that the largest entries of a_r and b_r are 1. Fix the entries of A and B closest to -1, 0 or 1 (later
halves, quarters and 2), solve again for the others, and backtrack if the residual does not return to zero. Once A and B
are rational, C is the exact solution of a linear system, and multiplying out proves the result.
"""

from __future__ import annotations

import time
from math import lcm
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from factrank.tensors.core import AXES, Decomposition, Factor, ZeroOneTensor
from factrank.tensors.cp.cp_equations import Factors, Fibers, Tensor, join, split
from factrank.tensors.cp.cp_fit import CONVERGED, Problem, improve
from factrank.tensors.matrix import integers

GRIDS = ((-1.0, 0.0, 1.0), (-2.0, -0.5, 0.5, 2.0), tuple(x / 4 for x in range(-8, 9)))
"""Values that entries are rounded to, preferred ones first."""

DENOMINATOR = 4
"""Common denominator of the grids."""

BATCH, ITERATIONS = 16, 25
"""Number of entries rounded at the same time (fewer after a failure), and solver steps in between."""

PATIENCE = 40
"""Number of failed values after which rounding gives up; when it succeeds, it rarely needs half of them."""


def rationalise(
    tensor: ZeroOneTensor, factors: Factors, *, seconds: float, mask: Fibers | None = None
) -> Decomposition | None:
    """Returns an exact decomposition with as many terms as the numerical one near it, or None if rounding fails.

    With a mask, it agrees with the tensor on the valid fibers. Without one, the factor of the longest axis is solved
    for.
    """
    end = time.monotonic() + seconds
    x, y, z = axes = sorted(AXES, key=lambda axis: tensor.shape[axis]) if mask is None else list(AXES)
    permuted = ZeroOneTensor(tensor.coordinates[:, axes], (tensor.shape[x], tensor.shape[y], tensor.shape[z]))
    target = permuted.dense().astype(np.float64)
    rounded = _round_two(target, mask, _scaled((factors[x], factors[y], factors[z])), end)
    if rounded is None:
        return None
    solved = solve_third(permuted, rounded[0], rounded[1], mask)
    if solved is None:
        return None
    decomposition = solved.permuted(axes)
    holds = decomposition.equals(tensor) if mask is None else decomposition.completes(tensor)
    return decomposition if holds else None


def _scaled(factors: Factors) -> Factors:
    a, b, c = factors
    columns = np.arange(a.shape[1])
    top_a, top_b = a[np.abs(a).argmax(axis=0), columns], b[np.abs(b).argmax(axis=0), columns]
    top_a, top_b = np.where(top_a == 0, 1.0, top_a), np.where(top_b == 0, 1.0, top_b)
    return a / top_a, b / top_b, c * (top_a * top_b)


def _round_two(
    target: Tensor, mask: Fibers | None, factors: Factors, end: float
) -> tuple[Int[np.ndarray, "_i _r"], Int[np.ndarray, "_j _r"]] | None:
    """A and B on the grid, times `DENOMINATOR`, such that some C still fits; None if none was found."""
    (i, j, k), rank = target.shape, factors[0].shape[1]
    shape = (i, j, k)
    unknowns, n_rounded = join(factors), (shape[0] + shape[1]) * rank
    free = np.ones(len(unknowns), dtype=bool)
    free[:n_rounded] = unknowns[:n_rounded] != 1.0
    refusals = 0
    for grid in GRIDS:
        values, batch = np.array(grid), BATCH
        refused = np.zeros((n_rounded, len(values)), dtype=bool)
        while free[:n_rounded].any() and not refused[free[:n_rounded]].all():
            if time.monotonic() > end or refusals > PATIENCE:
                return None
            chosen, to = _closest(unknowns[:n_rounded], values, ~refused & free[:n_rounded, None], batch)
            fixed, proposal = free.copy(), unknowns.copy()
            fixed[chosen], proposal[chosen] = False, values[to]
            fit = improve(
                Problem(target, mask, fixed),
                split(proposal, shape, rank),
                seconds=end - time.monotonic(),
                iterations=ITERATIONS,
                damping=1e-3,
            )
            if fit.residual <= 10 * CONVERGED:
                unknowns, free, batch = join(fit.factors), fixed, min(2 * batch, BATCH)
            elif len(chosen) > 1:
                batch = len(chosen) // 2
            else:
                refused[chosen, to] = True
                refusals += 1
    if free[:n_rounded].any():
        return None
    a, b, _ = split(np.rint(DENOMINATOR * unknowns).astype(np.int64), shape, rank)
    return a, b


def _closest(
    entries: Float[np.ndarray, " n"], values: Float[np.ndarray, " v"], allowed: Bool[np.ndarray, "n v"], batch: int
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """The at most `batch` allowed entries closest to a value of the grid, and these values."""
    distance = np.where(allowed, np.abs(entries[:, None] - values), np.inf)
    nearest = distance.argmin(axis=1)
    least = distance.min(axis=1)
    chosen = np.argsort(least, kind="stable")[:batch]
    chosen = chosen[np.isfinite(least[chosen])]
    return chosen, nearest[chosen]


def solve_third(
    tensor: ZeroOneTensor, a: Int[np.ndarray, "i r"], b: Int[np.ndarray, "j r"], mask: Fibers | None = None
) -> Decomposition | None:
    r"""Returns the decomposition with two given integer factors, by exact elimination, or None if there is none.

    Row (i, j) of the system is $\sum_r a_{ir} b_{jr} c_{kr} = T_{ijk}$ for all k. A term without a pivot is zero.
    """
    from flint import fmpz_mat  # noqa: PLC0415 - only exact arithmetic needs it

    i, j, k = tensor.shape
    rank = a.shape[1]
    products = (a[:, None, :] * b[None, :, :]).reshape(i * j, rank)
    system = np.concatenate([products, tensor.dense().reshape(i * j, k)], axis=1)
    system = system if mask is None else system[mask.ravel()]
    echelon, denominator, n_pivots = fmpz_mat(system.tolist()).rref()
    rows = [[int(x) for x in row] for row in echelon.tolist()[:n_pivots]]
    pivots = [next(column for column, x in enumerate(row) if x) for row in rows]
    if pivots and max(pivots) >= rank:
        return None
    sign = 1 if denominator > 0 else -1
    third = np.array([[sign * x for x in row[rank:]] for row in rows], dtype=object).reshape(n_pivots, k)
    common = [abs(int(denominator))] * n_pivots
    return _sparse(a[:, pivots], b[:, pivots], third.T, common)


def _sparse(
    a: Int[np.ndarray, "i r"], b: Int[np.ndarray, "j r"], c: Shaped[np.ndarray, "k r"], denominators: list[int]
) -> Decomposition:
    """Converts dense integer factors and denominators to a decomposition, dividing every vector by its content."""
    columns: list[list[Any]] = [[], [], []]
    reduced = list[int]()
    for r, denominator in enumerate(denominators):
        vectors = [[int(x) for x in factor[:, r]] for factor in (a, b, c)]
        contents = [int(np.gcd.reduce(np.array(vector, dtype=object))) or 1 for vector in vectors]
        scale = contents[0] * contents[1] * contents[2]
        left = lcm(scale, denominator) // denominator
        reduced.append(lcm(scale, denominator) // scale)
        for column, vector, content in zip(columns, vectors, contents, strict=True):
            column.append([x // content for x in vector])
        columns[2][-1] = [left * x for x in columns[2][-1]]
    factors = []
    for column in columns:
        entries = [(index, term, x) for term, vector in enumerate(column) for index, x in enumerate(vector) if x]
        index, term = (np.array([entry[part] for entry in entries], dtype=np.int64) for part in (0, 1))
        factors.append(Factor(index, term, integers([entry[2] for entry in entries])))
    return Decomposition((factors[0], factors[1], factors[2]), integers(reduced))
