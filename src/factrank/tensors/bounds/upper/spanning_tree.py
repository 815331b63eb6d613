r"""U6, the spanning-tree bound.

Take the slices $S_i$ of an axis and the zero matrix $S_0$ as nodes, and rank($S_i - S_j$) as the weight of an edge.
Every slice is the sum of the differences along its path to 0 in a spanning tree, so rank T is at most the weight of the
tree:

$$ T = \sum_{(i \to j)} 1_{\text{subtree}(i)} \otimes (S_i - S_j). $$

Any tree gives a valid bound. If there are many slices, the minimum is taken over a sparse graph of promising edges.

If (x, y) determine z, the rank of a difference is a *graphic rank*: row y of $S_i - S_j$ is $e_u - e_w$ with u, w the
z-values of the two slices (zero for a missing entry), that is, an edge u - w or u - ground. The rank is the number of
nodes minus the number of connected parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import met_here
from factrank.tensors.bounds.upper.by_component import UpperBound
from factrank.tensors.core import (
    AXIS_NAMES,
    Core,
    Decomposition,
    Factor,
    ZeroOneTensor,
    concatenate,
    distinct,
    flattening,
    others,
    ranges,
    run_starts,
)
from factrank.tensors.matrix import Factorisation, block_ranks, factorise

ALL_PAIRS_WORK = 3_000_000
"""The graph is complete if the differences of all pairs of slices have at most this many facts."""

NEIGHBOURS = 4
"""Otherwise it has at most this many promising edges per slice,"""

CANDIDATE_WORK = 2
"""whose differences together have at most this many times the number of facts."""

COMMON_COLUMN = 16
"""Facts shared by more slices than this suggest no edges, because they would suggest too many."""

Pairs = tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]


@dataclass(frozen=True, eq=False)
class _Differences:
    """The entries of S_i - S_j for many pairs p at once."""

    pair: Int[np.ndarray, " n"]
    row: Int[np.ndarray, " n"]
    column: Int[np.ndarray, " n"]
    sign: Int[np.ndarray, " n"]


def spanning_tree_bound(core: Core, axis: int) -> UpperBound:
    """Returns U6 over the slices of one axis."""
    tensor = core.tensor
    first, second = _candidate_pairs(tensor, axis)
    n = tensor.shape[axis]
    sources, targets = np.concatenate([first, np.arange(n)]), np.concatenate([second, np.full(n, n)])
    weights = _difference_ranks(tensor, axis, (sources, targets))
    places = sources.astype(np.int32), targets.astype(np.int32)  # SciPy before 1.17.1 takes no others here
    graph = sp.csr_array((weights, places), shape=(n + 1, n + 1))
    tree = minimum_spanning_tree(graph)
    children, parents = _rooted(tree, n)
    weight = np.asarray(tree[children, parents] + tree[parents, children]).ravel()
    by_component = np.bincount(core.component[axis][children], weights=weight, minlength=core.n_components)
    return UpperBound(_name(axis), by_component.astype(np.int64), lambda: _decompose(tensor, axis, children, parents))


def _rooted(tree: sp.csr_array, root: int) -> Pairs:
    """The edges of the tree as (child, parent), parents first."""
    order, parent = breadth_first_order(tree, root, directed=False)
    children = order[1:].astype(np.int64)
    return children, parent[children].astype(np.int64)


def _candidate_pairs(tensor: ZeroOneTensor, axis: int) -> Pairs:
    """All pairs of slices if affordable, else those that share facts or are neighbours in order of size."""
    n = tensor.shape[axis]
    if n * len(tensor) <= ALL_PAIRS_WORK:
        first, second = np.triu_indices(n, 1)
        return first, second
    incidence = flattening(tensor, axis)
    rare = np.bincount(incidence.indices, minlength=incidence.shape[1]) <= COMMON_COLUMN
    suggested = sp.csr_array(incidence[:, np.flatnonzero(rare)])
    shared = sp.coo_array(sp.triu(suggested @ suggested.T, k=1))
    order = np.lexsort((-shared.data, shared.row))
    rows = shared.row[order]
    sizes = np.diff(np.append(run_starts(rows), len(rows)))
    best = order[ranges(np.zeros_like(sizes), sizes) < NEIGHBOURS]
    best = best[np.argsort(-shared.data[best], kind="stable")]
    sizes = np.diff(incidence.indptr)
    in_size_order = np.argsort(sizes, kind="stable")
    pairs = np.concatenate(
        [
            np.column_stack([in_size_order[:-1], in_size_order[1:]]),
            np.column_stack([shared.row[best], shared.col[best]]),
        ]
    ).astype(np.int64)
    affordable = np.cumsum(sizes[pairs].sum(axis=1)) <= CANDIDATE_WORK * len(tensor)
    pairs = np.unique(np.sort(pairs[affordable], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _differences(tensor: ZeroOneTensor, axis: int, row_axis: int, pairs: Pairs) -> _Differences:
    """The entries of S_i - S_j for the given pairs; slice number n is the zero matrix."""
    order = np.argsort(tensor.coordinates[:, axis], kind="stable")
    counts = np.append(np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]), 0)
    starts = np.cumsum(counts) - counts
    parts = []
    for slices, sign in zip(pairs, (1, -1), strict=True):
        facts = tensor.coordinates[order[ranges(starts[slices], counts[slices])]]
        pair = np.repeat(np.arange(len(slices)), counts[slices])
        parts.append((pair, facts[:, row_axis], facts[:, 3 - axis - row_axis], np.full(len(pair), sign)))
    return _Differences(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _difference_ranks(tensor: ZeroOneTensor, axis: int, pairs: Pairs) -> Int[np.ndarray, " pairs"]:
    """Upper bounds on the ranks of S_i - S_j; exact if two axes determine the third."""
    row_axis, column_axis = others(axis)
    if tensor.determined[column_axis]:
        return _graphic_ranks(tensor, _differences(tensor, axis, row_axis, pairs), column_axis, len(pairs[0]))
    if tensor.determined[row_axis]:
        return _graphic_ranks(tensor, _differences(tensor, axis, column_axis, pairs), row_axis, len(pairs[0]))
    entries = _differences(tensor, axis, row_axis, pairs)
    rows, row_place = distinct(entries.pair * tensor.shape[row_axis] + entries.row)
    columns, column_place = distinct(entries.pair * tensor.shape[column_axis] + entries.column)
    matrix = sp.csr_array((entries.sign, (row_place, column_place)), shape=(len(rows), len(columns)))
    return block_ranks(matrix, rows // tensor.shape[row_axis], len(pairs[0])).upper


def _graphic_ranks(
    tensor: ZeroOneTensor, entries: _Differences, column_axis: int, n_pairs: int
) -> Int[np.ndarray, " pairs"]:
    """Nodes minus connected parts of the graph of each pair."""
    width = tensor.shape[column_axis] + 1
    names, node = distinct(entries.pair * width + entries.column)
    n_nodes = len(names) + n_pairs
    # The entries are two sorted runs, which a stable sort merges in linear time.
    order = np.argsort(entries.pair * (entries.row.max(initial=0) + 1) + entries.row, kind="stable")
    pair, row = entries.pair[order], entries.row[order]
    joined, alone = _partners((pair[1:] == pair[:-1]) & (row[1:] == row[:-1]), len(order))
    sources = np.concatenate([node[order[joined]], node[order[alone]]])
    targets = np.concatenate([node[order[joined + 1]], len(names) + pair[alone]])
    graph = sp.coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(n_nodes, n_nodes))
    _, label = connected_components(graph, directed=False)
    pair_of_node = np.concatenate([names // width, np.arange(n_pairs)])
    parts = distinct(pair_of_node * n_nodes + label)[0] // n_nodes
    return np.bincount(pair_of_node, minlength=n_pairs) - np.bincount(parts, minlength=n_pairs)


def _partners(same_row: Bool[np.ndarray, " _"], n: int) -> tuple[Int[np.ndarray, " _"], Bool[np.ndarray, " n"]]:
    """Returns the first entry of each row with two entries, and which of the n entries are alone in their row."""
    joined, alone = np.flatnonzero(same_row), np.ones(n, dtype=bool)
    alone[joined] = alone[joined + 1] = False
    return joined, alone


# -------------------------------------------------------------------- the witness


def _decompose(
    tensor: ZeroOneTensor, axis: int, children: Int[np.ndarray, " edges"], parents: Int[np.ndarray, " edges"]
) -> Decomposition:
    row_axis, column_axis = others(axis)
    swapped = not tensor.determined[column_axis] and tensor.determined[row_axis]
    if swapped:
        row_axis, column_axis = column_axis, row_axis
    graphic = tensor.determined[column_axis]
    subtrees = _subtrees(children, parents, tensor.shape[axis])
    entries = _differences(tensor, axis, row_axis, (children, parents))
    order = np.argsort(entries.pair, kind="stable")
    ends = np.cumsum(np.bincount(entries.pair, minlength=len(children)))[:-1]
    parts = []
    for child, chosen in zip(children.tolist(), np.split(order, ends), strict=False):
        shape = (tensor.shape[row_axis], tensor.shape[column_axis])
        coordinates = (entries.row[chosen], entries.column[chosen])
        difference = sp.csr_array((entries.sign[chosen], coordinates), shape=shape)
        difference.eliminate_zeros()
        terms = _star_terms(difference) if graphic else factorise(difference)
        subtree = np.array(subtrees[child], dtype=np.int64)
        by_axis = {row_axis: terms.left, column_axis: terms.right}
        by_axis[axis] = Factor.indicator(
            np.tile(subtree, terms.n_terms), np.repeat(np.arange(terms.n_terms), len(subtree))
        )
        parts.append(Decomposition((by_axis[0], by_axis[1], by_axis[2]), terms.denominators))
    return concatenate(parts)


def _subtrees(
    children: Int[np.ndarray, " edges"], parents: Int[np.ndarray, " edges"], root: int
) -> dict[int, list[int]]:
    below = {int(child): [int(child)] for child in children}
    for child, parent in zip(children[::-1].tolist(), parents[::-1].tolist(), strict=True):
        if parent != root:
            below[parent].extend(below[child])
    return below


def _star_terms(difference: sp.csr_array) -> Factorisation:
    """Rows e_u - e_w in terms of e_u - e_root, with one root per connected part: the ground, which is 0, or a node."""
    entries = difference.tocoo()
    n_columns = difference.shape[1]
    order = np.argsort(entries.row, kind="stable")
    row, column = entries.row[order], entries.col[order].astype(np.int64)
    joined, alone = _partners(row[1:] == row[:-1], len(row))
    sources = np.concatenate([column[joined], column[alone]])
    targets = np.concatenate([column[joined + 1], np.full(alone.sum(), n_columns)])
    graph = sp.coo_array((np.ones(len(sources)), (sources, targets)), shape=(n_columns + 1, n_columns + 1))
    _, label = connected_components(graph, directed=False)
    used = distinct(column)[0]
    root = np.full(n_columns + 1, -1)
    root[label[used[::-1]]] = used[::-1]
    root[label[n_columns]] = n_columns
    nodes = used[root[label[used]] != used]
    term_of = np.full(n_columns, -1)
    term_of[nodes] = np.arange(len(nodes))
    roots = root[label[nodes]]
    grounded = roots == n_columns
    kept = term_of[column] >= 0
    return Factorisation(
        Factor(row[kept].astype(np.int64), term_of[column[kept]], entries.data[order][kept]),
        Factor(
            np.concatenate([nodes, roots[~grounded]]),
            np.concatenate([np.arange(len(nodes)), np.flatnonzero(~grounded)]),
            np.array([1] * len(nodes) + [-1] * int((~grounded).sum()), dtype=np.int64),
        ),
        np.ones(len(nodes), dtype=np.int64),
    )


def _name(axis: int) -> str:
    return f"U6 spanning tree of {AXIS_NAMES[axis]} slices"


def _method(axis: int) -> BoundMethod:
    return BoundMethod(
        name=_name(axis),
        of="rank",
        side="upper",
        stage=Stage.CONSTRUCT,
        refusals=(met_here,),
        cost=lambda bracket: 2 * PER_FACT * len(bracket.tensor),
        run=lambda bracket: [spanning_tree_bound(bracket.core, axis)],
        expensive=True,
    )


METHODS = tuple(_method(axis) for axis in (1, 0, 2))
