"""Measures of the assumptions of the memorisation theorem, on the examples of a trial.

    query_rank, kruskal_lower, kruskal_upper    rank of the queries, and bounds of their Kruskal rank
    independent_share                           fraction of random n-subsets of the queries that are independent
    least_context_rank, full_context_share      least rank of a context, and fraction of contexts with rank n
    queries_in_general_position, tokens_in_general_position     1, 0, or NaN if undecided
    assumptions_refuted, assumptions_proved     1 or 0; both are 0 if random subsets did not refute the assumptions

They are computed on the host, in float64 (`factrank.families.memoriser.ranks.assumptions`).
"""

from __future__ import annotations

from factrank.families.memoriser.examples import VectorExamples
from factrank.families.memoriser.ranks import check_assumptions


def assumption_measures(examples: VectorExamples, subsets: int, seed: int) -> dict[str, float]:
    """Return the measures, based on `subsets` random subsets of each size that is tried.

    >>> import numpy as np
    >>> vectors = np.random.default_rng(0).normal(size=(5, 3, 8))
    >>> examples = VectorExamples.of(vectors[:, 0], vectors, np.zeros(5))
    >>> found = assumption_measures(examples, 100, 0)
    >>> found["kruskal_lower"], found["least_context_rank"], found["assumptions_proved"]
    (5.0, 3.0, 1.0)
    """
    return check_assumptions(examples.queries, examples.contexts, subsets=subsets, seed=seed).metrics()
