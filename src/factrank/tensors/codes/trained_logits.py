r"""Trained logits: CP models of few terms that recall every fact, found by training and then proved exactly.

The model $T[k, q, v] = \sum_{r \le R} a_r[k]\, b_r[q]\, c_r[v]$ is fitted to the facts of a functional database by
full-batch cross-entropy with weight decay,

    sum over facts of (log sum_v exp T[k, q, v] - T[k, q, f])  +  lambda / 2 (|a|^2 + |b|^2 + |c|^2),

by L-BFGS. The decay falls in stages from strong, where few minima exist, to almost none; several starts enter and the
better ones go on. As soon as every fact is right the factors are rounded to a coarse integer grid, and the bound is
claimed only if the exact least margin of the integer logits is positive.
"""

from __future__ import annotations

import time
from functools import partial
from math import ceil, log2

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.optimize import minimize

from factrank.tensors.codes.parabola import CodeBound
from factrank.tensors.core import IntegerLogits, ZeroOneTensor, rounded

DECAYS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)
"""Weight decay of each stage."""

SURVIVORS = (4, 2, 1)
"""Starts in the first, second and all later stages."""

HOPELESS_FROM = 0.02
"""From this decay on a round ends when more than one fact and 5 % are still wrong."""

ITERATIONS = 200
"""Most L-BFGS steps of one stage."""

INITIAL_SCALE = 0.4
"""Standard deviation of the factors at the start."""

GRIDS = range(3, 17)
"""Bits of the integer grids that are tried, coarse ones first."""

BITS_PER_PARAMETER = 2.6
"""What trained CP models hold: the number of terms to begin with is n log2 V / (2.6 (K + Q + V - 3))."""

LARGEST_LOGITS = 20_000_000
"""Most facts x values: the logits of all facts are held at once."""

PER_LOGIT = 1.2e-8
"""Seconds per fact and value of one evaluation."""


def expected_terms(tensor: ZeroOneTensor) -> int:
    """The number of terms with which training usually succeeds on a random table of this size."""
    free = max(sum(tensor.shape) - 3, 1)
    return ceil(len(tensor) * log2(max(tensor.shape[2], 2)) / (BITS_PER_PARAMETER * free))


def trained_bound(
    tensor: ZeroOneTensor, between: tuple[int, int], seconds: float, rng: np.random.Generator
) -> CodeBound | None:
    """The least number of terms that training certifies, or None.

    Begins one above `expected_terms`, goes down by one after each success, and up by one while nothing has succeeded.

    Arguments:
        tensor: the core of a functional database.
        between: a lower bound of the effective rank, and the upper bound to beat.
        seconds: the search ends after about this time.
        rng: draws the starts.
    """
    lower, best = max(between[0], 1), between[1]
    deadline = time.monotonic() + seconds
    rounds = 1 + min(len(tensor) // 8, 7)
    terms = max(min(expected_terms(tensor) + 1, best - 1), lower)
    found: IntegerLogits | None = None
    while lower <= terms < best:
        logits = train(tensor, terms, rounds, deadline, rng)
        if logits is None and (found is not None or time.monotonic() > deadline):
            break
        terms += 1 if logits is None else -1
        found = logits or found
    return CodeBound(found.keys.shape[1], found.decomposition) if found else None


def train(
    tensor: ZeroOneTensor, n_terms: int, rounds: int, deadline: float, rng: np.random.Generator
) -> IntegerLogits | None:
    """Certified logits with this many terms, or None after all rounds or at the deadline (`time.monotonic`)."""
    loss = _Loss(tensor, n_terms, deadline)
    for _ in range(rounds):
        starts = [INITIAL_SCALE * rng.normal(size=loss.n_parameters) for _ in range(SURVIVORS[0])]
        for stage, decay in enumerate(DECAYS):
            ended: list[tuple[float, Float[np.ndarray, " parameters"]]] = []
            for start in starts[: SURVIVORS[min(stage, len(SURVIVORS) - 1)]]:
                reached, parameters = loss.minimise(start, decay)
                if loss.wrong(parameters) == 0:
                    logits = certified(tensor, *loss.factors(parameters))
                    if logits is not None:
                        return logits
                if time.monotonic() > deadline:
                    return None
                ended.append((reached, parameters))
            starts = [parameters for _, parameters in sorted(ended, key=lambda end: end[0])]
            if decay <= HOPELESS_FROM and loss.wrong(starts[0]) > 1 + len(tensor) // 20:
                break
    return None


def certified(
    tensor: ZeroOneTensor,
    keys: Float[np.ndarray, "keys terms"],
    queries: Float[np.ndarray, "queries terms"],
    values: Float[np.ndarray, "values terms"],
) -> IntegerLogits | None:
    """The factors on the coarsest integer grid on which every exact margin is positive; None if there is none.

    Adding a number to all values of a term changes no margin, so the values are centred first; the scales of keys and
    queries go into the values.
    """
    values = values - (values.max(axis=0) + values.min(axis=0)) / 2
    values = values * np.abs(keys).max(axis=0) * np.abs(queries).max(axis=0)
    largest = float(np.abs(values).max(initial=0.0))
    if not 0 < largest < np.inf:
        return None
    for bits in GRIDS:
        on_values = np.rint(values / largest * 2**bits).astype(np.int64)
        logits = IntegerLogits(rounded(keys, bits), rounded(queries, bits), on_values)
        if logits.least_margin(tensor) > 0:
            return logits
    return None


class _Loss:
    """The loss of the module's formula and its gradient, over the parameters of all three factors in one vector."""

    def __init__(self, tensor: ZeroOneTensor, n_terms: int, deadline: float) -> None:
        self.key, self.query, self.value = tensor.coordinates.T
        self.n_terms, self.deadline, self.facts = n_terms, deadline, np.arange(len(tensor))
        self.splits = [tensor.shape[0] * n_terms, (tensor.shape[0] + tensor.shape[1]) * n_terms]
        self.n_parameters = sum(tensor.shape) * n_terms
        ones = np.ones(len(tensor))
        self.sum_by_key, self.sum_by_query = (
            sp.csr_array((ones, (place, self.facts)), shape=(size, len(tensor)))
            for place, size in zip((self.key, self.query), tensor.shape[:2], strict=True)
        )

    def factors(
        self, parameters: Float[np.ndarray, " parameters"]
    ) -> tuple[Float[np.ndarray, "_ terms"], Float[np.ndarray, "_ terms"], Float[np.ndarray, "_ terms"]]:
        """Keys, queries and values, one column per term."""
        keys, queries, values = (part.reshape(-1, self.n_terms) for part in np.split(parameters, self.splits))
        return keys, queries, values

    def wrong(self, parameters: Float[np.ndarray, " parameters"]) -> int:
        """The number of facts whose value is not strictly largest."""
        keys, queries, values = self.factors(parameters)
        logits = (keys[self.key] * queries[self.query]) @ values.T
        own = logits[self.facts, self.value]
        logits[self.facts, self.value] = -np.inf
        return int(np.count_nonzero(~(own > logits.max(axis=1))))

    def __call__(
        self, parameters: Float[np.ndarray, " parameters"], decay: float
    ) -> tuple[float, Float[np.ndarray, " parameters"]]:
        keys, queries, values = self.factors(parameters)
        at_key, at_query = keys[self.key], queries[self.query]
        both = at_key * at_query
        logits = both @ values.T
        logits -= logits.max(axis=1, keepdims=True)
        own = logits[self.facts, self.value]
        odds = np.exp(logits, out=logits)
        total = odds.sum(axis=1)
        loss = float((np.log(total) - own).sum() + decay / 2 * (parameters @ parameters))
        odds /= total[:, None]
        odds[self.facts, self.value] -= 1
        back = odds @ values
        gradient = [self.sum_by_key @ (back * at_query), self.sum_by_query @ (back * at_key), odds.T @ both]
        return loss, np.concatenate([part.ravel() for part in gradient]) + decay * parameters

    def minimise(
        self, start: Float[np.ndarray, " parameters"], decay: float
    ) -> tuple[float, Float[np.ndarray, " parameters"]]:
        """L-BFGS from a start, for at most `ITERATIONS` steps or until the deadline."""

        def stop_in_time(xk: Float[np.ndarray, " parameters"]) -> None:  # noqa: ARG001 - the optimiser gives its point
            if time.monotonic() > self.deadline:
                raise StopIteration

        with np.errstate(over="ignore", invalid="ignore"):  # a start that overflows ends with an infinite loss
            result = minimize(
                partial(self, decay=decay),
                start,
                jac=True,
                method="L-BFGS-B",
                callback=stop_in_time,
                options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6},
            )
        reached = float(result.fun)
        return reached if np.isfinite(reached) else np.inf, np.asarray(result.x)
