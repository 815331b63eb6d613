"""UpperBound: an upper bound on the rank that is a sum over connected components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from factrank.tensors.core import Core, Decomposition, concatenate


@dataclass(frozen=True, eq=False)
class UpperBound:
    """A certified upper bound: its value on each component, and a function that decomposes the core."""

    method: str
    by_component: Int[np.ndarray, " components"]
    decomposition: Callable[[], Decomposition]

    @property
    def value(self) -> int:
        """The bound on the rank of the whole tensor."""
        return int(self.by_component.sum())


def best_upper(core: Core, bounds: Sequence[UpperBound]) -> UpperBound:
    """Combines bounds: the least one on each component, summed."""
    table = np.array([bound.by_component for bound in bounds])
    totals = table.sum(axis=1)
    if core.n_components == 0 or totals.min() == table.min(axis=0).sum():
        return bounds[int(np.argmin(totals))]
    chosen = np.argmin(table, axis=0)
    used = [(index, bound) for index, bound in enumerate(bounds) if (chosen == index).any()]

    def decomposition() -> Decomposition:
        parts = []
        for index, bound in used:
            terms = bound.decomposition()
            parts.append(terms.take_terms((chosen == index)[_component_of_terms(core, terms)]))
        return concatenate(parts)

    name = " + ".join(bound.method for _, bound in used) + ", by component"
    return UpperBound(name, table.min(axis=0), decomposition)


def _component_of_terms(core: Core, terms: Decomposition) -> Int[np.ndarray, " terms"]:
    component = np.zeros(terms.n_terms, dtype=np.int64)
    component[terms.factors[0].term] = core.component[0][terms.factors[0].index]
    return component
