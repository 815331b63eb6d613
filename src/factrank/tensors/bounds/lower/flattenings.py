r"""Lower bounds B1 to B3 on the rank of a 0/1 tensor.

B1 is the rank of a flattening, B2 a Koszul flattening (`koszul`). B3 adds up connected components, which share no index
on any axis: by substitution (Alexeev, Forbes and Tsimerman, arXiv 1102.0072), rank($D_1 \oplus D_2$) $\ge$
maxflat($D_1$) + rank($D_2$). So the largest flattening ranks of all components add up, and one component may use its
Koszul bound instead.

All ranks are exact or modulo a prime. A modular rank is at most the rational rank, so every bound is certified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, ShownWitness
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.lower.known_ranks import Flattenings, RankedFlattening
from factrank.tensors.bounds.lower.koszul import Koszul, koszul_bound
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.core import AXES, AXIS_NAMES, Core, ZeroOneTensor, flattening, others, pair_index
from factrank.tensors.matrix import block_ranks, rational_rank


def flattening_ranks(core: Core, axis: int) -> tuple[Int[np.ndarray, " components"], Int[np.ndarray, " components"]]:
    """Returns lower and upper bounds on the rank of a flattening, per component.

    The bounds coincide unless the matrix is very large. If the other two axes determine this one, its slices have
    disjoint supports, and their number is the rank.
    """
    if core.tensor.determined[axis]:
        n_slices = np.bincount(core.component[axis], minlength=core.n_components)
        return n_slices, n_slices
    ranks = block_ranks(flattening(core.tensor, axis), core.component[axis], core.n_components)
    return ranks.lower, ranks.upper


def counted_flattening(core: Core, axis: int) -> RankedFlattening:
    """Returns bounds on the rank of a flattening that need no elimination, per component.

    A column with a single 1 is a unit vector. The unit vectors of different slices are independent, so the number of
    slices that have such a column is at most the rank, and the number of all slices is at least the rank.

    Arguments:
        core: the tensor.
        axis: the axis whose slices are the rows.
    """
    columns = pair_index(core.tensor, *others(axis))
    order = slice(None) if (columns[1:] >= columns[:-1]).all() else np.argsort(columns, kind="stable")
    ordered = columns[order]
    changes = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])[: len(ordered) + 1]
    alone = changes[:-1] & changes[1:]
    has_unit = np.zeros(core.tensor.shape[axis], dtype=bool)
    has_unit[core.tensor.coordinates[order, axis][alone]] = True
    counted = np.bincount(core.component[axis][has_unit], minlength=core.n_components)
    n_slices = np.bincount(core.component[axis], minlength=core.n_components)
    return RankedFlattening(axis, np.maximum(counted, 1), n_slices)


@dataclass(frozen=True, eq=False, repr=False)
class LowerBound(ShownWitness):
    """A certified lower bound: a flattening for each component, optionally a Koszul flattening for one of them.

    It is its own witness: `recompute` repeats the ranks from the tensor alone. The result may exceed the bound unless
    `exact`, because only part of a very large matrix is ranked.
    """

    value: int
    flat_axis: Int[np.ndarray, " components"]
    koszul: Koszul | None = None
    koszul_component: int = 0
    exact: bool = True

    @property
    def method(self) -> str:
        """Label of the method."""
        if len(self.flat_axis) > 1 and (self.koszul or len(set(self.flat_axis.tolist())) > 1):
            return "B3 components" + (f", one by {self.koszul.name}" if self.koszul else "") + self._part
        if self.koszul:
            return f"B2 {self.koszul.name}"
        if not len(self.flat_axis):
            return "B1 no facts"
        return _name(int(self.flat_axis[0])) + self._part

    @property
    def _part(self) -> str:
        return "" if self.exact else ", ranked in part"

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns the bound from exact rational ranks of dense matrices: slow, but independent of the sparse code."""
        core, total = Core.of(tensor), 0
        for component, axis in enumerate(self.flat_axis.tolist()):
            part = core.part(component)
            if self.koszul and component == self.koszul_component:
                total += koszul_bound(part, self.koszul)
            else:
                total += rational_rank(flattening(part, axis).toarray())
        return total


def flattening_bound(flat: Flattenings) -> LowerBound:
    """Returns B1 or B3, the sum of the largest flattening ranks; a rank is exact if its upper bound is the same."""
    best_axis, n_components = int(np.argmax(flat.lower.sum(axis=1))), flat.lower.shape[1]
    axes = np.full(n_components, best_axis)
    if flat.total > flat.lower[best_axis].sum():
        axes = np.argmax(flat.lower, axis=0)
    upper = np.array([flat.upper.get(axis, np.full(n_components, -1)) for axis in AXES])
    exact = bool((upper == flat.lower)[axes, np.arange(n_components)].all())
    return LowerBound(flat.total, axes, exact=exact)


def with_koszul(flat: Flattenings, part: ZeroOneTensor, component: int, choice: Koszul) -> LowerBound:
    """Returns a bound with a Koszul flattening on one component: B2, or B3 if there are several components."""
    value, axes = flat.without(component) + koszul_bound(part, choice), np.argmax(flat.lower, axis=0)
    return LowerBound(value, axes, choice, component, flattening_bound(flat).exact)


def _methods() -> Iterator[BoundMethod]:
    of_rank = partial(BoundMethod, of="rank", side="lower", stage=Stage.COUNT)
    for axis in (2, 0, 1):
        run, instead = partial(_ranks, axis), partial(_counted, axis)
        yield of_rank(name=_name(axis), cost=partial(expected_seconds, axis), run=run, instead=instead)
    yield of_rank(name="B1 and B3, the largest flattenings", run=_together)


def _name(axis: int) -> str:
    return f"B1 {AXIS_NAMES[axis]} flattening"


def expected_seconds(axis: int, bracket: Bracket) -> float:
    """Returns the expected time to rank a flattening; 0 if its slices only have to be counted."""
    return 0.0 if bracket.tensor.determined[axis] else expected_of(1.0, len(bracket.tensor))


def _ranks(axis: int, bracket: Bracket) -> list[RankedFlattening]:
    return [RankedFlattening(axis, *flattening_ranks(bracket.core, axis))]


def _counted(axis: int, bracket: Bracket) -> list[RankedFlattening]:
    """Facts are sorted by key and query, so the columns of the value flattening are counted without sorting."""
    return [counted_flattening(bracket.core, axis)] if axis == 2 else []


def _together(bracket: Bracket) -> list[Bound]:
    seconds = sum(bracket.ledger.seconds.get(_name(axis), 0.0) for axis in AXES)
    return [replace(Bound.by(flattening_bound(bracket.flattenings)), seconds=seconds)]


METHODS = tuple(_methods())
