"""RankBounds: certified lower and upper bounds on a rank, each with its method and witness."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from factrank.display import Drawn, Shown
from factrank.tensors.core import Decomposition, ZeroOneTensor
from factrank.tensors.cp import IntervalProof, ProjectedProof


@runtime_checkable
class LowerWitness(Protocol):
    """Proof of a lower bound on the rank that can be recomputed from the tensor alone."""

    @property
    def value(self) -> int:
        """The bound."""

    @property
    def method(self) -> str:
        """Label of the method that proves the bound."""

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns the bound recomputed, at least `value` (larger if only part of a matrix was ranked before)."""


class ShownWitness(Shown):
    """Mixin of lower witnesses: a short `repr`, and a display in notebooks."""

    value: int

    @property
    @abstractmethod
    def method(self) -> str:
        """Label of the method that proves the bound."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(at least {self.value:,}, by {self.method})"


Witness = Callable[[], Decomposition] | IntervalProof | ProjectedProof | LowerWitness | None


@dataclass(frozen=True, eq=False)
class Bound(Shown):
    """A bound on a rank.

    Arguments:
        value: the bound.
        method: the method that proves it, such as "U7 reference value by query".
        certified: whether it is proved by exact, modular or interval arithmetic; otherwise it is merely typical.
        witness: evidence that can be checked. For an upper bound, a function that builds its `Decomposition`, or an
            `IntervalProof` or `ProjectedProof` that one exists (for the core: empty slices dropped, equal ones merged).
            For a lower bound, a `LowerWitness`, or None if the argument of the method is the whole proof.
        seconds: run time.
        inherited: whether the bound comes from another rank, named first in `method`.
    """

    value: int
    method: str
    certified: bool = True
    witness: Witness = None
    seconds: float = 0.0
    inherited: bool = False

    @classmethod
    def by(cls, witness: LowerWitness) -> Bound:
        """Returns the lower bound proved by a witness."""
        return cls(witness.value, witness.method, witness=witness)

    def to_dict(self) -> dict[str, Any]:
        """Returns value, method and certified as plain data."""
        return {"value": self.value, "method": self.method, "certified": self.certified}

    def __repr__(self) -> str:
        return f"Bound({self.value:,}, by {self.method}{'' if self.certified else ', not certified'})"


@dataclass(frozen=True)
class Estimate:
    """A value without a proof, such as the number of terms of a numerical decomposition."""

    value: int
    method: str
    residual: float

    def to_dict(self) -> dict[str, Any]:
        """Returns value, method and residual as plain data."""
        return {"value": self.value, "method": self.method, "residual": self.residual}


@dataclass(frozen=True)
class Skipped:
    """A method that was not run, and the reason."""

    method: str
    reason: str


@dataclass(frozen=True, eq=False)
class RankBounds(Drawn):
    """A rank between two certified bounds, with a record of what was tried.

    Arguments:
        lower, upper: the best certified bounds.
        estimate: an uncertified value between them, or None.
        tried: all bounds computed, in order.
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
        """Selects the greatest lower and the least upper bound (the first in case of ties).

        The estimate is dropped unless it is at least the lower and below the upper bound.
        """
        best_lower, best_upper = max(lower, key=lambda b: b.value), min(upper, key=lambda b: b.value)
        if best_lower.value > best_upper.value:
            raise ArithmeticError(f"certified bounds cross, a bug in factrank: lower {best_lower} > upper {best_upper}")
        useful = estimate if estimate and best_lower.value <= estimate.value < best_upper.value else None
        return cls(best_lower, best_upper, useful, tried=(*lower, *upper), skipped=skipped)

    @property
    def exact(self) -> bool:
        """Whether the bounds coincide."""
        return self.lower.value == self.upper.value

    @property
    def bracket(self) -> str:
        """The bounds as text: "5" or "4 to 5"."""
        return f"{self.lower.value:,}" + ("" if self.exact else f" to {self.upper.value:,}")

    def to_dict(self) -> dict[str, Any]:
        """Returns lower, upper and estimate as plain data."""
        return {
            "lower": self.lower.to_dict(),
            "upper": self.upper.to_dict(),
            "estimate": self.estimate.to_dict() if self.estimate else None,
        }

    def __repr__(self) -> str:
        if self.exact:
            return f"RankBounds({self.lower.value}, by {self.lower.method} and {self.upper.method})"
        return f"RankBounds({self.lower.value} ({self.lower.method}) to {self.upper.value} ({self.upper.method}))"
