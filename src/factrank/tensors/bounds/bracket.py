"""Bracket: what is known of one rank while its bounds are computed, one method after another."""

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
"""What a method may find; an `UpperBound`, a sum over components, only of the rank."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """What the methods before have found: each method reads it, and what it finds makes a new one.

    Arguments:
        of: which rank.
        core: the table without empty slices, equal ones merged.
        ledger: the clock, for methods that work in steps.
        inherited: an upper bound taken over from another rank.
        floor: a lower bound known from elsewhere; only what exceeds it is of use.
        lower, upper: the bounds found so far, without the inherited one.
        by_component: upper bounds that are sums over components.
        best: the least of them on every component.
        typical: what is not certified.
        estimate: the terms of a numerical decomposition.
        ranked: the flattenings whose ranks were computed.
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
        """The ranks of the flattenings, as far as they are known."""
        return Flattenings.of(self.core.n_components, self.ranked)

    @property
    def greatest(self) -> int:
        """The largest lower bound."""
        return max([self.floor, *(bound.value for bound in self.lower)])

    @property
    def least_here(self) -> int | float:
        """The least upper bound that was found for this rank itself; infinite if none was."""
        return min((bound.value for bound in (*self.upper, self.best) if bound), default=inf)

    @property
    def least(self) -> int | float:
        """The least upper bound."""
        return min(self.least_here, self.inherited.value) if self.inherited else self.least_here

    @property
    def open(self) -> bool:
        """Whether the bounds do not meet."""
        return self.least > self.greatest

    def joined(self, finding: Finding, side: Side) -> Bracket:
        """With one more finding, of a method for this side. An upper bound without a witness is none."""
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
        raise TypeError(f"{finding} proves no {side} bound of the {self.of}")

    def result(self) -> RankBounds:
        """The best bounds with everything that was tried and, from the ledger, what was skipped."""
        bounds = RankBounds.best_of(list(self.lower), self._upper_bounds(), self.ledger.take_skipped(), self.estimate)
        return replace(bounds, tried=(*bounds.tried, *self.typical))

    def _upper_bounds(self) -> list[Bound]:
        """The inherited one, those by component, the best of them if that is none of them, and the others."""
        combined = [] if self.best is None or self.best in self.by_component else [self.best]
        added = [self._whole(bound) for bound in (*self.by_component, *combined)]
        return [*([self.inherited] if self.inherited else []), *added, *self.upper]

    def _whole(self, bound: UpperBound) -> Bound:
        seconds = self.ledger.seconds.get(bound.method, 0.0)
        return Bound(bound.value, bound.method, witness=lifted(bound.decomposition, self.core), seconds=seconds)
