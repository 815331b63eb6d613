"""Lower bounds of the effective rank by the sets of values in use: what a tensor of rank 0 or 1 cannot show."""

from __future__ import annotations

import numpy as np

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.core import ZeroOneTensor, pair_index


def rank_one_bound(tensor: ZeroOneTensor) -> Bound:
    """0, 1 or 2, by what a tensor of rank 0 or 1 can show (empty and equal value slices taken out).

    Rank 0 is one tie of all values. Every fiber of a rank-one tensor is a multiple of one vector c, so the values of a
    valid fiber are the top or the bottom of c; tops are nested, and so are bottoms. Of three different sets of equal
    size two would be nested: impossible.
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
    """1 if some fiber lacks a value: rank 0 is one tie of all values."""
    n_fibers = len(tensor.pairs_without(2))
    if len(tensor) < n_fibers * tensor.shape[2]:
        return Bound(1, "two or more sets of values in use")
    return Bound(0, "one set of values in use")


def _value_sets(tensor: ZeroOneTensor) -> set[tuple[int, ...]]:
    """The different sets of values that fibers have."""
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
