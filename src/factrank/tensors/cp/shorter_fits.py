r"""Shorter numerical decompositions of large tensors, found from a longer one that is known.

The largest terms of a known decomposition, slightly moved, are the start of a fit by conjugate gradients (`cp_fit`)
with fewer terms; a fit that converges is the next start. This also works far below the rank of a generic tensor, where
random starts fail because there are more equations than unknowns, and where structure decides. For the same reason no
interval test can prove such a fit: it is an estimate, with its residual.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from factrank.tensors.cp.cp_equations import Factors, Terms, balance, term_norms
from factrank.tensors.cp.cp_fit import RIDGES, Problem, improve
from factrank.tensors.cp.cp_search import Attempt, CPBound, settled_residual

MOVED = 0.05
"""Standard deviation of the change of an entry of the start, relative to the typical entry."""

STRUCTURED_STEP = 0.25
"""Fraction of the open interval by which the number of terms falls if structure decides; otherwise half of it."""

PRODUCTS = 2_500
"""Typical number of products with the normal matrix of a fit."""

PER_OPERATION = 1e-10
"""Seconds per operation of a product."""


def fit_seconds(shape: tuple[int, int, int], n_terms: int, n_fibers: int | None = None) -> float:
    """Returns the expected time of a fit; `n_fibers` is the number of fibers if only some are fitted."""
    operations = 6.0 * n_terms**2 * sum(shape) if n_fibers is None else 10.0 * n_fibers * shape[2] * n_terms
    return 0.05 + PER_OPERATION * PRODUCTS * operations


def shortened(
    problem: Problem, known: Factors, between: tuple[int, int], generic: int, seconds: float, rng: np.random.Generator
) -> CPBound:
    """Searches for a numerical decomposition with at least `between[0]` and fewer than `between[1]` terms.

    Arguments:
        problem: the tensor and the fibers that are fitted.
        known: a decomposition with `between[1]` terms or more.
        between: a lower bound on the number of terms, and the upper bound to beat.
        generic: the rank of a generic tensor of this size; the search does not go below it if it is less than the upper
            bound, since solutions are rare there.
        seconds: time limit.
        rng: moves the starts.
    """
    end, (least, best) = time.monotonic() + seconds, between
    structured = generic >= best
    failed = max(least, 1) - 1 if structured else max(least, generic) - 1
    factors, estimate, attempts = known, None, list[Attempt]()
    while failed + 1 < best and (left := end - time.monotonic()) > 0:
        terms = best - max(int((STRUCTURED_STEP if structured else 0.5) * (best - failed)), 1)
        fit = improve(problem, _start(factors, terms, rng), seconds=left / 2, ridge=RIDGES[0], damping=0.01)
        attempts.append(Attempt(terms, dict(Counter([fit.status])), False, settled_residual(fit.residual, fit.status)))
        if fit.status == "converged":
            best, factors, estimate = terms, fit.factors, fit
        else:
            failed = terms
    return CPBound(None, None, estimate, tuple(attempts))


def _start(known: Factors, n_terms: int, rng: np.random.Generator) -> Terms:
    """Returns the largest terms, moved."""
    balanced = balance(known)
    kept = np.sort(np.argsort(-term_norms(balanced), kind="stable")[:n_terms])
    a, b, c = (factor[:, kept] for factor in balanced)
    return _moved(a, rng), _moved(b, rng), _moved(c, rng)


def _moved(factor: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    typical = float(np.sqrt(np.mean(factor**2))) or 1.0
    return np.asarray(factor + MOVED * typical * rng.normal(size=factor.shape))
