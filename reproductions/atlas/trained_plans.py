"""Train plans for random tables: `python reproductions/atlas/trained_plans.py [TABLES]`.

Plans a layer for each of some random tables (uniform or disjoint, 30 to 450 facts) and a recall of 0.9, 0.95 or 1,
trains it with three seeds, and counts how often the median recall reaches the requested one and is in the interval.
"""

from __future__ import annotations

import sys

import numpy as np

from factrank.databases.generators import generate
from factrank.planning import TableSizes, plan
from factrank.planning.atlas import trained_recalls

SEED = 7


def drawn(rng):
    """Draw a table."""
    n_keys, n_queries = int(rng.integers(8, 40)), int(rng.integers(3, 12))
    if rng.uniform() < 0.5:
        return generate("uniform", n_keys=n_keys, n_queries=n_queries, n_values=int(rng.integers(3, 40)), seed=1)
    own = int(rng.integers(2, 8))
    return generate("disjoint", n_keys=n_keys, n_queries=n_queries, values_per_query=own, seed=1)


def main():
    """Plan, train and count."""
    rng, counts = np.random.default_rng(SEED), {"plans": 0, "reached": 0, "with an interval": 0, "inside": 0}
    while counts["plans"] < (int(sys.argv[1]) if len(sys.argv) > 1 else 40):
        facts = drawn(rng).compact()
        sizes = TableSizes.of(facts)
        recall = float(rng.choice([0.9, 0.95, 1.0]))
        given = {name: getattr(sizes, name) for name in ("n_facts", "n_keys", "n_queries", "n_values")}
        best = (plan(facts, recall=recall) if sizes.kind == "disjoint" else plan(**given, recall=recall)).best
        middle = float(np.median(trained_recalls(facts, [best.shape], range(3))[0]))
        counts["plans"] += 1
        counts["reached"] += middle >= recall
        if best.recall_low is not None:
            counts["with an interval"] += 1
            counts["inside"] += best.recall_low <= middle <= best.recall_high
        print(sizes, recall, best.shape, f"expected {best.recall:.3f}, trained {middle:.3f}; {counts}", flush=True)


if __name__ == "__main__":
    main()
