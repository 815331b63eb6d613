"""Lower bounds on the effective rank from the sets of values in use: what tensors of rank 0 or 1 cannot express."""

from __future__ import annotations

import numpy as np

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.core import ZeroOneTensor, pair_index


def rank_one_bound(tensor: ZeroOneTensor) -> Bound:
    """Returns a bound of 0, 1 or 2, for a tensor without empty or equal value slices.

    With rank 0 all values tie. Every fiber of a rank-one tensor is a multiple of one vector c, so the values of a valid
    fiber are the largest or the smallest entries of c. Sets of largest entries are nested, and so are sets of smallest
    entries; hence among three distinct sets of equal size two would be nested, which is impossible.
    """
    n_values = tensor.shape[2]
    if tensor.determined[2]:
        counted = {0: "no value", 1: "one value", 2: "two values"}.get(n_values, "three or more values")
        return Bound(min(max(n_values - 1, 0), 2), f"{counted} in use")
    sets = _value_sets(tensor)
    if np.bincount([len(values) for values in sets]).max() >= 3:
        return Bound(2, "three or more sets of values in use")
    if any(len(values) < n_values for values in sets):
        return Bound(1, "two or more sets of values in use")
    return Bound(0, "one set of values in use")


def incomplete_fiber_bound(tensor: ZeroOneTensor) -> Bound:
    """Returns 1 if some fiber lacks a value, else 0: with rank 0 all values tie."""
    n_fibers = len(tensor.pairs_without(2))
    if len(tensor) < n_fibers * tensor.shape[2]:
        return Bound(1, "two or more sets of values in use")
    return Bound(0, "one set of values in use")


def _value_sets(tensor: ZeroOneTensor) -> set[tuple[int, ...]]:
    order = np.lexsort((tensor.coordinates[:, 2], pair_index(tensor, 0, 1)))
    fiber, values = pair_index(tensor, 0, 1)[order], tensor.coordinates[order, 2]
    return {tuple(part.tolist()) for part in np.split(values, np.flatnonzero(np.diff(fiber)) + 1)}


def _expected_seconds(bracket: Bracket) -> float:
    return 0.0 if bracket.tensor.determined[2] else expected_of(3.0, len(bracket.tensor))


METHODS = (
    BoundMethod(
        name="sets of values in use",
        of="effective rank",
        side="lower",
        stage=Stage.COUNT,
        cost=_expected_seconds,
        run=lambda bracket: [rank_one_bound(bracket.tensor)],
        instead=lambda bracket: [incomplete_fiber_bound(bracket.tensor)],
    ),
)
