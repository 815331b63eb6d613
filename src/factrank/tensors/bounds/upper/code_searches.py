"""Label search, then training: both end in time and claim only what their exact margins prove."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, met, no_searches
from factrank.tensors.bounds.upper.code_bounds import code_bound
from factrank.tensors.codes import (
    ITERATIONS,
    LARGEST_LOGITS,
    PER_LOGIT,
    STEPS,
    CodeBound,
    fits,
    label_bound,
    trained_bound,
)
from factrank.tensors.core import ZeroOneTensor

SEARCH_SECONDS = 3.0
"""Most seconds of the label search, and of training; each takes at most half of what is left of the budget."""

CodeSearch = Callable[[ZeroOneTensor, tuple[int, int], float, np.random.Generator], CodeBound | None]
"""Takes the tensor, the bracket to improve from above, the seconds and the generator of its starts."""


def _searched(name: str, search: CodeSearch, bracket: Bracket) -> list[Bound]:
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    seconds = min(SEARCH_SECONDS, bracket.ledger.left() / 2)
    between = bracket.greatest, int(bracket.least)
    # Small dense problems: more than one BLAS thread only makes them wait for each other.
    with threadpool_limits(1, user_api="blas"):
        code = search(bracket.tensor, between, seconds, np.random.default_rng(0))
    return [code_bound(name, code, bracket.core)] if code else []


def _method(
    name: str, search: CodeSearch, cost: Callable[[Bracket], float], hindrance: Callable[[Bracket], str]
) -> BoundMethod:
    return BoundMethod(
        name=name,
        of="effective rank",
        side="upper",
        stage=Stage.SEARCH,
        needs=(functional,),
        refusals=(no_searches, met, hindrance),
        cost=cost,
        run=partial(_searched, name, search),
    )


def _cost_of_labels(bracket: Bracket) -> float:
    """Expected seconds of a first look."""
    return 0.01 + 1e-9 * STEPS * len(bracket.tensor) * max(bracket.tensor.shape[:2]) ** 2


def _against_labels(bracket: Bracket) -> str:
    if bracket.tensor.shape[2] < 3:
        return "two values or fewer"
    return "" if fits(bracket.tensor, 1) else TOO_LARGE


def _logits(bracket: Bracket) -> int:
    return len(bracket.tensor) * bracket.tensor.shape[2]


def _cost_of_training(bracket: Bracket) -> float:
    return 0.01 + PER_LOGIT * ITERATIONS * _logits(bracket)


def _against_training(bracket: Bracket) -> str:
    return "" if _logits(bracket) <= LARGEST_LOGITS else TOO_LARGE


TOO_LARGE = "the table is too large"

METHODS = (
    _method("E2 label search", label_bound, _cost_of_labels, _against_labels),
    _method("trained logits, rounded", trained_bound, _cost_of_training, _against_training),
)
