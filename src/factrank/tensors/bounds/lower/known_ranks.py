"""Flattenings: the flattening ranks computed so far, per component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, eq=False)
class RankedFlattening:
    """Lower and upper bounds on the rank of one flattening, per component."""

    axis: int
    lower: Int[np.ndarray, " components"]
    upper: Int[np.ndarray, " components"]


@dataclass(frozen=True, eq=False)
class Flattenings:
    """Lower bounds on all three flattening ranks (1 if not computed), and the known upper bounds by axis."""

    lower: Int[np.ndarray, "3 components"]
    upper: Mapping[int, Int[np.ndarray, " components"]]

    @classmethod
    def of(cls, n_components: int, ranked: Iterable[RankedFlattening]) -> Flattenings:
        """Collects the flattenings that have been ranked."""
        lower, upper = np.ones((3, n_components), dtype=np.int64), {}
        for ranks in ranked:
            lower[ranks.axis], upper[ranks.axis] = ranks.lower, ranks.upper
        return cls(lower, upper)

    @property
    def total(self) -> int:
        """The largest rank of each component, summed: a lower bound on the rank (B3)."""
        return int(self.lower.max(axis=0).sum())

    def without(self, component: int) -> int:
        """Returns the same sum without one component."""
        return self.total - int(self.lower[:, component].max())
