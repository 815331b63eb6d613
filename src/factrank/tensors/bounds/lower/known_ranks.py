"""Flattenings: the ranks of the three flattenings on every component, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, eq=False)
class RankedFlattening:
    """Lower and upper bounds of the rank of one flattening, on every component."""

    axis: int
    lower: Int[np.ndarray, " components"]
    upper: Int[np.ndarray, " components"]


@dataclass(frozen=True, eq=False)
class Flattenings:
    """Lower bounds of all three ranks (1 where none was computed), and the upper bounds that are known, by axis."""

    lower: Int[np.ndarray, "3 components"]
    upper: Mapping[int, Int[np.ndarray, " components"]]

    @classmethod
    def of(cls, n_components: int, ranked: Iterable[RankedFlattening]) -> Flattenings:
        """What is known when these were ranked."""
        lower, upper = np.ones((3, n_components), dtype=np.int64), {}
        for ranks in ranked:
            lower[ranks.axis], upper[ranks.axis] = ranks.lower, ranks.upper
        return cls(lower, upper)

    @property
    def total(self) -> int:
        """The largest on every component, added up: a lower bound of the rank (B3)."""
        return int(self.lower.max(axis=0).sum())

    def without(self, component: int) -> int:
        """The same for all components but one."""
        return self.total - int(self.lower[:, component].max())
