"""The bracket of the rank of D: upper bounds U1 to U7 and lower bounds B1 to B3, cheap ones first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.ledger import PER_FACT, Ledger, expected_of
from factrank.tensors.bounds.lower.flattenings import LowerBound, flattening_bound, flattening_ranks, with_koszul
from factrank.tensors.bounds.lower.koszul import Koszul, koszul_choices
from factrank.tensors.bounds.lower.rank_one_slice import MOST_CELLS, MOST_COMPONENTS, rank_one_slice_bound
from factrank.tensors.bounds.lower.substitution import substitution_bound
from factrank.tensors.bounds.rank_bounds import Bound, RankBounds
from factrank.tensors.bounds.upper.cp_bounds import cp_rank_bounds
from factrank.tensors.bounds.upper.plain_bounds import (
    SLICE_BOUND,
    UpperBound,
    best_upper,
    facts_bound,
    flattenings_bound,
    pairs_bound,
    slices_bound,
)
from factrank.tensors.bounds.upper.reference_values import reference_bound
from factrank.tensors.bounds.upper.spanning_tree import spanning_tree_bound
from factrank.tensors.core.decomposition import lifted
from factrank.tensors.core.zero_one import AXIS_NAMES, Core, ZeroOneTensor, others

PASSES_OF_SLICES = {1: 0.8, 0: 1.6, 2: 0.8}
"""How many passes over the facts (see `ledger.expected_of`) the ranks of all slices of an axis take."""

PASSES_OF_REFERENCES = 1.2
PASSES_OF_A_CUT = 4.0
"""The same for reference values, and for one of the cuts of a substitution; it ends by the clock."""

PER_CUBE = 2.5e-10
"""Seconds per n^3 of a modular elimination of an n x n matrix."""

KOSZUL_COMPONENTS = 3


def rank_bounds(core: Core, ledger: Ledger) -> RankBounds:
    """The bracket of the rank of a tensor, given its core."""
    if not len(core.tensor):
        nothing = Bound(0, "no facts")
        return RankBounds(nothing, nothing)
    flat_lower, flat_upper = _flattenings(core, ledger)
    base = flattening_bound(flat_lower, flat_upper)
    best, tried = _upper_bounds(core, ledger, flat_upper, base.value)
    lower = [_lower(base, ledger, "B1")]
    if best.value > base.value:
        lower += _substitution_bounds(core, ledger)
        lower += _koszul_bounds(core, ledger, flat_lower, base, max(bound.value for bound in lower))
    upper = [_upper(bound, core, ledger) for bound in (tried if best in tried else [*tried, best])]
    largest, estimate = max(bound.value for bound in lower), None
    if best.value > largest:
        proved, estimate = cp_rank_bounds(core, largest, best.value, ledger)
        upper += proved
    return RankBounds.best_of(lower, upper, ledger.take_skipped(), estimate)


def flattening_and_upper(core: Core, ledger: Ledger) -> tuple[int, int]:
    """The largest of the three flattening ranks, a certified lower bound of the rank, and the best upper bound."""
    if not len(core.tensor):
        return 0, 0
    flat_lower, flat_upper = _flattenings(core, ledger)
    best, _ = _upper_bounds(core, ledger, flat_upper, flattening_bound(flat_lower, flat_upper).value)
    return int(flat_lower.sum(axis=1).max()), best.value


def rank_lower_bounds(core: Core, ledger: Ledger, to_beat: int) -> list[Bound]:
    """Certified lower bounds of the rank: flattenings, and Koszul flattenings that may exceed them and `to_beat`."""
    flat_lower, flat_upper = _flattenings(core, ledger)
    base = flattening_bound(flat_lower, flat_upper)
    found = _koszul_bounds(core, ledger, flat_lower, base, max(to_beat, base.value))
    return [_lower(base, ledger, "B1"), *found]


def _upper(bound: UpperBound, core: Core, ledger: Ledger) -> Bound:
    seconds = ledger.seconds.get(bound.method, 0.0)
    return Bound(bound.value, bound.method, witness=lifted(bound.decomposition, core), seconds=seconds)


def _lower(bound: LowerBound, ledger: Ledger, prefix: str) -> Bound:
    seconds = sum((took for method, took in ledger.seconds.items() if method.startswith(prefix)), 0.0)
    return Bound(bound.value, bound.method, witness=bound, seconds=seconds)


def _flattenings(
    core: Core, ledger: Ledger
) -> tuple[Int[np.ndarray, "3 components"], dict[int, Int[np.ndarray, " components"]]]:
    """Lower bounds of the flattening ranks on every component (1 if skipped), and the upper bounds that are known.

    An axis that the two others determine is never skipped: its slices need only be counted.
    """
    lower, upper = np.ones((3, core.n_components), dtype=np.int64), {}
    for axis in (2, 0, 1):
        expected = 0.0 if core.tensor.determined[axis] else expected_of(1.0, len(core.tensor))
        ranks = ledger.run(f"B1 {AXIS_NAMES[axis]} flattening", expected, partial(flattening_ranks, core, axis))
        if ranks is not None:
            lower[axis], upper[axis] = ranks
    return lower, upper


def _upper_bounds(
    core: Core, ledger: Ledger, flat_upper: dict[int, Int[np.ndarray, " components"]], lower: int
) -> tuple[UpperBound, list[UpperBound]]:
    """The best upper bound, component by component, and all that were computed; stops when it meets the lower bound."""
    tensor, found = core.tensor, [facts_bound(core)]
    n_facts = len(tensor)
    steps: list[tuple[str, float, Callable[[], UpperBound]]] = []
    for axis in (1, 0, 2):
        name = f"{SLICE_BOUND[axis]} {AXIS_NAMES[axis]} slices"
        steps.append((name, expected_of(PASSES_OF_SLICES[axis], n_facts), partial(slices_bound, core, axis)))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        if first in flat_upper and second in flat_upper:
            name = f"U5 {AXIS_NAMES[first]} x {AXIS_NAMES[second]} flattening"
            steps.append((name, 0.0, partial(flattenings_bound, core, flat_upper, first, second)))
    for z in (2, 0, 1):
        for x, y in (others(z)[::-1], others(z)) if tensor.determined[z] else ():
            name = f"U7 reference {AXIS_NAMES[z]} by {AXIS_NAMES[x]}"
            steps.append((name, expected_of(PASSES_OF_REFERENCES, n_facts), partial(reference_bound, core, x, y)))
    for axis in (1, 0, 2):
        name = f"U6 spanning tree of {AXIS_NAMES[axis]} slices"
        steps.append((name, 2 * PER_FACT * n_facts, partial(spanning_tree_bound, core, axis)))
    for name, expected, compute in steps:
        if best_upper(core, found).value == lower:
            ledger.skip(name, "the bounds already meet")
            continue
        bound = ledger.run(name, expected, compute, dear=name.startswith("U6"))
        if bound is not None:
            found.append(bound)
        elif name.startswith(SLICE_BOUND):
            found.append(pairs_bound(core, {"U2": 0, "U3": 1, "U4": 2}[name[:2]]))
    return best_upper(core, found), found


def _substitution_bounds(core: Core, ledger: Ledger) -> list[Bound]:
    """B3 by slices of an axis and their indices on another, a dozen cuts while time is left, and by rank-one slices."""
    found = []
    for z in (1, 0, 2):
        for x in others(z)[::-1]:
            name = f"B3 substitution of {AXIS_NAMES[x]} slices by {AXIS_NAMES[z]}"
            expected = PASSES_OF_A_CUT * PER_FACT * len(core.tensor)
            compute = partial(substitution_bound, core, x, z, ledger.deadline())
            bound = ledger.run(name, expected, compute, dear=True)
            if bound is not None:
                found.append(Bound(bound.value, bound.method, witness=bound, seconds=ledger.seconds[name]))
    name = "B3 rank-one slices"
    small = sum(size <= MOST_CELLS for size in _cells_of_components(core))
    if not small:
        ledger.skip(name, "no component is small enough")
        return found
    chains = ledger.run(name, 0.05 + 0.5 * min(small, MOST_COMPONENTS), partial(rank_one_slice_bound, core), dear=True)
    if chains is not None:
        found.append(Bound(chains.value, chains.method, witness=chains, seconds=ledger.seconds[name]))
    return found


def _cells_of_components(core: Core) -> list[int]:
    sizes = [np.bincount(labels, minlength=core.n_components) for labels in core.component]
    return [int(a) * int(b) * int(c) for a, b, c in zip(*sizes, strict=True)]


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
    expected = PER_CUBE * choice.size**3 + projecting
    result = ledger.run(name, expected, lambda: with_koszul(base, flat_lower, part, component, choice), dear=True)
    if result is None:
        return None
    return _lower(result, ledger, name)
