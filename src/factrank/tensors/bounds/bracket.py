"""Bracket: the bounds on one rank found so far, passed from method to method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Literal

from factrank.tensors.bounds.certified_bounds import Bound, Estimate, RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.lower import Flattenings, RankedFlattening
from factrank.tensors.bounds.upper import UpperBound, best_upper
from factrank.tensors.core import Core, ZeroOneTensor, lifted

RankName = Literal["rank", "completion rank", "effective rank"]
Side = Literal["lower", "upper"]

Finding = Bound | UpperBound | Estimate | RankedFlattening
"""Result of a method. An `UpperBound` (a sum over components) is only valid for the rank."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """Everything known about one rank. Each method reads it; its findings go into a new bracket.

    Arguments:
        of: which rank is bounded.
        core: the tensor without empty slices, with equal slices merged.
        ledger: the time budget, for methods that run in steps.
        inherited: upper bound taken from another rank.
        floor: lower bound known from elsewhere; smaller findings are useless.
        lower, upper: bounds found so far, excluding the inherited one.
        by_component: upper bounds that are sums over components.
        best: combines the best of `by_component` on each component.
        typical: bounds that are not certified.
        estimate: number of terms of a numerical decomposition.
        ranked: flattenings whose ranks have been computed.
    """

    of: RankName
    core: Core
    ledger: Ledger
    inherited: Bound | None = None
    floor: int = 0
    lower: tuple[Bound, ...] = ()
    upper: tuple[Bound, ...] = ()
    by_component: tuple[UpperBound, ...] = ()
    best: UpperBound | None = None
    typical: tuple[Bound, ...] = ()
    estimate: Estimate | None = None
    ranked: tuple[RankedFlattening, ...] = ()

    @property
    def tensor(self) -> ZeroOneTensor:
        """The tensor of the core."""
        return self.core.tensor

    @cached_property
    def flattenings(self) -> Flattenings:
        """The flattening ranks computed so far."""
        return Flattenings.of(self.core.n_components, self.ranked)

    @property
    def greatest(self) -> int:
        """The greatest lower bound."""
        return max([self.floor, *(bound.value for bound in self.lower)])

    @property
    def least_here(self) -> int | float:
        """The least upper bound found for this rank itself; infinite if there is none."""
        return min((bound.value for bound in (*self.upper, self.best) if bound), default=inf)

    @property
    def least(self) -> int | float:
        """The least upper bound, inherited or found here."""
        return min(self.least_here, self.inherited.value) if self.inherited else self.least_here

    @property
    def open(self) -> bool:
        """Whether the lower bound is below the upper bound."""
        return self.least > self.greatest

    def joined(self, finding: Finding, side: Side) -> Bracket:
        """Returns the bracket with one more finding.

        Raises:
            TypeError: if the finding proves nothing about this side, such as an upper bound without a witness.
        """
        match finding:
            case RankedFlattening():
                return replace(self, ranked=(*self.ranked, finding))
            case Estimate():
                return replace(self, estimate=finding)
            case UpperBound() if self.of == "rank" and side == "upper":
                bounds = (*self.by_component, finding)
                return replace(self, by_component=bounds, best=best_upper(self.core, bounds))
            case Bound(certified=False):
                return replace(self, typical=(*self.typical, finding))
            case Bound() if side == "lower":
                return replace(self, lower=(*self.lower, finding))
            case Bound() if finding.witness is not None:
                return replace(self, upper=(*self.upper, finding))
        raise TypeError(f"{finding} is not a valid {side} bound on the {self.of} (an upper bound needs a witness)")

    def result(self) -> RankBounds:
        """Returns the best bounds, together with everything tried and (from the ledger) everything skipped."""
        bounds = RankBounds.best_of(list(self.lower), self._upper_bounds(), self.ledger.take_skipped(), self.estimate)
        return replace(bounds, tried=(*bounds.tried, *self.typical))

    def _upper_bounds(self) -> list[Bound]:
        combined = [] if self.best is None or self.best in self.by_component else [self.best]
        added = [self._whole(bound) for bound in (*self.by_component, *combined)]
        return [*([self.inherited] if self.inherited else []), *added, *self.upper]

    def _whole(self, bound: UpperBound) -> Bound:
        seconds = self.ledger.seconds.get(bound.method, 0.0)
        return Bound(bound.value, bound.method, witness=lifted(bound.decomposition, self.core), seconds=seconds)
