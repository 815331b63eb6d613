r"""Separation: a direction along which a head distinguishes the tokens it should read from all others.

Only the end token attends, so the score of token t in a head is $x_t \cdot w$ for a single vector w, for any size of
queries and keys: $d_{qk} = 1$ is enough. A head reads the tokens of a set *own* and no *others* if w separates them. If
it reads two of them with known weights, their scores should be equal. Therefore w is the solution of the linear program

$$\min\; (h - l) + \epsilon\,|w|_1 / \sqrt d \quad\text{with}\quad
  l \le x_t \cdot w \le h \;(t \in own), \qquad x_t \cdot w \le l - 1 \;(t \in others);$$

the last term keeps w short, because rounding errors of scores grow with its length. (If the tokens are independent, w
is instead the shortest vector with scores of exactly 1 and 0, a least-squares solution.) The threshold l is free,
because a softmax is invariant to a constant added to all scores. For N tokens in general position and random classes,
such a w exists with probability 1/2 at N = 2 (d + 1) (Cover 1965). Separating keys and queries from the same number of
noise tokens and the end, N = 2 (S + R) + 1, requires d of about S + R. Separating only keys or only queries requires
slightly less, because unequal classes are easier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Float

SHORTNESS = 0.01
"""Weight of the length of w relative to the spread of the scores."""

LEAST_GAP = 0.5
"""Smallest recomputed gap that counts as separated; the linear program requires 1."""

Own = Float[np.ndarray, "own d_model"]
Others = Float[np.ndarray, "others d_model"]


@dataclass(frozen=True, eq=False)
class Separation:
    """A direction and its effect.

    Arguments:
        direction: The vector w.
        gap: The smallest score of a token that is read minus the largest of all others; infinite without others.
        spread: The largest score of a token that is read minus the smallest.
    """

    direction: Float[np.ndarray, " d_model"]
    gap: float
    spread: float


def separate(own: Own, others: Others) -> Separation | None:
    """Return a separating direction, or None if no hyperplane separates the tokens.

    >>> found = separate(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 1.0]]))
    >>> round(found.gap, 6), round(found.spread, 6)
    (1.0, 0.0)
    >>> separate(np.array([[0.0], [2.0]]), np.array([[1.0]])) is None
    True
    """
    n_own, d_model = own.shape
    tokens = np.vstack([own, others])
    shortest = None
    if len(tokens) <= d_model:
        shortest = _judged(np.linalg.pinv(tokens)[:, :n_own].sum(axis=1), own, others)
    return shortest or _by_programme(own, others)


def _by_programme(own: Own, others: Others) -> Separation | None:
    from scipy.optimize import linprog  # noqa: PLC0415 - only needed by constructions

    (n_own, d_model), n_others = own.shape, len(others)
    # The variables are w, bounds of |w|, l and h.
    cost = np.concatenate([np.zeros(d_model), np.full(d_model, SHORTNESS * d_model**-0.5), [-1.0, 1.0]])
    eye, free = np.eye(d_model), np.zeros((d_model, 2))
    above = np.hstack([-own, np.zeros_like(own), np.ones((n_own, 1)), np.zeros((n_own, 1))])
    below = np.hstack([own, np.zeros_like(own), np.zeros((n_own, 1)), -np.ones((n_own, 1))])
    apart = np.hstack([others, np.zeros_like(others), -np.ones((n_others, 1)), np.zeros((n_others, 1))])
    short = np.vstack([np.hstack([eye, -eye, free]), np.hstack([-eye, -eye, free])])
    limits = np.concatenate([np.zeros(2 * n_own), -np.ones(n_others), np.zeros(2 * d_model)])
    system = cast("Any", np.vstack([above, below, apart, short]))
    found = linprog(cost, A_ub=system, b_ub=limits, bounds=(None, None), method="highs")
    if found.status != 0 or found.x is None:
        return None
    return _judged(np.asarray(found.x[:d_model]), own, others)


def _judged(direction: Float[np.ndarray, " d_model"], own: Own, others: Others) -> Separation | None:
    """Compute gap and spread of a direction, or return None if it does not separate."""
    scores = own @ direction
    gap = float(scores.min() - (others @ direction).max(initial=-np.inf))
    return Separation(direction, gap, float(np.ptp(scores))) if gap > LEAST_GAP else None
