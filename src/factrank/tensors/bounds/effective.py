r"""Effective rank (argmax): the least rank of a tensor T whose readout is right on every fact.

Right means $\arg\max_v T[k, q, v] = f(k, q)$; a fiber with several values is right when each of them is strictly above
all others. Upper bounds: the completion rank, and for functional databases the parabola codes E1 and E2 (`parabola`),
E2 with a search for labels (`labels`) and trained logits (`logits`), both proved by exact margins. Lower bounds: what a
tensor of rank 0 or 1 cannot show, and for functional databases Forster's bound where only two values occur (`forster`).
The count of `counting` stands among what was tried: typical for the size, not certified.

For the readout softmax>=tau the effective rank of a functional database on its facts is the same: the readout {f} makes
f strictly largest, and logits whose argmax is right need only be scaled up (`threshold`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from factrank.tensors.bounds.ledger import NO_SEARCHES, PER_FACT, Ledger, expected_of
from factrank.tensors.bounds.lower.counting import EXCLUDED_BITS, typical_effective_rank
from factrank.tensors.bounds.lower.forster import FREQUENT_VALUES, two_value_bound
from factrank.tensors.bounds.rank_bounds import Bound, RankBounds
from factrank.tensors.codes.parabola import CodeBound, shared_bias_bound, slicewise_bound
from factrank.tensors.codes.trained_logits import ITERATIONS, LARGEST_LOGITS, PER_LOGIT, trained_bound
from factrank.tensors.codes.value_labels import STEPS, fits, label_bound
from factrank.tensors.core.decomposition import lifted
from factrank.tensors.core.zero_one import AXIS_NAMES, Core, ZeroOneTensor, pair_index

SEARCH_SECONDS = 3.0
"""Most seconds of the label search, and of training; each takes at most half of what is left of the budget."""

PER_MERGING = 0.002
"""Passes of E2 per slice."""


def effective_bounds(core: Core, completion: RankBounds, ledger: Ledger) -> RankBounds:
    """The bracket of the effective rank, given that of the completion rank."""
    inherited = completion.upper
    of_completion = (
        inherited.method if inherited.method.startswith("rank: ") else f"completion rank: {inherited.method}"
    )
    upper = [replace(inherited, method=of_completion)]
    slow = 0.0 if core.tensor.determined[2] else expected_of(3.0, len(core.tensor))
    shown = ledger.run("sets of values in use", slow, lambda: rank_one_bound(core.tensor))
    lower = [shown or incomplete_fiber_bound(core.tensor)]
    if core.tensor.determined[2]:
        upper += _code_bounds(core, ledger, lower[0].value)
    if core.tensor.determined[2] and lower[0].value < min(bound.value for bound in upper):
        forster = _forster(core, ledger, lower[0].value)
        lower += [forster] if forster else []
    if core.tensor.determined[2]:
        upper += _searched_bounds(core, ledger, max(b.value for b in lower), min(b.value for b in upper))
    bounds = RankBounds.best_of(lower, upper, ledger.take_skipped())
    return replace(bounds, tried=(*bounds.tried, _typical(core.tensor))) if core.tensor.determined[2] else bounds


def rank_one_bound(tensor: ZeroOneTensor) -> Bound:
    """0, 1 or 2, by what a tensor of rank 0 or 1 can show (empty and equal value slices taken out).

    Rank 0 is one tie of all values. Every fiber of a rank-one tensor is a multiple of one vector c, so the values of a
    valid fiber are the top or the bottom of c; tops are nested, and so are bottoms. Of three different sets of equal
    size two would be nested: impossible.
    """
    n_values = tensor.shape[2]
    if tensor.determined[2]:
        counted = {0: "no value", 1: "one value", 2: "two values"}.get(n_values, "three or more values")
        return Bound(min(max(n_values - 1, 0), 2), f"{counted} in use")
    sets = _value_sets(tensor)
    if np.bincount([len(values) for values in sets]).max() >= 3:
        return Bound(2, "three or more sets of values in use")
    if any(len(values) < n_values for values in sets):
        return Bound(1, "two or more sets of values in use")
    return Bound(0, "one set of values in use")


def incomplete_fiber_bound(tensor: ZeroOneTensor) -> Bound:
    """1 if some fiber lacks a value: rank 0 is one tie of all values."""
    n_fibers = len(tensor.pairs_without(2))
    if len(tensor) < n_fibers * tensor.shape[2]:
        return Bound(1, "two or more sets of values in use")
    return Bound(0, "one set of values in use")


def _value_sets(tensor: ZeroOneTensor) -> set[tuple[int, ...]]:
    """The different sets of values that fibers have."""
    order = np.lexsort((tensor.coordinates[:, 2], pair_index(tensor, 0, 1)))
    fiber, values = pair_index(tensor, 0, 1)[order], tensor.coordinates[order, 2]
    return {tuple(part.tolist()) for part in np.split(values, np.flatnonzero(np.diff(fiber)) + 1)}


def _code_bounds(core: Core, ledger: Ledger, lower: int) -> list[Bound]:
    """E1 and E2 over queries, then over keys, until one meets the lower bound."""
    tensor, found = core.tensor, list[Bound]()
    steps: list[tuple[str, float, Callable[[], CodeBound]]] = []
    for axis in (1, 0):
        slices = AXIS_NAMES[axis]
        sliced = partial(slicewise_bound, tensor, axis)
        steps.append((f"E1 slice by slice over {slices}", 0.0 if axis == 1 else expected_of(0.5, len(tensor)), sliced))
        shared = partial(shared_bias_bound, tensor, axis)
        steps.append(
            (
                f"E2 shared bias, {slices} slices merged",
                expected_of(1 + PER_MERGING * tensor.shape[axis], len(tensor)),
                shared,
            )
        )
    for name, expected, compute in steps:
        if any(bound.value == lower for bound in found):
            ledger.skip(name, "the bounds already meet")
            continue
        result = ledger.run(name, expected, compute)
        if result is not None:
            found.append(
                Bound(result.value, name, witness=lifted(result.decomposition, core), seconds=ledger.seconds[name])
            )
    return found


def _searched_bounds(core: Core, ledger: Ledger, lower: int, best: int) -> list[Bound]:
    """Label search, then training: both end in time and claim only what their exact margins prove."""
    if not ledger.searches:
        ledger.skip("searches", NO_SEARCHES)
        return []
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    tensor, found = core.tensor, list[Bound]()
    for search in (_label_search, _training):
        name, expected, hindrance, run = search(tensor)
        if best == lower:
            ledger.skip(name, "the bounds already meet")
        elif hindrance:
            ledger.skip(name, hindrance)
        else:
            seconds = min(SEARCH_SECONDS, ledger.left() / 2)
            # Small dense problems: more than one BLAS thread only makes them wait for each other.
            with threadpool_limits(1, user_api="blas"):
                result = ledger.run(name, expected, partial(run, (lower, best), seconds, np.random.default_rng(0)))
            if result is not None:
                best, witness = result.value, lifted(result.decomposition, core)
                found.append(Bound(best, name, witness=witness, seconds=ledger.seconds[name]))
    return found


Search = Callable[[tuple[int, int], float, np.random.Generator], CodeBound | None]
"""Takes the bracket to improve from above, the seconds and the generator of its starts."""


def _label_search(tensor: ZeroOneTensor) -> tuple[str, float, str, Search]:
    """Name, expected seconds of a first look, what stands against it, and the search."""
    expected = 0.01 + 1e-9 * STEPS * len(tensor) * max(tensor.shape[:2]) ** 2
    hindrance = "two values or fewer" if tensor.shape[2] < 3 else "" if fits(tensor, 1) else "the table is too large"
    return "E2 label search", expected, hindrance, partial(label_bound, tensor)


def _training(tensor: ZeroOneTensor) -> tuple[str, float, str, Search]:
    """The same for trained logits."""
    cells = len(tensor) * tensor.shape[2]
    hindrance = "" if cells <= LARGEST_LOGITS else "the table is too large"
    return "trained logits, rounded", 0.01 + PER_LOGIT * ITERATIONS * cells, hindrance, partial(trained_bound, tensor)


def _typical(tensor: ZeroOneTensor) -> Bound:
    name = f"Warren's count: typical for the size, for all but a fraction 2^-{EXCLUDED_BITS}"
    return Bound(typical_effective_rank(*tensor.shape, len(tensor)) if len(tensor) else 0, name, certified=False)


def _forster(core: Core, ledger: Ledger, to_beat: int) -> Bound | None:
    name = "Forster's bound on two values"
    side = min(core.tensor.shape[:2])
    expected = FREQUENT_VALUES**2 / 2 * (PER_FACT * len(core.tensor) / 100 + 1e-10 * side**3)
    value = ledger.run(name, expected, lambda: two_value_bound(core.tensor, to_beat))
    return Bound(value, name, seconds=ledger.seconds[name]) if value else None
