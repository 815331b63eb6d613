"""RankBounds: what is known of a rank, from below and above, each side with its method and its witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from factrank.tensors.core import Decomposition, ZeroOneTensor
from factrank.tensors.cp import IntervalProof


@runtime_checkable
class LowerWitness(Protocol):
    """What proves a lower bound of the rank: it recomputes itself from the tensor alone."""

    @property
    def value(self) -> int:
        """The bound."""

    @property
    def method(self) -> str:
        """What proves it, for people."""

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """The bound again; it may be larger where only a part of a matrix was ranked."""


Witness = Callable[[], Decomposition] | IntervalProof | LowerWitness | None


@dataclass(frozen=True, eq=False)
class Bound:
    """One bound of a rank.

    Arguments:
        value: the bound.
        method: what gives it, such as "U7 reference value by query".
        certified: proved by exact, modular or interval arithmetic; otherwise it is only typical.
        witness: for an upper bound, a function that builds its `Decomposition`, or the `IntervalProof` that one exists
            (of the core: empty slices dropped, equal ones merged); for a lower bound, what can recompute itself, such
            as a `LowerBound`; None where the method's argument is the whole proof.
        seconds: how long it took.
        inherited: taken over from another rank, which its method names first.
    """

    value: int
    method: str
    certified: bool = True
    witness: Witness = None
    seconds: float = 0.0
    inherited: bool = False

    @classmethod
    def by(cls, witness: LowerWitness) -> Bound:
        """The lower bound that a witness proves."""
        return cls(witness.value, witness.method, witness=witness)

    def to_dict(self) -> dict[str, Any]:
        """Value, method and whether it is certified."""
        return {"value": self.value, "method": self.method, "certified": self.certified}


@dataclass(frozen=True)
class Estimate:
    """A value without a proof, such as the terms of a numerical decomposition."""

    value: int
    method: str
    residual: float

    def to_dict(self) -> dict[str, Any]:
        """Value, method and residual."""
        return {"value": self.value, "method": self.method, "residual": self.residual}


@dataclass(frozen=True)
class Skipped:
    """A method that was not run, and why."""

    method: str
    reason: str


@dataclass(frozen=True, eq=False)
class RankBounds:
    """A rank between `lower` and `upper`, both certified, with everything that was tried.

    Arguments:
        lower, upper: the best certified bounds.
        estimate: an uncertified value between them, or None.
        tried: every bound that was computed, in the order of the runs.
        skipped: the methods that were not run, with the reason.
    """

    lower: Bound
    upper: Bound
    estimate: Estimate | None = None
    tried: tuple[Bound, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @classmethod
    def best_of(
        cls, lower: list[Bound], upper: list[Bound], skipped: tuple[Skipped, ...], estimate: Estimate | None = None
    ) -> RankBounds:
        """The largest lower and the least upper bound, of equal ones the first; an estimate only if it lies between."""
        best_lower, best_upper = max(lower, key=lambda b: b.value), min(upper, key=lambda b: b.value)
        if best_lower.value > best_upper.value:
            raise ArithmeticError(f"certified bounds cross: {best_lower} > {best_upper}; this is a defect of factrank")
        useful = estimate if estimate and best_lower.value <= estimate.value < best_upper.value else None
        return cls(best_lower, best_upper, useful, tried=(*lower, *upper), skipped=skipped)

    @property
    def exact(self) -> bool:
        """Whether the two bounds meet."""
        return self.lower.value == self.upper.value

    @property
    def bracket(self) -> str:
        """The two ends in words: "5", or "4 to 5"."""
        return f"{self.lower.value:,}" + ("" if self.exact else f" to {self.upper.value:,}")

    def to_dict(self) -> dict[str, Any]:
        """Lower, upper and estimate as plain data."""
        return {
            "lower": self.lower.to_dict(),
            "upper": self.upper.to_dict(),
            "estimate": self.estimate.to_dict() if self.estimate else None,
        }

    def __repr__(self) -> str:
        if self.exact:
            return f"RankBounds({self.lower.value}, by {self.lower.method} and {self.upper.method})"
        return f"RankBounds({self.lower.value} ({self.lower.method}) to {self.upper.value} ({self.upper.method}))"
