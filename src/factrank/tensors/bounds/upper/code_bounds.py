"""Codes as methods for the effective rank.

E1 and E2, for functional databases, are tried over queries, then over keys, until one meets the lower bound. The label
search (functional databases) and training (all databases) are time-limited and claim only what their exact margins
prove.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, met, met_here, no_searches
from factrank.tensors.codes import (
    ITERATIONS,
    LARGEST_LOGITS,
    PER_LOGIT,
    STEPS,
    CodeBound,
    fits,
    labelled_codes,
    n_logits,
    shared_bias_bound,
    slicewise_bound,
    trained_codes,
)
from factrank.tensors.core import AXIS_NAMES, Core, Decomposition, IntegerLogits, ZeroOneTensor, lift, lifted

PER_MERGING = 0.002
"""Passes over the facts that E2 takes per slice."""

LABELS, TRAINED = "E2 label search", "trained logits, rounded"

SHARES = {LABELS: 0.1, TRAINED: 1.0}
"""Fraction of the remaining budget that each search may take; training is the last one."""

TOO_LARGE = "the table is too large"

OnAttempt = Callable[[int, bool | None], None]
CodeSearch = Callable[[ZeroOneTensor, tuple[int, int], float, np.random.Generator, OnAttempt], Iterator[IntegerLogits]]
"""Maps (tensor, (lower, upper), deadline, generator for the starts, progress) to proved logits with fewer terms."""

_METHOD = partial(BoundMethod, of="effective rank", side="upper")


def _methods() -> Iterator[BoundMethod]:
    for axis in (1, 0):
        slices = AXIS_NAMES[axis]
        yield _construction(f"E1 slice by slice over {slices}", axis, _cost_of_slices, slicewise_bound)
        yield _construction(f"E2 shared bias, {slices} slices merged", axis, _cost_of_merging, shared_bias_bound)
    yield _METHOD(
        name=LABELS,
        stage=Stage.SEARCH,
        needs=(functional,),
        refusals=(no_searches, met, _against_labels),
        cost=_cost_of_labels,
        run=partial(_searched, LABELS, labelled_codes),
    )
    yield _METHOD(
        name=TRAINED,
        stage=Stage.SEARCH,
        refusals=(no_searches, met, _against_training),
        cost=_cost_of_training,
        run=partial(_searched, TRAINED, trained_codes),
    )


def _construction(
    name: str,
    axis: int,
    cost: Callable[[int, Bracket], float],
    code: Callable[[ZeroOneTensor, int], CodeBound],
) -> BoundMethod:
    return _METHOD(
        name=name,
        stage=Stage.CONSTRUCT,
        needs=(functional,),
        refusals=(met_here,),
        cost=partial(cost, axis),
        run=lambda bracket: [_bound(name, code(bracket.tensor, axis), bracket.core)],
    )


def _cost_of_slices(axis: int, bracket: Bracket) -> float:
    return 0.0 if axis == 1 else expected_of(0.5, len(bracket.tensor))


def _cost_of_merging(axis: int, bracket: Bracket) -> float:
    return expected_of(1 + PER_MERGING * bracket.tensor.shape[axis], len(bracket.tensor))


def _searched(name: str, search: CodeSearch, bracket: Bracket) -> list[Bound]:
    """Runs a search for its share of the remaining budget; on Ctrl-C, keeps the best bound so far."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    between, ledger = (bracket.greatest, int(bracket.least)), bracket.ledger
    deadline, best, failures = time.monotonic() + SHARES[name] * ledger.left(), int(bracket.least), Counter[int]()
    found: IntegerLogits | None = None

    def on_attempt(n_terms: int, proved: bool | None) -> None:
        failures[n_terms] += proved is False
        ledger.report(f"{name}: at most {best:,}, trying {n_terms:,}")

    # The problems are small and dense: several BLAS threads would only wait for each other.
    with threadpool_limits(1, user_api="blas"):
        try:
            for found in search(bracket.tensor, between, deadline, np.random.default_rng(0), on_attempt):
                best = found.n_terms
        except KeyboardInterrupt:
            ledger.interrupt(name)
    for n_terms in sorted(n_terms for n_terms, count in failures.items() if count and n_terms < best):
        ledger.skip(f"{name} with {n_terms:,} terms", "tried, not found")
    return [Bound(found.n_terms, name, witness=_witness(found, bracket.core))] if found else []


def _witness(logits: IntegerLogits, core: Core) -> Callable[[], Decomposition]:
    return lambda: lift(logits.decomposition(), core)


def _bound(name: str, code: CodeBound, core: Core) -> Bound:
    return Bound(code.value, name, witness=lifted(code.decomposition, core))


def _cost_of_labels(bracket: Bracket) -> float:
    return 0.01 + 1e-9 * STEPS * len(bracket.tensor) * max(bracket.tensor.shape[:2]) ** 2


def _against_labels(bracket: Bracket) -> str:
    if bracket.tensor.shape[2] < 3:
        return "two values or fewer"
    return "" if fits(bracket.tensor, 1) else TOO_LARGE


def _cost_of_training(bracket: Bracket) -> float:
    return 0.01 + PER_LOGIT * ITERATIONS * n_logits(bracket.tensor)


def _against_training(bracket: Bracket) -> str:
    return "" if n_logits(bracket.tensor) <= LARGEST_LOGITS else TOO_LARGE


METHODS = tuple(_methods())
