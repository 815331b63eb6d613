r"""Known rank: random databases, made of boxes, whose tensor rank is known exactly.

A *box* is a set of keys times a set of queries, all with one value v that no other box has: the rank-one tensor
$1_{K_v} \otimes 1_{Q_v} \otimes e_v$. A database made of m disjoint boxes has rank exactly m: one term per box is
enough, and the m value slices $1_{K_v} 1_{Q_v}^T$ are nonzero with disjoint supports, hence independent, so that the
value flattening already has rank m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, require_positive, stream
from factrank.errors import InputError

Box = tuple[range, range]


@dataclass(frozen=True)
class KnownRank:
    """A database, its tensor rank, and why it is that."""

    database: Database
    rank: int
    reason: str


def boxes(shapes: Sequence[tuple[int, int]], *, seed: int) -> KnownRank:
    """Boxes of keys and queries that share no key, query or value: a direct sum of known rank.

    Box i has a_i keys and b_i queries, (a_i, b_i) = shapes[i], all with one value. The seed shuffles keys and queries,
    which hides the blocks.

    >>> boxes([(2, 1), (1, 3)], seed=0).rank
    2
    """
    if not shapes or any(len(shape) != 2 for shape in shapes):
        raise InputError(
            f"boxes: shapes must be pairs (number of keys, number of queries), at least one; got {shapes!r}"
        )
    for n_keys, n_queries in shapes:
        require_positive("boxes", **{"number of keys": n_keys, "number of queries": n_queries})
    ends = np.cumsum(shapes, axis=0).tolist()
    blocks = [(range(k - a, k), range(q - b, q)) for (a, b), (k, q) in zip(shapes, ends, strict=True)]
    return _shuffled(blocks, stream("boxes", seed))


def overlapping_boxes(n_keys: int, n_queries: int, rank: int, *, seed: int) -> KnownRank:
    """A full table cut at random into boxes with one value each: a database of known rank.

    The n_keys x n_queries grid is cut into `rank` boxes, which may share keys and queries. The cuts are straight
    through the box they divide; then the seed shuffles keys and queries.
    """
    require_positive("overlapping-boxes", n_keys=n_keys, n_queries=n_queries, rank=rank)
    if rank > n_keys * n_queries:
        raise InputError(
            f"overlapping-boxes: rank must be at most n_keys * n_queries = {n_keys * n_queries}, got {rank}"
        )
    rng = stream("overlapping-boxes", seed)
    return _shuffled(_cut((range(n_keys), range(n_queries)), rank, rng), rng)


def _cut(whole: Box, n_boxes: int, rng: np.random.Generator) -> list[Box]:
    """Cut a box into n by random straight cuts; each part gets as many boxes as fit into it."""
    finished, waiting = [], [(whole, n_boxes)]
    while waiting:
        (keys, queries), share = waiting.pop()
        if share == 1:
            finished.append((keys, queries))
            continue
        line = int(rng.integers(1, len(keys) + len(queries) - 1))
        if line < len(keys):
            first, second = (keys[:line], queries), (keys[line:], queries)
        else:
            line += 1 - len(keys)
            first, second = (keys, queries[:line]), (keys, queries[line:])
        fewest, most = max(1, share - _area(second)), min(share - 1, _area(first))
        first_share = int(rng.integers(fewest, most + 1))
        waiting += [(first, first_share), (second, share - first_share)]
    return finished


def _area(box: Box) -> int:
    keys, queries = box
    return len(keys) * len(queries)


def _shuffled(blocks: Sequence[Box], rng: np.random.Generator) -> KnownRank:
    """The database with one value per box, keys and queries permuted at random."""
    cells = [np.stack(np.meshgrid(*block, [value], indexing="ij"), -1) for value, block in enumerate(blocks)]
    triples = np.concatenate([cell.reshape(-1, 3) for cell in cells])
    n_keys, n_queries, n_values = (int(n) for n in triples.max(axis=0) + 1)
    triples[:, 0] = rng.permutation(n_keys)[triples[:, 0]]
    triples[:, 1] = rng.permutation(n_queries)[triples[:, 1]]
    reason = f"{n_values} disjoint boxes, each with its own value: one term per box, independent value slices"
    return KnownRank(numbered(triples, (n_keys, n_queries, n_values)), n_values, reason)
