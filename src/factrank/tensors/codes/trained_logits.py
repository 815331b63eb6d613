r"""Trained logits: CP models with few terms that recall every fact, found by training and proved exactly.

The model $T[k, q, v] = \sum_r a_r[k]\, b_r[q]\, c_r[v]$ is fitted to the facts by L-BFGS, with the separation loss
(`separation_loss`) and weight decay. The decay is lowered in stages from strong, with few minima, to almost none, and
after each stage the weights of the fibers that are still wrong are doubled. Once every fiber is correct, the factors
are rounded to a coarse integer grid. A bound is claimed only if the exact least margin of the integer logits is
positive.

Databases may be functional or set-valued: a fiber with several values is correct if each of them exceeds all others.

The same search serves other goals (`LogitGoal`): bent logits (see `separation_loss`), judged by another proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from factrank.tensors.codes.separation_loss import Factors, Parameters, SeparationLoss
from factrank.tensors.core import IntegerLogits, ZeroOneTensor, rounded

Found = TypeVar("Found")
OnAttempt = Callable[[int, bool | None], None]

DECAYS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)
"""Weight decay of each stage."""

HOPELESS_DECAY, HOPELESS_FRACTION = 0.05, 0.06
"""A start ends early if more than this fraction of the fibers (and more than one) is wrong after this stage."""

BOOST = 2.0
"""Factor for the weights of wrong fibers after each stage."""

ITERATIONS = 100
"""Maximum number of L-BFGS steps per stage."""

INITIAL_SCALE = 0.4
"""Standard deviation of the initial factors."""

COLLAPSED = 1e-3
"""A term whose factors are below this is lost, as no gradient leads away from 0. Bent terms start again then."""

GRIDS = range(3, 17)
"""Bits of the integer grids to try, coarse ones first."""

BITS_PER_PARAMETER = 2.6
"""Empirical capacity of trained CP models, so the expected number of terms is n log2 V / (2.6 (K + Q + V - 3))."""

LARGEST_LOGITS = 8_000_000
"""Maximum of valid fibers x values, as the logits of all fibers are in memory at the same time."""

PER_LOGIT = 2e-8
"""Seconds per logit of one evaluation of the loss."""

LEAST_SECONDS, USUAL_EVALUATIONS = 0.5, 3_000
"""Time for the search on the smallest tables, and evaluations of the loss for the others."""

SHARE = 0.5
"""Fraction of the remaining time that one attempt may take after the first success, while the search bisects."""

FIRST_STARTS, MOST_STARTS = 3, 40
"""Starts at a number of terms while the search halves or bisects, and starts just below the least number proved."""


def expected_terms(tensor: ZeroOneTensor) -> int:
    """Returns the number of terms with which training usually succeeds on a random table of this size."""
    free = max(sum(tensor.shape) - 3, 1)
    return ceil(len(tensor) * log2(max(tensor.shape[2], 2)) / (BITS_PER_PARAMETER * free))


def n_logits(tensor: ZeroOneTensor) -> int:
    """Returns the number of logits of all valid fibers."""
    return len(tensor.pairs_without(2)) * tensor.shape[2]


def training_seconds(tensor: ZeroOneTensor) -> float:
    """Returns the time in which the search usually gets close to its best; 0 if the table is too large for it."""
    if len(tensor) > LARGEST_LOGITS or n_logits(tensor) > LARGEST_LOGITS:
        return 0.0
    return LEAST_SECONDS + USUAL_EVALUATIONS * PER_LOGIT * n_logits(tensor)


@dataclass(frozen=True)
class LogitGoal(Generic[Found]):
    """The kind of logits to train, and the proof that accepts them.

    Arguments:
        accept: maps the three factors and the biases of logits that are correct to a proved result; None if the proof
            fails, and training continues.
        bent: whether the logits are bent (see `separation_loss`); otherwise the biases are 0.
        depth: every value has to exceed its rivals by more than this before `accept` is called.
        first: the search starts at this fraction of `expected_terms`; less than 1 if a table probably has structure.
        clock: what deadlines refer to: `time.monotonic`, or `time.thread_time` so that a busy machine does not end a
            search early.
    """

    accept: Callable[[Factors, Float[np.ndarray, " values"]], Found | None]
    bent: bool = False
    depth: float = 0.0
    first: float = 1.0
    clock: Callable[[], float] = time.monotonic


def in_integers(tensor: ZeroOneTensor) -> LogitGoal[IntegerLogits]:
    """Returns the goal of integer factors with a positive exact margin."""
    return LogitGoal(lambda factors, _: certified(tensor, *factors))


def trained_codes(
    tensor: ZeroOneTensor,
    between: tuple[int, int],
    deadline: float,
    rng: np.random.Generator,
    on_attempt: OnAttempt = lambda _, __: None,
) -> Iterator[IntegerLogits]:
    """Yields integer logits with fewer and fewer terms, proved by their exact margins; see `fewer_terms`."""
    return fewer_terms(tensor, between, deadline, rng, in_integers(tensor), on_attempt)


def fewer_terms(
    tensor: ZeroOneTensor,
    between: tuple[int, int],
    deadline: float,
    rng: np.random.Generator,
    goal: LogitGoal[Found],
    on_attempt: OnAttempt = lambda _, __: None,
) -> Iterator[Found]:
    """Yields proved logits with fewer and fewer terms.

    Starts one above the goal's fraction of `expected_terms`. The number of terms is halved after each success (and
    doubled until the first one); after the first failure the interval is bisected. Then the number just below the best
    is tried with many starts, on until they fail.

    Arguments:
        tensor: the facts, functional or set-valued.
        between: a lower bound on the number of terms, and the upper bound to beat.
        deadline: time of the goal's clock at which to stop.
        rng: draws the starts.
        goal: the kind of logits and their proof.
        on_attempt: called with a number of terms and None before it is tried, and with the outcome after.
    """
    failed, best = max(between[0], 1) - 1, between[1]
    few, many = _starts(len(tensor))
    attempt = partial(_attempt, tensor, goal, rng, on_attempt)
    terms, halving, doubling = int(goal.first * expected_terms(tensor)) + 1, True, True
    while failed + 1 < best and goal.clock() < deadline:
        terms = min(max(terms, failed + 1), best - 1)
        now = goal.clock()
        share = 1.0 if best == between[1] else SHARE
        logits = attempt(terms, few, now + share * (deadline - now))
        if logits is not None:
            yield logits
            best, doubling = terms, False
            terms = best // 2 if halving else (failed + best) // 2
        else:
            failed, halving = terms, False
            terms = 2 * terms if doubling else (failed + best) // 2
    while between[0] < best < between[1] and goal.clock() < deadline:
        logits = attempt(best - 1, many, deadline)
        if logits is None:
            return
        yield logits
        best -= 1


def _starts(n_facts: int) -> tuple[int, int]:
    """Numbers of starts while the search halves and bisects, and for the last attempts; few for small tables."""
    many = 1 + min(n_facts // 8, MOST_STARTS - 1)
    return min(FIRST_STARTS, many), many


def _attempt(
    tensor: ZeroOneTensor,
    goal: LogitGoal[Found],
    rng: np.random.Generator,
    on_attempt: OnAttempt,
    n_terms: int,
    starts: int,
    deadline: float,
) -> Found | None:
    on_attempt(n_terms, None)
    logits = train_towards(goal, tensor, n_terms, starts, deadline, rng)
    on_attempt(n_terms, logits is not None)
    return logits


def train_logits(
    tensor: ZeroOneTensor, n_terms: int, starts: int, deadline: float, rng: np.random.Generator
) -> IntegerLogits | None:
    """Returns logits with this many terms and a positive exact margin; None if all starts fail or at the deadline.

    Arguments:
        tensor: the facts, functional or set-valued.
        n_terms: the number of terms.
        starts: the number of random starts.
        deadline: `time.monotonic` time at which to stop.
        rng: draws the starts.
    """
    return train_towards(in_integers(tensor), tensor, n_terms, starts, deadline, rng)


def train_towards(
    goal: LogitGoal[Found],
    tensor: ZeroOneTensor,
    n_terms: int,
    starts: int,
    deadline: float,
    rng: np.random.Generator,
) -> Found | None:
    """Returns what the goal accepts of logits with this many terms; None if all starts fail or at the deadline."""
    loss = SeparationLoss.of(tensor, n_terms, bent=goal.bent)
    for start in rng.spawn(starts):
        parameters = drawn = INITIAL_SCALE * start.normal(size=loss.n_parameters)
        weights = np.ones(len(loss))
        for decay in DECAYS:
            if goal.bent:
                parameters = _revived(loss, parameters, drawn)
            parameters = _minimise(loss, parameters, decay, weights, goal, deadline)
            wrong = loss.wrong(parameters, goal.depth)
            if not wrong.any():
                found = goal.accept(loss.factors(parameters), loss.biases(parameters))
                if found is not None:
                    return found
            if goal.clock() > deadline:
                return None
            if decay == HOPELESS_DECAY and loss.wrong(parameters).sum() > 1 + HOPELESS_FRACTION * len(loss):
                break
            weights[wrong] *= BOOST
    return None


def _revived(loss: SeparationLoss, parameters: Parameters, drawn: Parameters) -> Parameters:
    """Returns the parameters with the terms that collapsed as they were drawn."""
    revived = parameters.copy()
    factors = loss.factors(revived)
    lost = np.max([np.abs(factor).max(axis=0) for factor in factors], axis=0) < COLLAPSED
    for factor, first in zip(factors, loss.factors(drawn), strict=True):
        factor[:, lost] = first[:, lost]
    return revived


def _minimise(
    loss: SeparationLoss,
    start: Parameters,
    decay: float,
    weights: Float[np.ndarray, " fibers"],
    goal: LogitGoal[Found],
    deadline: float,
) -> Parameters:
    """Runs L-BFGS until every fiber is correct by the goal's depth, the deadline, or `ITERATIONS` steps are done."""
    highest = np.inf

    def evaluate(parameters: Parameters) -> tuple[float, Parameters]:
        nonlocal highest
        value, gradient, highest = loss.evaluate(parameters, decay, weights)
        return value, gradient

    def stop_in_time(xk: Parameters) -> None:  # noqa: ARG001 - SciPy passes the current point
        if highest < -goal.depth or goal.clock() > deadline:
            raise StopIteration

    with np.errstate(over="ignore", invalid="ignore"):  # overflow gives an infinite loss
        result = minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=stop_in_time,
            options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6},
        )
    return np.asarray(result.x)


def certified(
    tensor: ZeroOneTensor,
    keys: Float[np.ndarray, "keys terms"],
    queries: Float[np.ndarray, "queries terms"],
    values: Float[np.ndarray, "values terms"],
) -> IntegerLogits | None:
    """Returns the factors on the coarsest integer grid on which every exact margin is positive, or None.

    Adding a constant to all values of a term changes no margin, so the values are centred first. They absorb the scales
    of keys and queries.
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
