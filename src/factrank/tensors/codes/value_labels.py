r"""Label search: an order of the values that a low-rank table can realise, the upper bound E2 with free labels.

A table G of rank r separates the values if the intervals spanned by G on the facts of different values are disjoint.
Then $T[k, q, v] = 2 G[k, q]\, c_v + d_v$ recalls every fact with r + 1 terms: as functions of G these are lines, with
slopes $c_v = 0, 1, 2, \dots$ in the order of the intervals. Neighbours v, w with v below w intersect in the middle of
their gap, $d_w = d_v - (\max G_v + \min G_w)$, so the upper envelope over each interval is the line of its value.

E2 is the special case $G[k, q] = x_{f(k, q)}$ with labels x. The search alternates between labels and factors of
$G = A B^T$:

    minimise over A, then over B:   rho sum (G - mean of G over the value's facts)^2 + sum (G - mean of G - x_f)^2
    labels x: a mixture of the means of G and their ranks, which keep the labels apart,

with increasing rho, from many random starts. Cells without a fact are free. The result is rounded to integers, and a
bound is claimed only if the exact least margin is positive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from factrank.tensors.core import IntegerLogits, ZeroOneTensor, rounded

STEPS = 30
"""Number of rounds per start."""

TIGHTENING = (5.0, 30.0)
"""The weight rho in the first and in the last round."""

RANK_SHARE = 0.7
"""Weight of the ranks in the labels, against the means of G."""

GRIDS = range(4, 21, 4)
"""Bits of the integer grids to try for A and B, coarse ones first."""

LARGEST_SYSTEM = 800
"""Maximum number of unknowns of one factor, slices x r."""

LARGEST_DESIGN = 10_000_000
"""Maximum size of one design matrix, (facts + values) x unknowns."""

STARTS_PER_PASS = 4
"""Number of starts at a rank before the next rank is tried."""


def fits(tensor: ZeroOneTensor, rank: int) -> bool:
    """Returns whether the systems of this rank are small enough for a dense solver."""
    unknowns = rank * max(tensor.shape[:2])
    return unknowns <= LARGEST_SYSTEM and unknowns * (len(tensor) + tensor.shape[2]) <= LARGEST_DESIGN


def labelled_codes(
    tensor: ZeroOneTensor,
    between: tuple[int, int],
    deadline: float,
    rng: np.random.Generator,
    on_attempt: Callable[[int, bool | None], None] = lambda _, __: None,
) -> Iterator[IntegerLogits]:
    """Yields certified logits with fewer and fewer terms. Every value must occur in a fact.

    All ranks are tried in turn, low ones first, with a few starts per turn. Takes the arguments of `trained_codes`.
    """
    problem = _Problem.of(tensor)
    n_passes, best = 1 + min(len(tensor) // 8, 40), between[1]
    for _ in range(n_passes if tensor.shape[2] > 2 else 0):
        for rank in range(max(between[0] - 1, 1), min(tensor.shape[:2])):
            if rank > best - 2 or not fits(tensor, rank) or time.monotonic() > deadline:
                break
            on_attempt(rank + 1, None)
            for _ in range(STARTS_PER_PASS):
                logits = _one_start(problem, rank, deadline, rng)
                if logits is not None:
                    best = rank + 1
                    yield logits
                    break


@dataclass(frozen=True, eq=False)
class _Problem:
    tensor: ZeroOneTensor
    key: Int[np.ndarray, " facts"]
    query: Int[np.ndarray, " facts"]
    value: Int[np.ndarray, " facts"]
    uses: Int[np.ndarray, " values"]

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> _Problem:
        key, query, value = tensor.coordinates.T
        return cls(tensor, key, query, value, np.bincount(value, minlength=tensor.shape[2]))


def _one_start(problem: _Problem, rank: int, deadline: float, rng: np.random.Generator) -> IntegerLogits | None:
    """Runs one start of the alternating search; None if it finds no certified separation."""
    n_keys, n_queries, n_values = problem.tensor.shape
    right = rng.normal(size=(n_queries, rank))
    goal = rng.normal(size=n_values)[problem.value]
    for weight in np.geomspace(*TIGHTENING, STEPS).tolist():
        try:
            left = _fit(problem, (problem.key, n_keys), np.linalg.qr(right)[0][problem.query], goal, weight)
            left = np.linalg.qr(left)[0]
            right = _fit(problem, (problem.query, n_queries), left[problem.key], goal, weight)
        except LinAlgError:
            return None
        table = np.einsum("nr,nr->n", left[problem.key], right[problem.query])
        if _separates(table, problem.value, n_values):
            return _certified(problem, left, right)
        if time.monotonic() > deadline:
            return None
        goal = _labels(table, problem)[problem.value]
    return None


def _fit(
    problem: _Problem,
    side: tuple[Int[np.ndarray, " facts"], int],
    other: Float[np.ndarray, "facts rank"],
    goal: Float[np.ndarray, " facts"],
    weight: float,
) -> Float[np.ndarray, "slices rank"]:
    """Solves the least-squares problem of the module docstring for one factor, by its normal equations."""
    place, n_slices = side
    n_facts, rank = other.shape
    by_slice = np.zeros((n_facts, n_slices, rank))
    by_slice[np.arange(n_facts), place] = other
    design = by_slice.reshape(n_facts, -1)
    by_value = np.zeros((len(problem.uses), n_slices, rank))
    np.add.at(by_value, (problem.value, place), other)
    sums = by_value.reshape(len(problem.uses), -1) / np.sqrt(np.maximum(problem.uses, 1))[:, None]
    total = design.sum(axis=0)
    normal = (1 + weight) * (design.T @ design) - weight * (sums.T @ sums) - np.outer(total, total) / n_facts
    normal[np.diag_indices_from(normal)] += 1e-8 * n_facts / len(normal)
    solution = cho_solve(cho_factor(normal), design.T @ (goal - goal.mean()))
    return np.asarray(solution).reshape(n_slices, rank)


def _labels(table: Float[np.ndarray, " facts"], problem: _Problem) -> Float[np.ndarray, " values"]:
    means = np.bincount(problem.value, table, len(problem.uses)) / np.maximum(problem.uses, 1)
    ranks = np.argsort(np.argsort(means, kind="stable"), kind="stable").astype(np.float64)
    return RANK_SHARE * _standard(ranks) + (1 - RANK_SHARE) * _standard(means)


def _standard(numbers: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.asarray((numbers - numbers.mean()) / max(float(numbers.std()), 1e-12))


def _separates(table: Float[np.ndarray, " n"] | Int[np.ndarray, " n"], value: Int[np.ndarray, " n"], most: int) -> bool:
    """Whether the facts, sorted by table entry, form one run per value (ties are left to the exact check)."""
    in_order = value[np.argsort(table, kind="stable")]
    return int(np.count_nonzero(np.diff(in_order))) < most


def _certified(
    problem: _Problem, left: Float[np.ndarray, "keys rank"], right: Float[np.ndarray, "queries rank"]
) -> IntegerLogits | None:
    """The factors on the coarsest grid on which every exact margin is positive, or None."""
    scale = np.abs(left).max(axis=0) * np.abs(right).max(axis=0)
    balanced = left / np.abs(left).max(axis=0).clip(1e-300) * scale
    for bits in GRIDS:
        keys = np.rint(balanced / max(float(scale.max()), 1e-300) * 2**bits).astype(np.int64)
        logits = envelope(problem.tensor, keys, rounded(right, bits))
        if logits is not None and logits.least_margin(problem.tensor) > 0:
            return logits
    return None


def envelope(
    tensor: ZeroOneTensor, keys: Int[np.ndarray, "keys rank"], queries: Int[np.ndarray, "queries rank"]
) -> IntegerLogits | None:
    """Returns the lines of the module docstring over the integer table G = keys queries^T; None if G does not separate.

    A value without facts gets a line parallel to the first and below it.
    """
    key, query, value = tensor.coordinates.T
    table = np.einsum("nr,nr->n", keys[key], queries[query])
    order = np.argsort(table, kind="stable")
    in_order, heights = value[order], table[order]
    ends = np.flatnonzero(np.diff(in_order))
    names = in_order[np.append(ends, len(order) - 1)]
    if len(np.unique(names)) < len(names) or np.any(heights[ends] == heights[ends + 1]):
        return None
    slopes, offsets = np.zeros(tensor.shape[2], dtype=np.int64), np.full(tensor.shape[2], -1)
    slopes[names] = np.arange(len(names))
    offsets[names] = -np.append(0, np.cumsum(heights[ends] + heights[ends + 1]))
    ones = [np.ones((size, 1), dtype=np.int64) for size in tensor.shape[:2]]
    lines = np.repeat(2 * slopes[:, None], keys.shape[1], axis=1)
    return IntegerLogits(
        np.hstack([keys, ones[0]]), np.hstack([queries, ones[1]]), np.hstack([lines, offsets[:, None]])
    )
