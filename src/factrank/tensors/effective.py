r"""Effective rank (argmax): the least rank of a tensor T whose readout is right on every fact.

Right means $\arg\max_v T[k, q, v] = f(k, q)$; a fiber with several values is right when each of them is strictly above
all others. Upper bounds: the completion rank, and for functional databases the parabola codes E1 and E2 (`parabola`).
Lower bounds: what a tensor of rank 0 or 1 cannot show, and for functional databases Forster's bound where only two
values occur (`forster`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from factrank.tensors.bounds import Bound, RankBounds
from factrank.tensors.decomposition import lifted
from factrank.tensors.forster import FREQUENT_VALUES, two_value_bound
from factrank.tensors.ledger import Ledger
from factrank.tensors.parabola import CodeBound, shared_bias_bound, slicewise_bound
from factrank.tensors.rank import PER_FACT
from factrank.tensors.zero_one import AXIS_NAMES, Core, ZeroOneTensor, pair_index


def effective_bounds(core: Core, completion: RankBounds, ledger: Ledger) -> RankBounds:
    """The bracket of the effective rank, given that of the completion rank."""
    inherited = completion.upper
    of_completion = (
        inherited.method if inherited.method.startswith("rank: ") else f"completion rank: {inherited.method}"
    )
    upper = [replace(inherited, method=of_completion)]
    lower = [rank_one_bound(core.tensor)]
    if core.tensor.determined[2]:
        upper += _code_bounds(core, ledger, lower[0].value)
    if core.tensor.determined[2] and lower[0].value < min(bound.value for bound in upper):
        forster = _forster(core, ledger, lower[0].value)
        lower += [forster] if forster else []
    return RankBounds.best_of(lower, upper, ledger.take_skipped())


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
        slices, merging = AXIS_NAMES[axis], len(tensor) * tensor.shape[axis]
        steps.append(
            (f"E1 slice by slice over {slices}", PER_FACT * len(tensor) / 4, partial(slicewise_bound, tensor, axis))
        )
        shared = partial(shared_bias_bound, tensor, axis)
        steps.append((f"E2 shared bias, {slices} slices merged", 2e-9 * merging, shared))
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


def _forster(core: Core, ledger: Ledger, to_beat: int) -> Bound | None:
    name = "Forster's bound on two values"
    side = min(core.tensor.shape[:2])
    expected = FREQUENT_VALUES**2 / 2 * (PER_FACT * len(core.tensor) / 100 + 1e-10 * side**3)
    value = ledger.run(name, expected, lambda: two_value_bound(core.tensor, to_beat))
    return Bound(value, name, seconds=ledger.seconds[name]) if value else None
