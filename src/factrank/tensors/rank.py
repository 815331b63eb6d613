"""The bracket of the rank of D: upper bounds U1 to U7 and lower bounds B1 to B3, cheap ones first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds import Bound, RankBounds
from factrank.tensors.decomposition import lift
from factrank.tensors.koszul import Koszul, koszul_choices
from factrank.tensors.ledger import Ledger
from factrank.tensors.lower import LowerBound, flattening_bound, flattening_ranks, with_koszul
from factrank.tensors.reference_values import reference_bound
from factrank.tensors.spanning_tree import spanning_tree_bound
from factrank.tensors.upper import SLICE_BOUND, UpperBound, best_upper, facts_bound, flattenings_bound, slices_bound
from factrank.tensors.zero_one import AXES, AXIS_NAMES, Core, ZeroOneTensor, others

PER_FACT = 1.5e-6
"""Seconds per fact of a near-linear pass, for deciding what fits into the budget."""

PER_CUBE = 2.5e-10
"""Seconds per n^3 of a modular elimination of an n x n matrix."""

KOSZUL_SHARE = 0.6
"""Share of the time left that Koszul flattenings may take: others come after them."""

KOSZUL_COMPONENTS = 3


def rank_bounds(core: Core, ledger: Ledger) -> RankBounds:
    """The bracket of the rank of a tensor, given its core."""
    if not len(core.tensor):
        nothing = Bound(0, "no facts")
        return RankBounds(nothing, nothing)
    flat_lower, flat_upper = _flattenings(core, ledger)
    lower = rank_lower_bounds(core, ledger, to_beat=0, flat_lower=flat_lower, koszul=False)
    upper, tried = _upper_bounds(core, ledger, flat_upper, lambda: max(bound.value for bound in lower))
    if upper.value > max(bound.value for bound in lower):
        best = max(bound.value for bound in lower)
        lower += rank_lower_bounds(core, ledger, to_beat=best, flat_lower=flat_lower)
    found = [_as_bound(bound, core, ledger) for bound in tried]
    combined = [] if upper in tried else [_as_bound(upper, core, ledger)]
    return RankBounds.best_of(lower, found + combined, ledger.take_skipped())


def _as_bound(bound: UpperBound, core: Core, ledger: Ledger) -> Bound:
    seconds = ledger.seconds.get(bound.method, 0.0)
    return Bound(bound.value, bound.method, witness=lambda: lift(bound.decomposition(), core), seconds=seconds)


def _flattenings(
    core: Core, ledger: Ledger
) -> tuple[dict[int, Int[np.ndarray, " c"]], dict[int, Int[np.ndarray, " c"]]]:
    """Bounds of the flattening ranks per component; the value axis, which is trivial if functional, in any case."""
    lower, upper = {}, {}
    for axis in (2, 0, 1):
        expected = 0 if axis == 2 else 4 * PER_FACT * len(core.tensor)
        ranks = ledger.run(f"B1 {AXIS_NAMES[axis]} flattening", expected, partial(flattening_ranks, core, axis))
        if ranks is not None:
            lower[axis], upper[axis] = ranks
    return lower, upper


def _upper_bounds(
    core: Core, ledger: Ledger, flat_upper: dict[int, Int[np.ndarray, " c"]], lower: Callable[[], int]
) -> tuple[UpperBound, list[UpperBound]]:
    """The best upper bound, component by component, and all that were computed; stops when it meets the lower bound."""
    tensor, found = core.tensor, list[UpperBound]()
    linear = PER_FACT * len(tensor)
    steps: list[tuple[str, float, Callable[[], UpperBound]]] = [("U1 facts", 0, partial(facts_bound, core))]
    for axis in (1, 0, 2):
        name = f"{SLICE_BOUND[axis]} {AXIS_NAMES[axis]} slices"
        steps.append((name, 0 if axis < 2 else 3 * linear, partial(slices_bound, core, axis)))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        if first in flat_upper and second in flat_upper:
            name = f"U5 {AXIS_NAMES[first]} x {AXIS_NAMES[second]} flattening"
            steps.append((name, 0, partial(flattenings_bound, core, flat_upper, first, second)))
    for z in (2, 0, 1):
        for x, y in (others(z)[::-1], others(z)) if tensor.determined[z] else ():
            name = f"U7 reference value by {AXIS_NAMES[x]}"
            steps.append((name, 2 * linear, partial(reference_bound, core, x, y)))
    for axis in (1, 0, 2):
        name = f"U6 spanning tree of {AXIS_NAMES[axis]} slices"
        steps.append((name, 10 * linear, partial(spanning_tree_bound, core, axis)))
    for name, expected, compute in steps:
        if found and best_upper(core, found).value == lower():
            ledger.skip(name, "the bounds already meet")
            continue
        bound = ledger.run(name, expected, compute)
        if bound is not None:
            found.append(bound)
    return best_upper(core, found), found


def rank_lower_bounds(
    core: Core,
    ledger: Ledger,
    *,
    to_beat: int,
    flat_lower: dict[int, Int[np.ndarray, " c"]] | None = None,
    koszul: bool = True,
) -> list[Bound]:
    """Certified lower bounds of the rank: flattenings of each component, then Koszul flattenings that may do better."""
    if not len(core.tensor):
        return []
    known = _flattenings(core, ledger)[0] if flat_lower is None else flat_lower
    table = np.array([known.get(axis, np.ones(core.n_components, dtype=np.int64)) for axis in AXES])
    base = flattening_bound(table)
    found = [Bound(base.value, base.method, witness=base, seconds=sum(_times(ledger, "B1")))]
    if koszul:
        found += _koszul_bounds(core, ledger, table, base, max(to_beat, base.value))
    return found


def _times(ledger: Ledger, prefix: str) -> list[float]:
    return [seconds for method, seconds in ledger.seconds.items() if method.startswith(prefix)]


def _koszul_bounds(
    core: Core, ledger: Ledger, flat_lower: Int[np.ndarray, "3 c"], base: LowerBound, to_beat: int
) -> list[Bound]:
    """Koszul flattenings of the largest components, small matrices first, as long as they can still improve."""
    found: list[Bound] = []
    sizes = np.bincount(core.fact_component, minlength=core.n_components)
    for component in np.argsort(-sizes, kind="stable")[:KOSZUL_COMPONENTS].tolist():
        rest = int(flat_lower.max(axis=0).sum() - flat_lower[:, component].max())
        part = core.tensor if core.n_components == 1 else core.part(component)
        choices = sorted(koszul_choices(part.shape), key=lambda choice: choice.size)
        if all(rest + choice.cap <= to_beat for choice in choices):
            ledger.skip("B2 Koszul flattening", f"cannot exceed the lower bound {to_beat} at this shape")
        for choice in choices:
            if rest + choice.cap <= to_beat:
                continue
            bound = _koszul_bound(ledger, base, flat_lower, (part, component), choice)
            if bound is not None:
                found.append(bound)
                to_beat = max(to_beat, bound.value)
    return found


def _koszul_bound(
    ledger: Ledger,
    base: LowerBound,
    flat_lower: Int[np.ndarray, "3 c"],
    where: tuple[ZeroOneTensor, int],
    choice: Koszul,
) -> Bound | None:
    part, component = where
    name = f"B2 {choice.name}"
    projecting = PER_FACT * len(part) + 1e-9 * choice.rows * choice.columns * max(part.shape) * (2 * choice.p + 1)
    expected = (PER_CUBE * choice.size**3 + projecting) / KOSZUL_SHARE
    result = ledger.run(name, expected, lambda: with_koszul(base, flat_lower, part, component, choice))
    if result is None:
        return None
    return Bound(result.value, result.method, witness=result, seconds=ledger.seconds[name])
