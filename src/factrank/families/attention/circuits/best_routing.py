r"""Test whether some attention weights would make a fact right while circuits and direct path stay fixed.

If the weight $a_h \in [0, 1]$ of each head is free, the logits at (k, q) are

$$z(a) = \mathrm{direct}[q] + \sum_h V^h[q] + \sum_h a_h \bigl( V^h[k] - V^h[q] \bigr),$$

linear in a. The best margin $\max_a (\min_{v \in S} z_v - \max_{v \notin S} z_v)$ is therefore a linear program:
maximise t subject to $z_v \ge u + t$ for v in the fiber S and $z_v \le u$ outside. With one head, every pair of a value
and a competitor gives an interval of weights, and the fact is routable if and only if their intersection is not empty.

If some weights make a wrong fact right, routing fails; if none do, storage fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linprog

from factrank.families.attention.layer_tensor import LayerTensor

LEAST_LEAD = 1e-9
"""Margins below this fraction of the largest logit difference are treated as rounding."""


class FreeLogits(NamedTuple):
    """Logits of some facts as functions of the attention weights: base + sum_h a_h steps[h]."""

    base: Float[np.ndarray, "n values"]
    steps: Float[np.ndarray, "n heads values"]


def free_logits(parts: LayerTensor, pairs: Int[np.ndarray, "n 2"]) -> FreeLogits:
    """Return the logits at some pairs as functions of the attention weights, in float64."""
    n_keys = parts.attention.shape[1]
    circuits, direct = np.asarray(parts.circuits), np.asarray(parts.direct)
    at_key = np.moveaxis(circuits[:, pairs[:, 0]], 0, 1).astype(np.float64)
    at_query = np.moveaxis(circuits[:, n_keys + pairs[:, 1]], 0, 1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for finite results
        return FreeLogits(direct[pairs[:, 1]].astype(np.float64) + at_query.sum(axis=1), at_key - at_query)


def routable(
    parts: LayerTensor, pairs: Int[np.ndarray, "n 2"], fibers: Int[np.ndarray, "n m"]
) -> Bool[np.ndarray, " n"]:
    """Return for each fact whether some attention weights make it right; False if a part is not finite."""
    free = free_logits(parts, pairs)
    found = np.zeros(len(pairs), dtype=bool)
    for fact, (base, steps, fiber) in enumerate(zip(*free, fibers, strict=True)):
        if np.isfinite(base).all() and np.isfinite(steps).all():
            own = np.isin(np.arange(len(base)), fiber)
            found[fact] = _in_interval(base, steps[0], own) if len(steps) == 1 else best_margin(base, steps, own) > 0
    return found


def best_margin(
    base: Float[np.ndarray, " values"], steps: Float[np.ndarray, "heads values"], own: Bool[np.ndarray, " values"]
) -> float:
    """Return the largest margin over weights in [0, 1], at the weights found; 0 if it is only rounding."""
    if own.all():
        return np.inf
    scale = _scale(base, steps)
    n_heads, side = len(steps), np.where(own, -1.0, 1.0)
    # side * (base + steps^T a - u) + [own] t <= 0 in the variables a, u, t, the logits divided by their scale.
    rows = np.column_stack([side[:, None] * steps.T / scale, -side, own.astype(np.float64)])
    limits = [(0, 1)] * n_heads + [(None, None)] * 2
    solution = linprog(np.append(np.zeros(n_heads + 1), -1.0), A_ub=rows, b_ub=-side * base / scale, bounds=limits)
    if solution.x is None:
        return -np.inf
    logits = base + np.clip(solution.x[:n_heads], 0.0, 1.0) @ steps
    margin = float(logits[own].min() - logits[~own].max())
    return 0.0 if abs(margin) <= LEAST_LEAD * scale else margin


def _in_interval(
    base: Float[np.ndarray, " values"], step: Float[np.ndarray, " values"], own: Bool[np.ndarray, " values"]
) -> bool:
    """Return whether some a in [0, 1] has base_v + a step_v > base_w + a step_w for v in the fiber, w outside."""
    lead = (base[own][:, None] - base[~own]).ravel() - LEAST_LEAD * _scale(base, step[None])
    slope = (step[own][:, None] - step[~own]).ravel()
    rising, falling = slope > 0, slope < 0
    with np.errstate(over="ignore"):  # a slope near zero imposes no limit
        above = (-lead[rising] / slope[rising]).max(initial=-np.inf)
        below = (-lead[falling] / slope[falling]).min(initial=np.inf)
    level = (lead[slope == 0] > 0).all()
    return bool(level and above < below and above < 1 and below > 0)


def _scale(base: Float[np.ndarray, " values"], steps: Float[np.ndarray, "heads values"]) -> float:
    return float(np.ptp(base) + np.ptp(steps, axis=1).sum()) or 1.0
