"""Colouring: partition queries into classes with pairwise disjoint ranges, as few as a search finds.

Two queries overlap if some value is in both ranges; the classes are the colours of that graph. The search starts with
one greedy colouring (next the query with the most colours among its neighbours, then the most neighbours: Brelaz 1979)
and continues with greedy colourings in random order while time remains. Queries that share a value form a clique, so
the most popular value gives a lower bound on the number of colours; a colouring that meets it ends the search.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

MOST_ORDERS = 1000
"""Most random orders to try."""


def overlap_graph(
    ranges: Sequence[Int[np.ndarray, " _"]], sizes: Sequence[int], n_values: int
) -> tuple[Bool[np.ndarray, "queries queries"], int]:
    """Return which queries have a value in common, and how many queries share the most popular value.

    Arguments:
        ranges: the range of each group of queries.
        sizes: the number of queries in each group; queries are numbered group by group.
        n_values: the number of all values.
    """
    counts = np.array([len(values) for values in ranges])
    rows, columns = np.repeat(np.arange(len(ranges)), counts), np.concatenate(list(ranges))
    member = sp.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=(len(ranges), n_values))
    between = (member @ member.T).toarray() > 0
    group = np.repeat(np.arange(len(ranges)), sizes)
    overlaps = np.asarray(between[np.ix_(group, group)])
    np.fill_diagonal(overlaps, False)
    return overlaps, int((member.T @ np.asarray(sizes)).max())


def coloured(
    overlaps: Bool[np.ndarray, "queries queries"], clique: int, seconds: float, rng: np.random.Generator
) -> Int[np.ndarray, " queries"]:
    """Colour the queries so that overlapping ones differ; at least `clique` colours are needed.

    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    >>> coloured(path, 2, 0.0, np.random.default_rng(0)).tolist()
    [1, 0, 1]
    """
    deadline = time.monotonic() + seconds
    best = _most_constrained_first(overlaps)
    for _ in range(MOST_ORDERS):
        if best.max(initial=0) + 1 <= clique or time.monotonic() > deadline:
            break
        colours = np.full(len(overlaps), -1)
        for query in rng.permutation(len(overlaps)).tolist():
            colours[query] = _least_free(colours[overlaps[query]])
        if colours.max() < best.max():
            best = colours
    return best


def _most_constrained_first(overlaps: Bool[np.ndarray, "queries queries"]) -> Int[np.ndarray, " queries"]:
    n = len(overlaps)
    degree, colours = overlaps.sum(axis=1), np.full(n, -1)
    seen, n_seen = np.zeros((n, n + 1), dtype=bool), np.zeros(n, dtype=np.int64)
    for _ in range(n):
        query = int(np.where(colours < 0, n_seen * (n + 1) + degree, -1).argmax())
        colour = _least_free(colours[overlaps[query]])
        colours[query] = colour
        n_seen += overlaps[query] & ~seen[:, colour]
        seen[overlaps[query], colour] = True
    return colours


def _least_free(taken: Int[np.ndarray, " neighbours"]) -> int:
    """Return the least colour that no neighbour has; -1 is not a colour."""
    used = np.zeros(len(taken) + 2, dtype=bool)
    used[taken[(taken >= 0) & (taken <= len(taken))]] = True
    return int(used.argmin())
