r"""U6, the spanning-tree bound.

Take the slices $S_i$ of an axis and the zero matrix $S_0$ as nodes, and rank($S_i - S_j$) as the weight of an edge.
Along a spanning tree every slice is the sum of the differences on its path to 0, so the slices lie in the span of the
tree's edges and rank T is at most the weight of the tree:

$$ T = \sum_{(i \to j)} 1_{\text{subtree}(i)} \otimes (S_i - S_j). $$

Any tree gives a valid bound: with many slices the minimum is taken over a sparse graph of promising edges.

Where (x, y) determine z the rank of a difference is a *graphic rank*: row y of $S_i - S_j$ is $e_u - e_w$ with u, w the
z-values of the two slices (nothing where there is none), an edge u - w, or u - ground. The rank is the number of nodes
less the number of connected parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from factrank.tensors.bounds.bracket import Bracket
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
)
from factrank.tensors.matrix import Factorisation, block_ranks, factorise

ALL_PAIRS_WORK = 3_000_000
"""Up to this many facts in the differences of all pairs of slices, the graph is complete."""

NEIGHBOURS = 4
"""Promising edges per slice otherwise,"""

CANDIDATE_WORK = 2
"""and at most this many times the number of facts in all their differences."""

COMMON_COLUMN = 16
"""A fact shared by more slices than this does not suggest an edge: it would suggest too many."""

Pairs = tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]


@dataclass(frozen=True, eq=False)
class _Differences:
    """The entries of S_i - S_j for many pairs at once: of pair p, at (row, column), with this sign."""

    pair: Int[np.ndarray, " n"]
    row: Int[np.ndarray, " n"]
    column: Int[np.ndarray, " n"]
    sign: Int[np.ndarray, " n"]


def spanning_tree_bound(core: Core, axis: int) -> UpperBound:
    """U6 over the slices of one axis."""
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
    """The tree's edges as (child, parent), parents before children."""
    order, parent = breadth_first_order(tree, root, directed=False)
    children = order[1:].astype(np.int64)
    return children, parent[children].astype(np.int64)


def _candidate_pairs(tensor: ZeroOneTensor, axis: int) -> Pairs:
    """All pairs of slices when that is affordable, else those that share facts or follow each other in size."""
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
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else np.array([], dtype=np.int64)
    place = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    best = order[place < NEIGHBOURS]
    best = best[np.argsort(-shared.data[best], kind="stable")]
    in_size_order = np.argsort(np.diff(incidence.indptr), kind="stable")
    pairs = np.concatenate(
        [
            np.column_stack([in_size_order[:-1], in_size_order[1:]]),
            np.column_stack([shared.row[best], shared.col[best]]),
        ]
    ).astype(np.int64)
    sizes = np.diff(incidence.indptr)
    affordable = np.cumsum(sizes[pairs].sum(axis=1)) <= CANDIDATE_WORK * len(tensor)
    pairs = np.unique(np.sort(pairs[affordable], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _differences(tensor: ZeroOneTensor, axis: int, row_axis: int, pairs: Pairs) -> _Differences:
    """Entries of S_i - S_j for the given pairs; slice number n stands for the zero matrix."""
    column_axis = next(other for other in others(axis) if other != row_axis)
    order = np.argsort(tensor.coordinates[:, axis], kind="stable")
    counts = np.append(np.bincount(tensor.coordinates[:, axis], minlength=tensor.shape[axis]), 0)
    starts = np.cumsum(counts) - counts
    parts = []
    for slices, sign in zip(pairs, (1, -1), strict=True):
        sizes = counts[slices]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        facts = tensor.coordinates[order[np.repeat(starts[slices], sizes) + within]]
        pair = np.repeat(np.arange(len(slices)), sizes)
        parts.append((pair, facts[:, row_axis], facts[:, column_axis], np.full(len(pair), sign)))
    return _Differences(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _difference_ranks(tensor: ZeroOneTensor, axis: int, pairs: Pairs) -> Int[np.ndarray, " pairs"]:
    """Rank of S_i - S_j (at least an upper bound of it) for each pair; exact where two axes determine the third."""
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
    """Nodes less connected parts of each pair's graph."""
    width = tensor.shape[column_axis] + 1
    names, node = distinct(entries.pair * width + entries.column)
    n_nodes = len(names) + n_pairs
    # The entries are two sorted runs, which a stable sort merges in linear time.
    order = np.argsort(entries.pair * (entries.row.max(initial=0) + 1) + entries.row, kind="stable")
    pair, row = entries.pair[order], entries.row[order]
    joined = np.flatnonzero((pair[1:] == pair[:-1]) & (row[1:] == row[:-1]))
    alone = np.ones(len(order), dtype=bool)
    alone[joined] = alone[joined + 1] = False
    sources = np.concatenate([node[order[joined]], node[order[alone]]])
    targets = np.concatenate([node[order[joined + 1]], len(names) + pair[alone]])
    graph = sp.coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(n_nodes, n_nodes))
    _, label = connected_components(graph, directed=False)
    pair_of_node = np.concatenate([names // width, np.arange(n_pairs)])
    parts = distinct(pair_of_node * n_nodes + label)[0] // n_nodes
    return np.bincount(pair_of_node, minlength=n_pairs) - np.bincount(parts, minlength=n_pairs)


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
    """All slices below and including each slice."""
    below = {int(child): [int(child)] for child in children}
    for child, parent in zip(children[::-1].tolist(), parents[::-1].tolist(), strict=True):
        if parent != root:
            below[parent].extend(below[child])
    return below


def _star_terms(difference: sp.csr_array) -> Factorisation:
    """Rows e_u - e_w, written with e_u - e_root for the nodes u of each connected part (the ground is 0 and a root)."""
    entries = difference.tocoo()
    n_columns = difference.shape[1]
    order = np.argsort(entries.row, kind="stable")
    row, column = entries.row[order], entries.col[order].astype(np.int64)
    joined = np.flatnonzero(row[1:] == row[:-1])
    alone = np.ones(len(row), dtype=bool)
    alone[joined] = alone[joined + 1] = False
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


# -------------------------------------------------------------------- how it is tried


def _name(axis: int) -> str:
    return f"U6 spanning tree of {AXIS_NAMES[axis]} slices"


def _expected_seconds(bracket: Bracket) -> float:
    return 2 * PER_FACT * len(bracket.tensor)


def _tree(axis: int, bracket: Bracket) -> list[UpperBound]:
    return [spanning_tree_bound(bracket.core, axis)]


METHODS = tuple(
    BoundMethod(
        name=_name(axis),
        of="rank",
        side="upper",
        stage=Stage.CONSTRUCT,
        refusals=(met_here,),
        cost=_expected_seconds,
        run=partial(_tree, axis),
        dear=True,
    )
    for axis in (1, 0, 2)
)
