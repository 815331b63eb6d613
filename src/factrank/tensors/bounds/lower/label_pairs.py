r"""Pairs of labels: rank-two logits show few different pairs of answers to two queries.

Let $T[k, q, v] = \sum_{r \le 2} a_r[k]\, b_r[q]\, c_r[v]$ be correct logits of rank two. For a query q and a set S of
values, the vectors $a \in \mathbb{R}^2$ for which all values of S exceed all others form an open convex cone, so their
directions form an arc of the circle. The arcs of different sets of one size are disjoint, since two such sets cannot
both be on top. Take two queries and a size of sets for each. A pair (S, S') that some key has as answers is a pair of
intersecting arcs. The intersection is an arc too, and begins where the arc of S or the arc of S' begins; each beginning
of an arc is the beginning of at most one intersection. So there are at most as many pairs as sets that occur in them,
for any selection of sets. If more pairs occur, the effective rank is at least three. Keys and queries may be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from jaxtyping import Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, ShownWitness
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import met, searching
from factrank.tensors.core import AXIS_NAMES, FiberSets, ZeroOneTensor, distinct

NAME = "pairs of labels"

MOST_COLUMNS = 60
"""Number of columns (a slice and a size of sets) whose pairs are tried, the most promising ones."""

MOST_FACTS = 2_000_000

PER_PAIR, PER_PLACE, PER_EDGE = 3e-4, 3e-9, 1e-7
"""Seconds per pair of columns, per place that such a pair may have, and per place that it has."""

Column = tuple[int, int]
"""A slice, and a size of the sets in its fibers."""

Edge = tuple[frozenset[int], frozenset[int]]


@dataclass(frozen=True, eq=False, repr=False)
class LabelPairs(ShownWitness):
    """Two columns of an axis in which more pairs of sets occur than sets."""

    axis: int
    columns: tuple[Column, Column]

    value: int = 3

    @property
    def method(self) -> str:
        """Label of the method and the axis of the two slices."""
        return f"{NAME} of two {AXIS_NAMES[self.axis]} slices"

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns 3 if the pairs, counted again from the facts, outnumber the sets; else 0."""
        sets: dict[tuple[int, int], set[int]] = {}
        for fact in tensor.coordinates.tolist():
            sets.setdefault((fact[self.axis], fact[1 - self.axis]), set()).add(fact[2])
        first, second = (
            {y: frozenset(values) for (x, y), values in sets.items() if (x, len(values)) == column}
            for column in self.columns
        )
        edges = _core_of_graph({(first[y], second[y]) for y in first.keys() & second.keys()})
        n_sets = len({edge[0] for edge in edges}) + len({edge[1] for edge in edges})
        return 3 if self.columns[0] != self.columns[1] and len(edges) > n_sets else 0


def _core_of_graph(edges: set[Edge]) -> set[Edge]:
    """Removes pairs with a set that no other pair has, until none is left: each removes at least one set."""
    while True:
        uses: dict[tuple[int, frozenset[int]], int] = {}
        for edge in edges:
            for side in (0, 1):
                uses[side, edge[side]] = uses.get((side, edge[side]), 0) + 1
        kept = {edge for edge in edges if uses[0, edge[0]] > 1 and uses[1, edge[1]] > 1}
        if len(kept) == len(edges):
            return edges
        edges = kept


def label_pairs(tensor: ZeroOneTensor, axis: int) -> LabelPairs | None:
    """Returns a witness among the pairs of columns of the query axis (1) or the key axis (0), or None."""
    fibers = FiberSets.of(tensor)
    columns, labels = _columns(fibers, axis)
    for one, other in combinations(range(len(columns)), 2):
        if columns[one][0] != columns[other][0] and _outnumber(labels[one], labels[other]):
            return LabelPairs(axis, (columns[one], columns[other]))
    return None


def _columns(fibers: FiberSets, axis: int) -> tuple[list[Column], Int[np.ndarray, "columns places"]]:
    """The columns with the most repeated labels, and their labels (a number per set, -1 without one)."""
    slices, places = (fibers.queries, fibers.keys) if axis == 1 else (fibers.keys, fibers.queries)
    sizes, label = np.bincount(fibers.fiber, minlength=len(fibers)), _numbered(fibers)
    names, column = distinct(slices * (fibers.n_values + 1) + sizes)
    pairs = distinct(column * (int(label.max(initial=0)) + 1) + label)[0]
    different = np.bincount(pairs // (int(label.max(initial=0)) + 1), minlength=len(names))
    repeats = np.where(different > 1, np.bincount(column, minlength=len(names)) - different, 0)
    chosen = np.argsort(-repeats, kind="stable")[:MOST_COLUMNS]
    chosen = chosen[repeats[chosen] > 0]
    place = np.full(len(names), -1)
    place[chosen] = np.arange(len(chosen))
    table = np.full((len(chosen), int(places.max(initial=0)) + 1), -1)
    kept = place[column] >= 0
    table[place[column[kept]], places[kept]] = label[kept]
    return [divmod(int(names[c]), fibers.n_values + 1) for c in chosen], table


def _numbered(fibers: FiberSets) -> Int[np.ndarray, " fibers"]:
    """A number for the set of each fiber, equal for equal sets."""
    if len(fibers.fiber) == len(fibers):
        return fibers.value
    seen: dict[tuple[int, ...], int] = {}
    return np.array([seen.setdefault(values, len(seen)) for values in _sets(fibers)], dtype=np.int64)


def _sets(fibers: FiberSets) -> Iterator[tuple[int, ...]]:
    ends = np.searchsorted(fibers.fiber, np.arange(len(fibers) + 1)).tolist()
    for start, end in pairwise(ends):
        yield tuple(sorted(fibers.value[start:end].tolist()))


def _outnumber(first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]) -> bool:
    """Whether, among some labels, more pairs occur than labels."""
    both = (first >= 0) & (second >= 0)
    n_right = int(second.max(initial=0)) + 1
    edges = np.column_stack(np.divmod(distinct(first[both] * n_right + second[both])[0], n_right))
    while len(edges):
        (_, left, left_uses), (_, right, right_uses) = (
            np.unique(edges[:, side], return_inverse=True, return_counts=True) for side in (0, 1)
        )
        kept = (left_uses[left] > 1) & (right_uses[right] > 1)
        if kept.all():
            return len(edges) > len(left_uses) + len(right_uses)
        edges = edges[kept]
    return False


def _enough(bracket: Bracket) -> str:
    return "" if bracket.greatest < 3 else f"cannot exceed the lower bound {bracket.greatest}"


def _too_large(bracket: Bracket) -> str:
    return "" if len(bracket.tensor) <= MOST_FACTS else "the table is too large"


def _expected_seconds(bracket: Bracket) -> float:
    """Sum over both axes. All pairs of columns have at most n_columns / 2 places in common per fact."""
    n_facts, single = len(bracket.tensor), bracket.tensor.determined[2]
    seconds = 2 * PER_FACT * n_facts
    for n_slices, n_places in zip(bracket.tensor.shape[:2], bracket.tensor.shape[1::-1], strict=True):
        n_columns = min(n_slices, MOST_COLUMNS) if single else MOST_COLUMNS
        n_pairs = n_columns**2 / 2
        n_edges = min(n_pairs * n_places, n_columns / 2 * n_facts)
        seconds += n_pairs * (PER_PAIR + PER_PLACE * n_places) + PER_EDGE * n_edges
    return seconds


def _pairs(bracket: Bracket) -> list[Bound]:
    for axis in (1, 0):
        witness = label_pairs(bracket.tensor, axis)
        if witness:
            return [Bound.by(witness)]
    return []


METHODS = (
    BoundMethod(
        name=NAME,
        of="effective rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(searching,),
        refusals=(met, _enough, _too_large),
        cost=_expected_seconds,
        run=_pairs,
    ),
)
