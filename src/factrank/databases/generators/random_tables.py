"""Random databases: pure functions of their sizes and a seed.

Every kind draws from a stream of its own, so that two kinds with the same seed are independent, and a database depends
on nothing but its arguments. Names are k0, k1, ..., q0, q1, ... and v0, v1, ...; the vocabularies keep all of them,
also those that no fact uses.
"""

from __future__ import annotations

import math
import zlib
from functools import lru_cache

import numpy as np
from jaxtyping import Int

from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError

RACE_CELLS = 2**22
"""How many (key, query) pairs `zipf` scores at a time: bounds its memory."""


def uniform(n_keys: int, n_queries: int, n_values: int, n_facts: int | None = None, *, seed: int) -> Database:
    """Random (key, query) pairs, each with an independent uniform value.

    Without `n_facts` every pair has a value: the database is full.

    >>> uniform(3, 2, 4, 5, seed=0)
    Database(5 facts: 3 keys x 2 queries -> 4 values, functional)
      (k0, q0, v2)
      (k0, q1, v2)
      (k1, q0, v3)
      ...
    """
    require_positive("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values)
    rng = stream("uniform", seed)
    pairs = _uniform_pairs("uniform", rng, n_keys, n_queries, n_facts)
    return _with_values(pairs, rng.integers(n_values, size=len(pairs)), (n_keys, n_queries, n_values))


def disjoint(n_keys: int, n_queries: int, values_per_query: int, n_facts: int | None = None, *, seed: int) -> Database:
    r"""Random pairs with uniform values, where no two queries share a value.

    Query q answers in $A_q = \{v_{qD}, ..., v_{qD+D-1}\}$ with D = `values_per_query`, the task of Nichani, Lee and
    Bietti 2025 (arXiv 2412.06538). A value belongs to one query, so its slice is $1_{K_v} \otimes e_{q(v)}$: the rank
    is exactly the number of values in use, $\sum_q |V_q|$.
    """
    require_positive("disjoint", n_keys=n_keys, n_queries=n_queries, values_per_query=values_per_query)
    rng = stream("disjoint", seed)
    pairs = _uniform_pairs("disjoint", rng, n_keys, n_queries, n_facts)
    answers = rng.integers(values_per_query, size=len(pairs))
    own_range = pairs % n_queries * values_per_query
    return _with_values(pairs, own_range + answers, (n_keys, n_queries, n_queries * values_per_query))


def structured(n_keys: int, n_queries: int, values_per_query: int, n_classes: int, *, seed: int) -> Database:
    """A full database whose answers depend only on the query and on a hidden class of the key.

    f(k, q) = a(class(k), q), with a(., q) in A_q. The keys are dealt at random to `n_classes` classes of nearly equal
    size, none empty; the ranges A_q are disjoint as in `disjoint`. Keys of one class have equal slices, so the rank is
    that of the table a, which has `n_classes` keys, however many keys there are.
    """
    require_positive("structured", n_keys=n_keys, n_queries=n_queries, values_per_query=values_per_query)
    require_positive("structured", n_classes=n_classes)
    if n_classes > n_keys:
        raise InputError(f"structured: n_classes must be at most n_keys = {n_keys}, got {n_classes}")
    rng = stream("structured", seed)
    classes = rng.permutation(np.arange(n_keys) % n_classes)
    answers = rng.integers(values_per_query, size=(n_classes, n_queries)) + np.arange(n_queries) * values_per_query
    pairs = np.arange(n_keys * n_queries)
    return _with_values(pairs, answers[classes].ravel(), (n_keys, n_queries, n_queries * values_per_query))


def bijections(n_keys: int, n_queries: int, *, seed: int) -> Database:
    """A full database in which each query is an independent random bijection from keys to values."""
    require_positive("bijections", n_keys=n_keys, n_queries=n_queries)
    rng = stream("bijections", seed)
    values = rng.permuted(np.tile(np.arange(n_keys), (n_queries, 1)), axis=1).T
    return _with_values(np.arange(n_keys * n_queries), values.ravel(), (n_keys, n_queries, n_keys))


def zipf(n_keys: int, n_queries: int, n_values: int, n_facts: int, *, exponent: float = 1.0, seed: int) -> Database:
    r"""Facts with Zipf-distributed keys, queries and values, as in real knowledge bases.

    k0, q0 and v0 are the most frequent. Pairs $(k_i, q_j)$ are drawn with $p_{ij} \propto ((i + 1)(j + 1))^{-s}$, s =
    `exponent`, until `n_facts` distinct ones have come up, and each gets an independent value with $p(v_i) \propto (i +
    1)^{-s}$. Nothing is drawn in vain: the pairs that come up first are those with the largest $\log p_{ij} + G_{ij}$,
    G independent Gumbel noise (Kool, van Hoof and Welling 2019, arXiv 1903.06059), also where the tail is so thin that
    drawing would never end. Time grows with n_keys * n_queries, memory with n_facts.
    """
    require_positive("zipf", n_keys=n_keys, n_queries=n_queries, n_values=n_values)
    n_facts = _number_of_facts("zipf", n_keys, n_queries, n_facts)
    if not 0 <= exponent < math.inf:
        raise InputError(f"zipf: exponent must be a finite number, 0 or more, got {exponent}")
    rng = stream("zipf", seed)
    pairs = _zipf_pairs(rng, n_keys, n_queries, n_facts, exponent)
    weights = np.arange(1.0, n_values + 1.0) ** -exponent
    values = rng.choice(n_values, size=n_facts, p=weights / weights.sum())
    return _with_values(pairs, values, (n_keys, n_queries, n_values))


def stream(kind: str, seed: int) -> np.random.Generator:
    """The random numbers of one kind of generator at one seed, independent of those of every other kind."""
    if not isinstance(seed, int) or seed < 0:
        raise InputError(f"{kind}: seed must be an integer, 0 or more, got {seed!r}")
    tag = zlib.crc32(kind.encode())
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(tag,)))


def require_positive(kind: str, **sizes: int) -> None:
    """An `InputError` that names the first size that is not a positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise InputError(f"{kind}: {name} must be a positive integer, got {size!r}")


def numbered(triples: Int[np.ndarray, "facts 3"], shape: tuple[int, int, int]) -> Database:
    """The database of these codes, with the names k0, k1, ..., q0, q1, ... and v0, v1, ..."""
    keys, queries, values = (_numbered_names(prefix, size) for prefix, size in zip("kqv", shape, strict=True))
    return Database(triples, keys, queries, values)


@lru_cache(maxsize=32)
def _numbered_names(prefix: str, size: int) -> Vocabulary:
    """Thousands of databases of one shape share their names."""
    return Vocabulary.numbered(prefix, size)


def _number_of_facts(kind: str, n_keys: int, n_queries: int, n_facts: int | None) -> int:
    n_pairs = n_keys * n_queries
    if n_facts is None:
        return n_pairs
    require_positive(kind, n_facts=n_facts)
    if n_facts > n_pairs:
        raise InputError(f"{kind}: n_facts must be at most n_keys * n_queries = {n_pairs}, got {n_facts}")
    return n_facts


def _uniform_pairs(
    kind: str, rng: np.random.Generator, n_keys: int, n_queries: int, n_facts: int | None
) -> Int[np.ndarray, " facts"]:
    """A uniform set of distinct pairs, each as key * n_queries + query."""
    n_pairs, n_facts = n_keys * n_queries, _number_of_facts(kind, n_keys, n_queries, n_facts)
    return np.arange(n_pairs) if n_facts == n_pairs else rng.choice(n_pairs, n_facts, replace=False, shuffle=False)


def _zipf_pairs(
    rng: np.random.Generator, n_keys: int, n_queries: int, n_facts: int, exponent: float
) -> Int[np.ndarray, " facts"]:
    """The first `n_facts` distinct pairs of a Zipf stream, sorted: the top scores of a race run over blocks of keys."""
    log_keys, log_queries = (-exponent * np.log(np.arange(1, n + 1)) for n in (n_keys, n_queries))
    pairs, scores = np.empty(0, dtype=np.int64), np.empty(0)
    step = max(1, RACE_CELLS // n_queries)
    for start in range(0, n_keys, step):
        log_weights = log_keys[start : start + step, None] + log_queries
        entrants = (log_weights + rng.gumbel(size=log_weights.shape)).ravel()
        bar = scores.min() if len(scores) == n_facts else -np.inf
        ahead = np.flatnonzero(entrants > bar)
        pairs, scores = np.append(pairs, start * n_queries + ahead), np.append(scores, entrants[ahead])
        if len(pairs) > n_facts:
            best = np.argpartition(-scores, n_facts - 1)[:n_facts]
            pairs, scores = pairs[best], scores[best]
    return np.sort(pairs)


def _with_values(
    pairs: Int[np.ndarray, " facts"], values: Int[np.ndarray, " facts"], shape: tuple[int, int, int]
) -> Database:
    """The database of these pairs (key * n_queries + query) and their values."""
    return numbered(np.column_stack([*np.divmod(pairs, shape[1]), values]), shape)
