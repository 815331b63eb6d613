r"""Effective rank (argmax): the least rank of a tensor T with $\arg\max_v T[k, q, v] = f(k, q)$ on every fact.

Upper bounds: the completion rank, and for functional databases the parabola codes E1 and E2 (`parabola`). Lower bounds,
functional only: 1 if two values occur, 2 if three do (a rank-one tensor shows only the largest and the least entry of
one vector), and Forster's bound where only two values occur (`forster`). A multi-valued database is right when each of
its values is strictly above all others; nothing better than 0 is claimed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from factrank.tensors.bounds import Bound, RankBounds
from factrank.tensors.decomposition import lifted
from factrank.tensors.forster import FREQUENT_VALUES, two_value_bound
from factrank.tensors.ledger import Ledger
from factrank.tensors.parabola import CodeBound, shared_bias_bound, slicewise_bound
from factrank.tensors.rank import PER_FACT
from factrank.tensors.zero_one import AXIS_NAMES, Core


def effective_bounds(core: Core, completion: RankBounds, ledger: Ledger) -> RankBounds:
    """The bracket of the effective rank, given that of the completion rank."""
    tensor, upper_known = core.tensor, completion.upper
    upper = [replace(upper_known, method=f"completion rank: {upper_known.method}")]
    if not tensor.determined[2]:
        return RankBounds.best_of([Bound(0, "multi-valued: nothing proved")], upper, ledger.take_skipped())
    n_values = tensor.shape[2]
    lower = [Bound(min(max(n_values - 1, 0), 2), f"{_count(n_values)} in use")]
    upper += _code_bounds(core, ledger, lower[0].value)
    if lower[0].value < min(bound.value for bound in upper):
        forster = _forster(core, ledger, lower[0].value)
        lower += [forster] if forster else []
    return RankBounds.best_of(lower, upper, ledger.take_skipped())


def _count(n_values: int) -> str:
    return {0: "no value", 1: "one value", 2: "two values"}.get(n_values, "three or more values")


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
