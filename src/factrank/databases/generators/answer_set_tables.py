"""Answer sets: the facts of the factual recall task, in which every query has answers of its own."""

from __future__ import annotations

from typing import Literal

import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, require_positive, stream
from factrank.errors import InputError


def answer_sets(
    n_keys: int,
    n_queries: int,
    answers_per_query: int,
    *,
    structure: Literal["random", "structured"] = "random",
    seed: int,
) -> Database:
    r"""A full database in which every query has answers of its own: the factual recall task.

    Query q answers in $A_q$, D = `answers_per_query` values that no other query has (Nichani, Lee and Bietti 2025,
    arXiv 2412.06538). The answer to (k, q) is the value of
    code q D + j, so that a value's code // D is its query:

        random:      j is uniform in [0, D) and independent for every fact
        structured:  j is a function of the key alone, the same for all queries; the keys are dealt at random to the
                     D numbers, each of which gets nearly as many as any other

    All D answers of a query are in the vocabulary, also those that no fact uses.

    >>> answer_sets(3, 2, 4, structure="structured", seed=1)
    Database(6 facts: 3 keys x 2 queries -> 8 values, functional, full)
      (k0, q0, v2)
      (k0, q1, v6)
      (k1, q0, v0)
      ...
    """
    require_positive("answer-sets", n_keys=n_keys, n_queries=n_queries, answers_per_query=answers_per_query)
    if structure not in ("random", "structured"):
        raise InputError(f"answer-sets: structure must be one of random, structured, got {structure!r}")
    rng = stream("answer-sets", seed)
    if structure == "random":
        answers = rng.integers(answers_per_query, size=(n_keys, n_queries))
    else:
        of_key = rng.permutation(np.arange(n_keys) % answers_per_query)
        answers = np.tile(of_key[:, None], n_queries)
    values = answers + np.arange(n_queries) * answers_per_query
    keys, queries = np.indices((n_keys, n_queries)).reshape(2, -1)
    shape = n_keys, n_queries, n_queries * answers_per_query
    return numbered(np.column_stack([keys, queries, values.ravel()]), shape)
