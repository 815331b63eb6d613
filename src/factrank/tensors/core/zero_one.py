"""0/1 tensors with three axes, stored as the coordinates of their ones, and reductions that preserve the rank.

Dropping empty slices and merging equal ones does not change the rank. Connected components of the fact hypergraph
(which share no index on any axis) split the tensor into a direct sum. The result of both is the `Core`, on which all
bounds work.
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
    """The tensor with T[i, j, l] = 1 at the given (distinct) coordinates and 0 elsewhere."""

    coordinates: Int[np.ndarray, "ones 3"]
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, database: Database) -> ZeroOneTensor:
        """Returns the tensor D of a database, with axes key, query, value."""
        return cls(database.triples.astype(np.int64), database.shape)

    def __len__(self) -> int:
        return len(self.coordinates)

    @cached_property
    def determined(self) -> tuple[bool, bool, bool]:
        """For each axis, whether the other two determine it: every fiber along it has at most one 1."""
        first, second, third = (len(self.pairs_without(axis)) == len(self) for axis in AXES)
        return first, second, third

    def pairs_without(self, axis: int) -> Int[np.ndarray, " pairs"]:
        """Returns the distinct pairs of coordinates on the two other axes, sorted."""
        if axis not in self._pairs:
            pairs = np.sort(pair_index(self, *others(axis)))
            self._pairs[axis] = np.asarray(pairs[np.diff(pairs, prepend=-1) != 0])
        return self._pairs[axis]

    @cached_property
    def _pairs(self) -> dict[int, Int[np.ndarray, " pairs"]]:
        return {}

    def dense(self) -> Int[np.ndarray, "a b c"]:
        """Returns the full array; for small tensors."""
        array = np.zeros(self.shape, dtype=np.int64)
        array[tuple(self.coordinates.T)] = 1
        return array


def others(axis: int) -> tuple[int, int]:
    """Returns the two other axes, in order."""
    first, second = (other for other in AXES if other != axis)
    return first, second


def distinct(numbers: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " n"]]:
    """Returns the distinct numbers, sorted, and the position of each number among them, like `np.unique`."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(numbers), dtype=np.int64)
    place[order] = np.cumsum(first) - 1
    return ordered[first], place


def run_starts(ordered: Int[np.ndarray, " n"]) -> Int[np.ndarray, " runs"]:
    """Returns the start of each run of equal numbers."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


def ranges(starts: Int[np.ndarray, " n"], sizes: Int[np.ndarray, " n"]) -> Int[np.ndarray, " total"]:
    """Concatenates `range(start, start + size)` over all starts and sizes.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.asarray(np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes))


def equal_runs(numbers: Int[np.ndarray, " n"], sizes: Int[np.ndarray, " runs"]) -> Int[np.ndarray, " runs"]:
    """Numbers consecutive runs by content, in order of appearance: equal runs share a number, empty ones get -1.

    >>> equal_runs(np.array([4, 7, 2, 4, 7]), np.array([2, 1, 0, 2])).tolist()
    [0, 1, -1, 0]
    """
    content, seen = numbers.tobytes(), dict[bytes, int]()
    classes, start = np.full(len(sizes), -1, dtype=np.int64), 0
    for run, end in enumerate((numbers.itemsize * np.cumsum(sizes)).tolist()):
        if end > start:
            classes[run] = seen.setdefault(content[start:end], len(seen))
        start = end
    return classes


def pair_index(tensor: ZeroOneTensor, first: int, second: int) -> Int[np.ndarray, " ones"]:
    """Returns a number per fact that encodes its coordinates on two axes."""
    return np.asarray(tensor.coordinates[:, first] * tensor.shape[second] + tensor.coordinates[:, second])


def flattening(tensor: ZeroOneTensor, axis: int) -> sp.csr_array:
    """Returns the matrix with the slices of an axis as rows and the index pairs on the other two as columns."""
    columns, place = distinct(pair_index(tensor, *others(axis)))
    return _matrix(tensor.coordinates[:, axis], place, (tensor.shape[axis], len(columns)))


@dataclass(frozen=True, eq=False)
class StackedSlices:
    """All slices of one axis as the blocks of a block-diagonal matrix, whose rank is the sum of theirs.

    Row and column labels are the indices on the two other axes.
    """

    matrix: sp.csr_array
    slice_of_row: Int[np.ndarray, " rows"]
    row_label: Int[np.ndarray, " rows"]
    column_label: Int[np.ndarray, " columns"]


def stacked_slices(tensor: ZeroOneTensor, axis: int) -> StackedSlices:
    """Stacks the slices of an axis along a diagonal; rows and columns are the two other axes in order."""
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

    Arguments:
        tensor: the reduced tensor.
        classes: for each axis, the core index of every slice of the original tensor, -1 if empty.
        component: for each axis, the component of every core index.
        n_components: the number of components.
    """

    tensor: ZeroOneTensor
    classes: tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"], Int[np.ndarray, " c"]]
    component: tuple[Int[np.ndarray, " a2"], Int[np.ndarray, " b2"], Int[np.ndarray, " c2"]]
    n_components: int

    @classmethod
    def of(cls, tensor: ZeroOneTensor) -> Core:
        """Drops empty slices, merges equal ones and finds the components."""
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
        """Drops empty slices only; everything is one component."""
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
        """Returns one component as a tensor, with indices renumbered."""
        coordinates = self.tensor.coordinates[self.fact_component == component]
        places = [distinct(coordinates[:, axis]) for axis in AXES]
        a, b, c = (len(names) for names, _ in places)
        return ZeroOneTensor(np.column_stack([place for _, place in places]), (a, b, c))


def _slice_classes(tensor: ZeroOneTensor, axis: int) -> Int[np.ndarray, " slices"]:
    """Numbers the distinct non-empty slices of an axis in order of appearance; -1 for empty ones."""
    pairs = pair_index(tensor, *others(axis))
    order = np.lexsort((pairs, tensor.coordinates[:, axis]))
    return equal_runs(pairs[order], np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]))


def _first_of_class(classes: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " classes"]:
    first = np.zeros(int(classes.max(initial=-1)) + 1, dtype=np.int64)
    backwards = np.flatnonzero(classes >= 0)[::-1]
    first[classes[backwards]] = backwards
    return first


def components(
    tensor: ZeroOneTensor,
) -> tuple[tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"], Int[np.ndarray, " c"]], int]:
    """Returns the component of every index of each axis (an empty slice has its own), and their number."""
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
