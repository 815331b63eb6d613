r"""B3 by substitution where the tensor does not fall apart: some slices on one axis, the rest by its own flattenings.

For slices S of an axis x, and the indices Z of another axis z that they use,

rank D $\ge$ dim span{$D_s$ : s in S} + rank D[x outside S, z outside Z]

(Alexeev, Forbes and Tsimerman, arXiv 1102.0072: killing the slices S lowers the rank by at least the dimension of their
span and changes the others only by combinations of S, which vanish outside Z). In a knowledge graph: the values that
only a few queries use count in full, and the other queries may count by their key flattening, which tells apart a value
that serves several queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
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
"""How many sets Z are tried for each pair of axes."""

PASSES_OF_A_CUT = 4.0
"""Passes over the facts that one of them takes; the others end by the clock."""


@dataclass(frozen=True, eq=False)
class Substitution:
    """A certified lower bound: the slices of axis x that use only `indices` of axis z, and the rest without both.

    This is also its witness: `recompute` repeats it from the tensor alone.
    """

    value: int
    x: int
    z: int
    indices: Int[np.ndarray, " used"]

    @property
    def method(self) -> str:
        """What proves it, for people."""
        return _name(self.x, self.z)

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """The bound again, from the tensor."""
        core = Core.of(tensor).tensor
        inside = np.zeros(core.shape[self.z], dtype=bool)
        inside[self.indices] = True
        return _bound(core, self.x, self.z, inside)


def substitution_bound(core: Core, x: int, z: int, deadline: float = inf) -> Substitution:
    """The best bound over nested sets Z: first the indices of axis z that have most slices of axis x to themselves.

    At the deadline, by `time.monotonic`, it is the best of those that were tried; the middle ones come first.
    """
    tensor = core.tensor
    owner, n_used = _only_user(tensor, x, z)
    own = np.bincount(owner[owner >= 0], minlength=tensor.shape[z])
    order = np.argsort(-own / np.maximum(n_used, 1), kind="stable")
    best = Substitution(0, x, z, order[:0])
    cuts = np.unique(np.linspace(0, len(order), MOST_CUTS + 1).astype(np.int64))
    for cut in cuts[np.argsort(np.abs(cuts - len(order) / 2), kind="stable")].tolist():
        if time.monotonic() > deadline:
            break
        inside = np.zeros(tensor.shape[z], dtype=bool)
        inside[order[:cut]] = True
        value = _bound(tensor, x, z, inside, best.value)
        if value > best.value:
            best = Substitution(value, x, z, order[:cut])
    return best


def _only_user(tensor: ZeroOneTensor, x: int, z: int) -> tuple[Int[np.ndarray, " x"], Int[np.ndarray, " z"]]:
    """For each slice of axis x the only index of axis z that it uses (or -1); how many slices each index meets."""
    pairs = distinct(pair_index(tensor, x, z))[0]
    slices, users = np.divmod(pairs, tensor.shape[z])
    single = np.bincount(slices, minlength=tensor.shape[x])[slices] == 1
    owner = np.full(tensor.shape[x], -1)
    owner[slices[single]] = users[single]
    return owner, np.bincount(users, minlength=tensor.shape[z])


def _bound(tensor: ZeroOneTensor, x: int, z: int, inside: Bool[np.ndarray, " z"], to_beat: int = 0) -> int:
    """The bound with S all slices of axis x whose indices on axis z are all `inside`; 0 if it cannot beat another."""
    facts = tensor.coordinates
    substituted = np.ones(tensor.shape[x], dtype=bool)
    substituted[facts[~inside[facts[:, z]], x]] = False
    first = ZeroOneTensor(facts[substituted[facts[:, x]]], tensor.shape)
    rest = ZeroOneTensor(facts[~substituted[facts[:, x]] & ~inside[facts[:, z]]], tensor.shape)
    if len(distinct(first.coordinates[:, x])[0]) + largest_flattenings(rest) <= to_beat:
        return 0
    return matrix_rank_bounds(flattening(first, x))[0] + _flattenings_of(rest)


def _flattenings_of(tensor: ZeroOneTensor) -> int:
    core = Core.of(tensor)
    return int(np.max([flattening_ranks(core, axis)[0] for axis in AXES], axis=0).sum())


def largest_flattenings(tensor: ZeroOneTensor) -> int:
    """What flattenings can give at most: the longest side of every component, added up."""
    labels, n_components = components(tensor)
    sides = []
    for axis in AXES:
        used = np.zeros(tensor.shape[axis], dtype=bool)
        used[tensor.coordinates[:, axis]] = True
        sides.append(np.bincount(labels[axis][used], minlength=n_components))
    return int(np.max(sides, axis=0).sum())


# -------------------------------------------------------------------- how it is tried


def _methods() -> Iterator[BoundMethod]:
    for z in (1, 0, 2):
        for x in others(z)[::-1]:
            yield BoundMethod(
                name=_name(x, z),
                of="rank",
                side="lower",
                stage=Stage.PROVE,
                needs=(gap_beyond_flattenings,),
                cost=_expected_seconds,
                run=partial(_substitution, x, z),
                dear=True,
            )


def _name(x: int, z: int) -> str:
    return f"B3 substitution of {AXIS_NAMES[x]} slices by {AXIS_NAMES[z]}"


def _expected_seconds(bracket: Bracket) -> float:
    return PASSES_OF_A_CUT * PER_FACT * len(bracket.tensor)


def _substitution(x: int, z: int, bracket: Bracket) -> list[Bound]:
    return [Bound.by(substitution_bound(bracket.core, x, z, bracket.ledger.deadline()))]


METHODS = tuple(_methods())
