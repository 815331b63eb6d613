"""The values that belong to each fact's fiber, as rows of codes: what margins and losses compare against.

A fact of a functional database is alone in its fiber. A fiber with several values is right only when each of them
stands above all others, so each of its facts carries the whole set. Plain NumPy: training uses it too.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from factrank.databases import Database


def fiber_sizes(database: Database) -> Int[np.ndarray, " facts"]:
    """For each fact, how many values its fiber has."""
    _, counts = _starts_and_counts(database)
    return np.repeat(counts, counts)


def fibers_of(database: Database) -> Int[np.ndarray, "facts m"]:
    """For each fact the value codes of its fiber, padded by repeating the last; m is the largest fiber.

    >>> facts = [("Ann", "speaks", "Thai"), ("Ann", "speaks", "Urdu"), ("Bob", "speaks", "Urdu")]
    >>> fibers_of(Database.from_facts(facts, multi=True)).tolist()
    [[0, 1], [0, 1], [1, 1]]
    """
    starts, counts = _starts_and_counts(database)
    places = np.minimum(np.arange(counts.max(initial=1)), counts[:, None] - 1)
    rows = database.triples[:, 2][starts[:, None] + places]
    return np.repeat(rows, counts, axis=0)


def _starts_and_counts(database: Database) -> tuple[Int[np.ndarray, " fibers"], Int[np.ndarray, " fibers"]]:
    """Where each fiber begins among the triples, which are sorted by (key, query, value), and how many it has."""
    pairs = database.triples[:, :2]
    changes = np.flatnonzero(np.any(pairs[1:] != pairs[:-1], axis=1)) + 1
    starts = np.concatenate([np.zeros(min(len(pairs), 1), dtype=np.int64), changes])
    return starts, np.diff(np.append(starts, len(pairs)))
