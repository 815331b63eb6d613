r"""B3 by substitution, for tensors that do not decompose into components.

For slices S of an axis x, and the indices Z of another axis z that they use,

rank D $\ge$ dim span{$D_s$ : s in S} + rank D[x outside S, z outside Z]

(Alexeev, Forbes and Tsimerman, arXiv 1102.0072: eliminating the slices S lowers the rank by at least the dimension of
their span, and changes the other slices only by combinations of S, which vanish outside Z). In a knowledge graph, the
values used by only a few queries are counted in full, and the remaining queries may contribute their key flattening,
which counts a value shared by several queries more than once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, ShownWitness
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.lower.flattenings import flattening_ranks
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap_beyond_flattenings
from factrank.tensors.core import (
    AXES,
    AXIS_NAMES,
    Core,
    ZeroOneTensor,
    components,
    distinct,
    flattening,
    others,
    pair_index,
)
from factrank.tensors.matrix import matrix_rank_bounds

MOST_CUTS = 12
"""Number of sets Z tried for each pair of axes."""

PASSES_OF_A_CUT = 4.0
"""Cost of the first set Z, in passes over the facts; the others are tried while time is left."""


@dataclass(frozen=True, eq=False, repr=False)
class Substitution(ShownWitness):
    """A certified lower bound: S consists of the slices of axis x that use only `indices` of axis z.

    It is its own witness: `recompute` repeats it from the tensor alone.
    """

    value: int
    x: int
    z: int
    indices: Int[np.ndarray, " used"]

    @property
    def method(self) -> str:
        """Label of the method."""
        return _name(self.x, self.z)

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns the bound from the tensor."""
        core = Core.of(tensor).tensor
        inside = np.zeros(core.shape[self.z], dtype=bool)
        inside[self.indices] = True
        return _bound(core, self.x, self.z, inside)


def substitution_bound(core: Core, x: int, z: int, deadline: float = inf, to_beat: int = 0) -> Substitution | None:
    """Returns the best bound over nested sets Z, starting with indices that have many slices of their own.

    The sets of medium size are tried first. At the deadline (`time.monotonic`) the best bound so far is returned; None
    if no bound exceeds `to_beat`.
    """
    tensor = core.tensor
    owner, n_used = _only_user(tensor, x, z)
    own = np.bincount(owner[owner >= 0], minlength=tensor.shape[z])
    order = np.argsort(-own / np.maximum(n_used, 1), kind="stable")
    best: Substitution | None = None
    cuts = np.unique(np.linspace(0, len(order), MOST_CUTS + 1).astype(np.int64))
    for cut in cuts[np.argsort(np.abs(cuts - len(order) / 2), kind="stable")].tolist():
        if time.monotonic() > deadline:
            break
        inside = np.zeros(tensor.shape[z], dtype=bool)
        inside[order[:cut]] = True
        value = _bound(tensor, x, z, inside, to_beat)
        if value > to_beat:
            to_beat, best = value, Substitution(value, x, z, order[:cut])
    return best


def _only_user(tensor: ZeroOneTensor, x: int, z: int) -> tuple[Int[np.ndarray, " x"], Int[np.ndarray, " z"]]:
    """Returns the only index of axis z that each slice of axis x uses (or -1), and the number of slices per index."""
    pairs = distinct(pair_index(tensor, x, z))[0]
    slices, users = np.divmod(pairs, tensor.shape[z])
    single = np.bincount(slices, minlength=tensor.shape[x])[slices] == 1
    owner = np.full(tensor.shape[x], -1)
    owner[slices[single]] = users[single]
    return owner, np.bincount(users, minlength=tensor.shape[z])


def _bound(tensor: ZeroOneTensor, x: int, z: int, inside: Bool[np.ndarray, " z"], to_beat: int = 0) -> int:
    """Bound with S all slices of axis x whose indices on axis z are all `inside`; 0 if it cannot exceed `to_beat`."""
    facts = tensor.coordinates
    substituted = np.ones(tensor.shape[x], dtype=bool)
    substituted[facts[~inside[facts[:, z]], x]] = False
    first = ZeroOneTensor(facts[substituted[facts[:, x]]], tensor.shape)
    rest = ZeroOneTensor(facts[~substituted[facts[:, x]] & ~inside[facts[:, z]]], tensor.shape)
    if len(distinct(first.coordinates[:, x])[0]) + largest_flattenings(rest) <= to_beat:
        return 0
    return matrix_rank_bounds(flattening(first, x))[0] + _flattenings_of(rest)


def _flattenings_of(tensor: ZeroOneTensor) -> int:
    """Sums the largest flattening ranks of all components. Equal slices change no rank and need not be merged."""
    core = Core.unmerged(tensor)
    labels, n_components = components(core.tensor)
    split = replace(core, component=labels, n_components=n_components)
    return int(np.max([flattening_ranks(split, axis)[0] for axis in AXES], axis=0).sum())


def largest_flattenings(tensor: ZeroOneTensor) -> int:
    """Returns an upper bound on the sum of flattening ranks: the longest side of each component, summed."""
    labels, n_components = components(tensor)
    sides = []
    for axis in AXES:
        used = np.zeros(tensor.shape[axis], dtype=bool)
        used[tensor.coordinates[:, axis]] = True
        sides.append(np.bincount(labels[axis][used], minlength=n_components))
    return int(np.max(sides, axis=0).sum())


def _methods() -> Iterator[BoundMethod]:
    pairs = [(x, z) for z in (1, 0, 2) for x in others(z)[::-1]]
    for place, (x, z) in enumerate(pairs):
        yield _method(x, z, len(pairs) - place)


def _method(x: int, z: int, n_left: int) -> BoundMethod:
    """The method for two axes; it takes at most its part of the time that it and the methods after it have."""

    def run(bracket: Bracket) -> list[Bound]:
        now = time.monotonic()
        deadline = now + (bracket.ledger.deadline() - now) / n_left
        found = substitution_bound(bracket.core, x, z, deadline, bracket.greatest)
        return [Bound.by(found)] if found else []

    return BoundMethod(
        name=_name(x, z),
        of="rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(gap_beyond_flattenings,),
        cost=lambda bracket: PASSES_OF_A_CUT * PER_FACT * len(bracket.tensor),
        run=run,
        expensive=True,
    )


def _name(x: int, z: int) -> str:
    return f"B3 substitution of {AXIS_NAMES[x]} slices by {AXIS_NAMES[z]}"


METHODS = tuple(_methods())
