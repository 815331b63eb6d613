"""Value codes of each fact's fiber, as targets of margins and losses.

A fiber with several values is correct only if each of them is above all others, so each of its facts gets the whole
set.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from factrank.databases import Database


def fiber_sizes(database: Database) -> Int[np.ndarray, " facts"]:
    """Return the number of values in the fiber of each fact."""
    return np.repeat(database.fiber_counts, database.fiber_counts)


def fibers_of(database: Database) -> Int[np.ndarray, "facts m"]:
    """Return the value codes of the fiber of each fact, padded by repeating the last; m is the size of the largest.

    >>> facts = [("Ann", "speaks", "Thai"), ("Ann", "speaks", "Urdu"), ("Bob", "speaks", "Urdu")]
    >>> fibers_of(Database.from_facts(facts, multi=True)).tolist()
    [[0, 1], [0, 1], [1, 1]]
    """
    starts, counts = database.fiber_starts, database.fiber_counts
    places = np.minimum(np.arange(counts.max(initial=1)), counts[:, None] - 1)
    rows = database.triples[:, 2][starts[:, None] + places]
    return np.repeat(rows, counts, axis=0)
