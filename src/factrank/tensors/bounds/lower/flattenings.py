r"""Lower bounds B1 to B3 of the rank of a 0/1 tensor.

B1: the rank of a flattening. B2: a Koszul flattening (`koszul`). B3, over connected components (no shared index on any
axis): substitution (Alexeev, Forbes and Tsimerman, arXiv 1102.0072) gives
rank($D_1 \oplus D_2$) $\ge$ maxflat($D_1$) + rank($D_2$), so the largest flattening ranks of all components add up, and
one component may use its Koszul bound instead.

All ranks are exact or modulo a prime; a modular rank is at most the rational one, so every bound is certified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.lower.known_ranks import RankedFlattening
from factrank.tensors.bounds.lower.koszul import Koszul, koszul_bound
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.core import AXES, AXIS_NAMES, Core, ZeroOneTensor, flattening
from factrank.tensors.matrix import block_ranks, rational_rank


def flattening_ranks(core: Core, axis: int) -> tuple[Int[np.ndarray, " components"], Int[np.ndarray, " components"]]:
    """Lower and upper bound of one flattening rank on every component (they agree unless the matrix is very large).

    If the other two axes determine this one, its slices are disjoint, and so as many as the rank.
    """
    if core.tensor.determined[axis]:
        n_slices = np.bincount(core.component[axis], minlength=core.n_components)
        return n_slices, n_slices
    ranks = block_ranks(flattening(core.tensor, axis), core.component[axis], core.n_components)
    return ranks.lower, ranks.upper


@dataclass(frozen=True, eq=False)
class LowerBound:
    """A certified lower bound: the flattening used on each component, and on one of them perhaps a Koszul flattening.

    This is also its witness: `recompute` repeats the ranks from the tensor alone. They may be larger than the bound if
    they are not `exact`: of a matrix that is too large only a part was ranked.
    """

    value: int
    flat_axis: Int[np.ndarray, " components"]
    koszul: Koszul | None = None
    koszul_component: int = 0
    exact: bool = True

    @property
    def method(self) -> str:
        """What proves it, for people."""
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
        """The bound again, by exact rational ranks of dense matrices: slow and independent of the sparse path."""
        core, total = Core.of(tensor), 0
        for component, axis in enumerate(self.flat_axis.tolist()):
            part = core.part(component)
            if self.koszul and component == self.koszul_component:
                total += koszul_bound(part, self.koszul)
            else:
                total += rational_rank(flattening(part, axis).toarray())
        return total


def flattening_bound(
    flat_lower: Int[np.ndarray, "3 components"], flat_upper: Mapping[int, Int[np.ndarray, " components"]]
) -> LowerBound:
    """B1 and B3: on every component its largest flattening rank, added up; the upper bounds tell which are exact."""
    best_axis, n_components = int(np.argmax(flat_lower.sum(axis=1))), flat_lower.shape[1]
    axes = np.full(n_components, best_axis)
    if flat_lower.max(axis=0).sum() > flat_lower[best_axis].sum():
        axes = np.argmax(flat_lower, axis=0)
    upper = np.array([flat_upper.get(axis, np.full(n_components, -1)) for axis in AXES])
    exact = bool((upper == flat_lower)[axes, np.arange(n_components)].all())
    return LowerBound(int(flat_lower.max(axis=0).sum()), axes, exact=exact)


def with_koszul(
    bound: LowerBound, flat_lower: Int[np.ndarray, "3 components"], part: ZeroOneTensor, component: int, choice: Koszul
) -> LowerBound:
    """The bound with one component done by a Koszul flattening (B2, or B3 where there are several components)."""
    value = koszul_bound(part, choice)
    without = int(flat_lower.max(axis=0).sum() - flat_lower[:, component].max())
    axes = np.argmax(flat_lower, axis=0)
    return replace(bound, value=without + value, flat_axis=axes, koszul=choice, koszul_component=component)


# -------------------------------------------------------------------- how they are tried


def _methods() -> Iterator[BoundMethod]:
    """The rank of each flattening, whatever is known, and then the bound that they give together."""
    of_rank = partial(BoundMethod, of="rank", side="lower", stage=Stage.COUNT)
    for axis in (2, 0, 1):
        yield of_rank(name=_name(axis), cost=partial(expected_seconds, axis), run=partial(_ranks, axis))
    yield of_rank(name="B1 and B3, the largest flattenings", run=_together)


def _name(axis: int) -> str:
    return f"B1 {AXIS_NAMES[axis]} flattening"


def expected_seconds(axis: int, bracket: Bracket) -> float:
    """Of the ranks of a flattening; none if the two other axes determine this one: its slices need only be counted."""
    return 0.0 if bracket.tensor.determined[axis] else expected_of(1.0, len(bracket.tensor))


def _ranks(axis: int, bracket: Bracket) -> list[RankedFlattening]:
    return [RankedFlattening(axis, *flattening_ranks(bracket.core, axis))]


def _together(bracket: Bracket) -> list[Bound]:
    bound = flattening_bound(bracket.flattenings.lower, bracket.flattenings.upper)
    seconds = sum(bracket.ledger.seconds.get(_name(axis), 0.0) for axis in AXES)
    return [replace(Bound.by(bound), seconds=seconds)]


METHODS = tuple(_methods())
