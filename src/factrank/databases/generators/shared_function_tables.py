r"""Shared functions: tables of equal size and equal information, whose rank is planted by what their queries share.

Query q answers key k with $f_{j(q)}(c(k))$: one of g functions of the key's class. All g functions agree on the classes
whose value is among the first s values, and are independent elsewhere. With V values the tensor of the full table is

    $\sum_{v < s} 1_{K_v} \otimes 1_Q \otimes e_v  +  1_{K'} \otimes 1_Q \otimes e_{V-1}
      + \sum_j \sum_{s \le v < V-1} 1_{f_j = v} \otimes 1_{Q_j} \otimes (e_v - e_{V-1})$

(K' the keys without a shared value), hence rank at most s + 1 + g (V - 1 - s); every term overlaps others in keys and
queries. If the indicators of the keys are independent, the key flattening has that rank too, and the rank is exactly
this. Missing facts raise the rank of the table, but not its completion rank, because the full table completes it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, require_positive, stream
from factrank.errors import InputError


def shared_functions(  # noqa: PLR0913 - each argument is a column of studies
    n_keys: int,
    n_queries: int,
    n_values: int,
    n_functions: int,
    n_shared: int = 0,
    n_classes: int | None = None,
    n_missing: int = 0,
    *,
    seed: int,
) -> Database:
    """A database whose queries share functions, values and classes of keys; its rank is planted.

    Every query gives each value to nearly equally many classes, so every query uses every value if there are at least
    as many classes as values. The rank is at most n_shared + 1 +
    n_functions (n_values - 1 - n_shared), and so is the completion rank if facts are missing.

    Arguments:
        n_keys: Number of keys.
        n_queries: Number of queries.
        n_values: Number of values.
        n_functions: Number of different functions among the queries, each for nearly equally many queries.
        n_shared: Number of values that all functions give to the same keys.
        n_classes: Number of classes of keys that answer alike; every key is its own class by default.
        n_missing: Number of queries that each key lacks, drawn independently for each key.
        seed: Seed of the random numbers.

    Raises:
        InputError: A size is not positive, or there are more functions than queries, more classes than keys, no value
            that is not shared, or no query left.

    >>> shared_functions(6, 4, 3, 2, seed=0)
    Database(24 facts: 6 keys x 4 queries -> 3 values, functional, full)
      (k0, q0, v1)
      (k0, q1, v0)
      (k0, q2, v1)
      ...
    """
    name = "shared-functions"
    n_classes = n_keys if n_classes is None else n_classes
    require_positive(name, n_keys=n_keys, n_queries=n_queries, n_values=n_values, n_functions=n_functions)
    _require_between(name, "n_functions", n_functions, 1, n_queries)
    _require_between(name, "n_classes", n_classes, 1, n_keys)
    _require_between(name, "n_shared", n_shared, 0, n_values - 1)
    _require_between(name, "n_missing", n_missing, 0, n_queries - 1)
    rng = stream(name, seed)
    answers = _functions(rng, n_functions, n_classes, n_values, n_shared)
    of_key = rng.permutation(np.arange(n_keys) % n_classes)
    of_query = rng.permutation(np.arange(n_queries) % n_functions)
    values = answers[of_key][:, of_query]
    present = rng.permuted(np.tile(np.arange(n_queries) >= n_missing, (n_keys, 1)), axis=1)
    keys, queries = np.nonzero(present)
    triples = np.column_stack([keys, queries, values[keys, queries]])
    return numbered(triples, (n_keys, n_queries, n_values))


def _functions(
    rng: np.random.Generator, n_functions: int, n_classes: int, n_values: int, n_shared: int
) -> Int[np.ndarray, "classes functions"]:
    """Deal the values to the classes, and again for each function to the classes without a shared value."""
    dealt = rng.permutation(np.arange(n_classes) % n_values)
    answers = np.tile(dealt[:, None], n_functions)
    own = dealt >= n_shared
    answers[own] = rng.permuted(answers[own], axis=0)
    return answers


def _require_between(kind: str, name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"{kind}: {name} must be between {least} and {most}, got {value}")
