"""FiberSets: the valid fibers of a tensor and the set of values of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.core.zero_one import ZeroOneTensor, distinct, pair_index


@dataclass(frozen=True, eq=False)
class FiberSets:
    """The (key, query) pairs with a fact, and the values of each as (fiber, value) pairs sorted by fiber."""

    keys: Int[np.ndarray, " fibers"]
    queries: Int[np.ndarray, " fibers"]
    fiber: Int[np.ndarray, " facts"]
    value: Int[np.ndarray, " facts"]
    n_values: int

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> FiberSets:
        """Groups the facts of a tensor by key and query."""
        pairs, fiber = distinct(pair_index(tensor, 0, 1))
        keys, queries = np.divmod(pairs, max(tensor.shape[1], 1))
        order = np.argsort(fiber, kind="stable")
        return cls(keys, queries, fiber[order], tensor.coordinates[order, 2], tensor.shape[2])

    def __len__(self) -> int:
        return len(self.keys)

    def members(self, start: int, stop: int) -> Bool[np.ndarray, "_ _"]:
        """Returns which values each of the fibers from `start` to `stop` has."""
        first, last = np.searchsorted(self.fiber, (start, stop))
        members = np.zeros((min(stop, len(self)) - start, self.n_values), dtype=bool)
        members[self.fiber[first:last] - start, self.value[first:last]] = True
        return members
