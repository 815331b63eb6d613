"""Tables of facts for the tests of constructions, and slow references for what a layer answers."""

import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered
from factrank.nn.precision import dtype_of
from slow_layers import slow_layer_tensor, slow_transformer_tensor


def with_ranges(n_ranges, n_keys=300, n_queries=12, size=20, seed=0):
    """A full table; query q answers in range q mod n_ranges, ranges are disjoint."""
    rng = np.random.default_rng(seed)
    key, query = np.divmod(np.arange(n_keys * n_queries), n_queries)
    value = query % n_ranges * size + rng.integers(size, size=len(key))
    return numbered(np.column_stack([key, query, value]), (n_keys, n_queries, n_ranges * size))


def with_sets(n_keys, n_queries, n_values, most, seed):
    """Fibers with 0 to `most` values."""
    rng = np.random.default_rng(seed)
    facts = [
        (k, q, v)
        for k in range(n_keys)
        for q in range(n_queries)
        for v in rng.choice(n_values, rng.integers(0, most + 1), replace=False)
    ]
    return numbered(np.array(facts), (n_keys, n_queries, n_values))


def every_value(n_values, n_queries=3):
    """Every value answers some fact of every query: the worst case for labels."""
    key, query = np.divmod(np.arange(n_values * n_queries), n_queries)
    facts = [(f"k{k}", f"q{q}", f"v{(k + q) % n_values:05}") for k, q in zip(key, query, strict=True)]
    return Database.from_facts(facts)


SMALLEST = [
    Database.from_facts(facts)
    for facts in (
        [("k", "q", "v")],
        [("k", "q", "v"), ("k", "r", "w")],
        [("k", "q", "v"), ("j", "q", "v"), ("j", "r", "v")],
        [("k", "q", "v"), ("j", "q", "w"), ("i", "q", "x")],
    )
]
"""One fact; one key; one value; one query."""

UNICODE = Database.from_facts(
    [
        ("Zoë", "母", "Märta"),
        ("Zoë", "naître à", "Åre"),
        ("母", "母", "Zoë"),
        ("🙂", "naître à", "🙂"),
        ("naître à", "母", "Åre"),
        ("Åre", "naître à", "母"),
        ("שלום", "母", "שלום"),
    ]
)


def slow_margins(model, database):
    """The margin of every valid fiber, from a float64 evaluation with loops over pairs and heads."""
    slow = slow_transformer_tensor if hasattr(model, "blocks") else slow_layer_tensor
    tensor = slow(model)
    fibers = {}
    for k, q, v in database.triples.tolist():
        fibers.setdefault((k, q), []).append(v)
    found = []
    for (k, q), own in fibers.items():
        others = np.delete(tensor[k, q], own)
        found.append(tensor[k, q, own].min() - others.max(initial=-np.inf))
    return np.array(found)


def rounded(numbers, precision):
    """What the precision keeps of these numbers, in float64."""
    return numbers.astype(dtype_of(precision)).astype(np.float64)


def strict_winners(model, database):
    """How many fibers without a fact have one value above all others (of several)."""
    slow = slow_transformer_tensor if hasattr(model, "blocks") else slow_layer_tensor
    tensor = slow(model)
    silent = np.ones(tensor.shape[:2], dtype=bool)
    silent[database.triples[:, 0], database.triples[:, 1]] = False
    logits = np.round(
        tensor[silent], 9
    )  # in float64 a score of -120 leaves 1e-52, in the layer's own precision nothing
    return int(((logits == logits.max(axis=1, keepdims=True)).sum(axis=1) == 1).sum())


def in_eight_bits(layer):
    """The layer whose parts went through 8-bit integers, one scale of 1 for all."""
    from factrank.families.attention.attention_layer import AttentionLayer
    from factrank.nn.part_arrays import to_arrays

    small = {name: np.rint(part.astype(np.float64)) for name, part in to_arrays(layer).items()}
    assert all(np.abs(part).max() <= 127 for part in small.values())
    small = {name: part.astype(np.int8).astype(np.float32) for name, part in small.items()}
    return AttentionLayer(n_keys=layer.n_keys, **small)
