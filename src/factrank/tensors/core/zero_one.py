"""0/1 tensors with three axes, kept as the coordinates of their ones, and the moves that do not change their rank.

Dropping empty slices and keeping one copy of equal slices preserves the rank; a direct sum over connected components of
the fact hypergraph (no shared index on any axis) splits it into blocks. Every bound works on the result, the `Core`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.sparse.csgraph import connected_components

from factrank.databases import COLUMNS, Database

AXES = (0, 1, 2)
AXIS_NAMES = COLUMNS


@dataclass(frozen=True, eq=False)
class ZeroOneTensor:
    """The tensor T[i, j, l] = 1 at the given coordinates (distinct rows), 0 elsewhere."""

    coordinates: Int[np.ndarray, "ones 3"]
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, database: Database) -> ZeroOneTensor:
        """The tensor D of a database: axes key, query, value."""
        return cls(database.triples.astype(np.int64), database.shape)

    def __len__(self) -> int:
        return len(self.coordinates)

    @cached_property
    def determined(self) -> tuple[bool, bool, bool]:
        """For each axis, whether the other two determine it: at most one 1 in every fiber along it."""
        first, second, third = (len(self.pairs_without(axis)) == len(self) for axis in AXES)
        return first, second, third

    def pairs_without(self, axis: int) -> Int[np.ndarray, " pairs"]:
        """The distinct pairs of coordinates on the two other axes, in order."""
        if axis not in self._pairs:
            self._pairs[axis] = distinct_pairs(self, *others(axis))
        return self._pairs[axis]

    @cached_property
    def _pairs(self) -> dict[int, Int[np.ndarray, " pairs"]]:
        return {}

    def dense(self) -> Int[np.ndarray, "a b c"]:
        """The full array, for small tensors and for references."""
        array = np.zeros(self.shape, dtype=np.int64)
        array[tuple(self.coordinates.T)] = 1
        return array


def others(axis: int) -> tuple[int, int]:
    """The two other axes, in order."""
    first, second = (other for other in AXES if other != axis)
    return first, second


def distinct(numbers: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " n"]]:
    """The distinct numbers in order, and for each number its place among them (as `np.unique`, but by sorting)."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(numbers), dtype=np.int64)
    place[order] = np.cumsum(first) - 1
    return ordered[first], place


def pair_index(tensor: ZeroOneTensor, first: int, second: int) -> Int[np.ndarray, " ones"]:
    """One number per fact for its coordinates on two axes."""
    return np.asarray(tensor.coordinates[:, first] * tensor.shape[second] + tensor.coordinates[:, second])


def distinct_pairs(tensor: ZeroOneTensor, first: int, second: int) -> Int[np.ndarray, " pairs"]:
    """The distinct pairs of coordinates that occur on two axes."""
    pairs = np.sort(pair_index(tensor, first, second))
    return np.asarray(pairs[np.diff(pairs, prepend=-1) != 0])


def flattening(tensor: ZeroOneTensor, axis: int) -> sp.csr_array:
    """The matrix with the slices of one axis as rows; columns are the index pairs that occur on the other two."""
    columns, place = distinct(pair_index(tensor, *others(axis)))
    return _matrix(tensor.coordinates[:, axis], place, (tensor.shape[axis], len(columns)))


@dataclass(frozen=True, eq=False)
class StackedSlices:
    """All slices of one axis as the blocks of one block-diagonal matrix.

    The rank of a block-diagonal matrix is the sum over its blocks, so one sparse elimination does all slices. Row and
    column labels give the indices on the two other axes; the slice is the same for a row and the columns it meets.
    """

    matrix: sp.csr_array
    slice_of_row: Int[np.ndarray, " rows"]
    row_label: Int[np.ndarray, " rows"]
    column_label: Int[np.ndarray, " columns"]


def stacked_slices(tensor: ZeroOneTensor, axis: int) -> StackedSlices:
    """The slices T[axis = i] for all i, stacked along a diagonal; rows and columns are the two other axes in order."""
    row_axis, column_axis = others(axis)
    rows, row_place = distinct(pair_index(tensor, axis, row_axis))
    columns, column_place = distinct(pair_index(tensor, axis, column_axis))
    matrix = _matrix(row_place, column_place, (len(rows), len(columns)))
    slice_of_row, row_label = np.divmod(rows, max(tensor.shape[row_axis], 1))
    return StackedSlices(matrix, slice_of_row, row_label, columns % max(tensor.shape[column_axis], 1))


def _matrix(rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"], shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)


@dataclass(frozen=True, eq=False)
class Core:
    """A tensor without empty or repeated slices, split into connected components.

    `classes[axis][i]` is the core index of slice i of the original tensor, or -1 for an empty slice;
    `component[axis][i]` is the component of core index i.
    """

    tensor: ZeroOneTensor
    classes: tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"], Int[np.ndarray, " c"]]
    component: tuple[Int[np.ndarray, " a2"], Int[np.ndarray, " b2"], Int[np.ndarray, " c2"]]
    n_components: int

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> Core:
        """Drop empty slices, merge equal ones, find the components."""
        classes = [_slice_classes(tensor, axis) for axis in AXES]
        sizes = [int(c.max(initial=-1)) + 1 for c in classes]
        kept, columns = np.ones(len(tensor), dtype=bool), []
        for axis in AXES:
            of_fact = classes[axis][tensor.coordinates[:, axis]]
            kept &= _first_of_class(classes[axis])[of_fact] == tensor.coordinates[:, axis]
            columns.append(of_fact)
        core = ZeroOneTensor(np.column_stack(columns)[kept], (sizes[0], sizes[1], sizes[2]))
        labels, n_components = components(core)
        return cls(core, (classes[0], classes[1], classes[2]), labels, n_components)

    @classmethod
    def unmerged(cls, tensor: ZeroOneTensor) -> Core:
        """Only drop empty slices: equal ones stay, and everything is one component."""
        used = [np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]) > 0 for axis in AXES]
        first, second, third = (np.where(some, np.cumsum(some) - 1, -1) for some in used)
        a, b, c = (int(some.sum()) for some in used)
        if (a, b, c) != tensor.shape:
            columns = zip((first, second, third), tensor.coordinates.T, strict=True)
            tensor = ZeroOneTensor(np.column_stack([classes[column] for classes, column in columns]), (a, b, c))
        labels = np.zeros(a, dtype=np.int64), np.zeros(b, dtype=np.int64), np.zeros(c, dtype=np.int64)
        return cls(tensor, (first, second, third), labels, int(len(tensor) > 0))

    @cached_property
    def fact_component(self) -> Int[np.ndarray, " ones"]:
        """The component of each fact of the core."""
        return np.asarray(self.component[0][self.tensor.coordinates[:, 0]])

    def part(self, component: int) -> ZeroOneTensor:
        """One component as a tensor of its own, its indices renumbered."""
        coordinates = self.tensor.coordinates[self.fact_component == component]
        places = [distinct(coordinates[:, axis]) for axis in AXES]
        a, b, c = (len(names) for names, _ in places)
        return ZeroOneTensor(np.column_stack([place for _, place in places]), (a, b, c))


def _slice_classes(tensor: ZeroOneTensor, axis: int) -> Int[np.ndarray, " slices"]:
    """Number the distinct non-empty slices of an axis in order of appearance; -1 for empty ones."""
    pairs = pair_index(tensor, *others(axis))
    order = np.lexsort((pairs, tensor.coordinates[:, axis]))
    pairs, ends = pairs[order], np.cumsum(np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]))
    content, seen = pairs.tobytes(), dict[bytes, int]()
    classes, start = np.full(tensor.shape[axis], -1, dtype=np.int64), 0
    for slice_, end in enumerate(ends.tolist()):
        if end > start:
            classes[slice_] = seen.setdefault(content[8 * start : 8 * end], len(seen))
        start = end
    return classes


def _first_of_class(classes: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " classes"]:
    """The first slice of each class: the copy that is kept."""
    first = np.zeros(int(classes.max(initial=-1)) + 1, dtype=np.int64)
    backwards = np.flatnonzero(classes >= 0)[::-1]
    first[classes[backwards]] = backwards
    return first


def components(
    tensor: ZeroOneTensor,
) -> tuple[tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"], Int[np.ndarray, " c"]], int]:
    """The connected component of every index of each axis (an empty slice is one of its own), and their number."""
    a, b, c = tensor.shape
    i, j, k = tensor.coordinates.T
    nodes = a + b + c
    edges = sp.coo_array(
        (np.ones(2 * len(tensor), dtype=np.int8), (np.concatenate([i, i]), np.concatenate([a + j, a + b + k]))),
        shape=(nodes, nodes),
    )
    count, labels = connected_components(edges, directed=False) if nodes else (0, np.array([], dtype=np.int64))
    labels = labels.astype(np.int64)
    return (labels[:a], labels[a : a + b], labels[a + b :]), int(count)
