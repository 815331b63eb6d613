"""The tables of rows without a `Database` for each, equal to what the generators draw.

Each function returns the facts as pairs (key * n_queries + query), sorted, and their values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from factrank.databases import Database, sample
from factrank.planning.atlas.atlas_rows import SAMPLES, TABLE_KINDS

Facts = tuple[Any, Any]
Row = Mapping[str, Any]


@cache
def _tag(kind: str) -> tuple[int]:
    return (zlib.crc32(kind.encode()),)


def _stream(kind: str, seed: int) -> np.random.Generator:
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=_tag(kind))
    return np.random.Generator(np.random.PCG64(sequence))


def _pairs(rng: np.random.Generator, row: Row) -> Any:
    n_pairs = row["n_keys"] * row["n_queries"]
    if row["n_facts"] == n_pairs:
        return np.arange(n_pairs)
    return rng.choice(n_pairs, row["n_facts"], replace=False, shuffle=False)


def _sorted(pairs: Any, values: Any) -> Facts:
    order = np.argsort(pairs)
    return pairs[order], values[order]


def _uniform(row: Row) -> Facts:
    rng = _stream("uniform", row["table_seed"])
    pairs = _pairs(rng, row)
    return _sorted(pairs, rng.integers(row["n_values"], size=len(pairs)))


def _disjoint(row: Row) -> Facts:
    rng, own = _stream("disjoint", row["table_seed"]), row["n_values"] // row["n_queries"]
    pairs = _pairs(rng, row)
    return _sorted(pairs, pairs % row["n_queries"] * own + rng.integers(own, size=len(pairs)))


def _structured(row: Row) -> Facts:
    n_keys, n_queries, n_classes = row["n_keys"], row["n_queries"], row["n_classes"]
    rng, own = _stream("structured", row["table_seed"]), row["n_values"] // n_queries
    classes = rng.permutation(np.arange(n_keys) % n_classes)
    answers = rng.integers(own, size=(n_classes, n_queries)) + np.arange(n_queries) * own
    return np.arange(n_keys * n_queries), answers[classes].ravel()


def _zipf(row: Row) -> Facts:
    n_keys, n_queries, n_values, n_facts = row["n_keys"], row["n_queries"], row["n_values"], row["n_facts"]
    rng, exponent = _stream("zipf", row["table_seed"]), float(row["exponent"])
    log_keys, log_queries = (-exponent * np.log(np.arange(1, n + 1)) for n in (n_keys, n_queries))
    log_weights = log_keys[:, None] + log_queries
    scores = (log_weights + rng.gumbel(size=log_weights.shape)).ravel()
    pairs = np.arange(n_keys * n_queries)
    if len(pairs) > n_facts:
        pairs = np.sort(np.argpartition(-scores, n_facts - 1)[:n_facts])
    weights = np.arange(1.0, n_values + 1.0) ** -exponent
    return pairs, rng.choice(n_values, size=n_facts, p=weights / weights.sum())


def _boxes(row: Row) -> Facts:
    n_keys, n_queries, rank = row["n_keys"], row["n_queries"], row["n_values"]
    rng = _stream("overlapping-boxes", row["table_seed"])
    table, n_cut = np.empty((n_keys, n_queries), dtype=np.int64), 0
    waiting = [(0, n_keys, 0, n_queries, rank)]
    while waiting:
        k0, k1, q0, q1, share = waiting.pop()
        if share == 1:
            table[k0:k1, q0:q1] = n_cut
            n_cut += 1
            continue
        line = int(rng.integers(1, k1 - k0 + q1 - q0 - 1))
        if line < k1 - k0:
            first, second = (k0, k0 + line, q0, q1), (k0 + line, k1, q0, q1)
        else:
            line += 1 - (k1 - k0)
            first, second = (k0, k1, q0, q0 + line), (k0, k1, q0 + line, q1)
        fewest, most = max(1, share - _area(second)), min(share - 1, _area(first))
        first_share = int(rng.integers(fewest, most + 1))
        waiting += [(*first, first_share), (*second, share - first_share)]
    shuffled = np.empty_like(table)
    keys = rng.permutation(n_keys)
    shuffled[np.ix_(keys, rng.permutation(n_queries))] = table
    return np.arange(n_keys * n_queries), shuffled.ravel()


def _area(box: tuple[int, int, int, int]) -> int:
    return (box[1] - box[0]) * (box[3] - box[2])


def _associations(row: Row) -> Facts:
    rng = _stream("associations", row["table_seed"])
    return np.arange(row["n_keys"]), rng.integers(row["n_values"], size=row["n_keys"])


def _injections(row: Row) -> Facts:
    rng = _stream("associations", row["table_seed"])
    return np.arange(row["n_keys"]), rng.permutation(row["n_values"])[: row["n_keys"]]


def _bijections(row: Row) -> Facts:
    n_keys, n_queries = row["n_keys"], row["n_queries"]
    rng = _stream("bijections", row["table_seed"])
    values = rng.permuted(np.tile(np.arange(n_keys), (n_queries, 1)), axis=1).T
    return np.arange(n_keys * n_queries), values.ravel()


def _sample(row: Row) -> Facts:
    table = sampled(row["n_classes"], row["n_keys"], row["table_seed"])
    keys, queries, values = table.triples.T.astype(np.int64)
    return keys * table.n_queries + queries, values


DRAWN: Mapping[str, Callable[[Row], Facts]] = {
    "uniform": _uniform,
    "disjoint": _disjoint,
    "structured": _structured,
    "zipf": _zipf,
    "overlapping-boxes": _boxes,
    "associations": _associations,
    "injections": _injections,
    "bijections": _bijections,
    "sample": _sample,
}


def facts_of_row(row: Row) -> Facts:
    """Return the facts of a row as sorted pairs, and their values."""
    return DRAWN[TABLE_KINDS[row["kind"]]](row)


@cache
def _whole(which: int) -> Database:
    return sample(SAMPLES[which])


@lru_cache(maxsize=4096)
def sampled(which: int, n_keys: int, seed: int) -> Database:
    """Return the facts of `n_keys` random keys of a table of true facts, without unused names."""
    whole = _whole(which)
    kept = np.sort(np.random.default_rng(seed).permutation(whole.n_keys)[:n_keys])
    is_kept = np.zeros(whole.n_keys, dtype=bool)
    is_kept[kept] = True
    return Database(whole.triples[is_kept[whole.triples[:, 0]]], *whole.vocabularies).compact()
