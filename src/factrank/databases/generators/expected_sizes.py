"""How large the database of a built-in generator will be, known from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factrank.host import require_memory

FACT, LISTED_FACT, NAME, PAIR = 100, 250, 250, 8
"""Bytes while a database is made, per fact, fact of a named tensor, name, and pair that facts are drawn from."""

MOST_PAIRS_PER_FACT = 50
"""With more pairs than that NumPy draws facts without listing all pairs."""

NAMES = ("n_keys", "n_queries", "n_values", "n_inputs", "n_outputs", "n_people")

ATTRIBUTES_OF_PEOPLE = 7
"""Facts of a biography; a person of a phone book has a fact per digit."""


def require_room(kind: str, sizes: Mapping[str, Any]) -> None:
    """Refuse a database that this machine has no memory for; sizes that make no sense are left to the generator."""
    n_facts = expected_facts(kind, sizes)
    if "n" in sizes:
        needed = LISTED_FACT * n_facts
    else:
        pairs = sizes.get("n_keys", 0) * sizes.get("n_queries", 0)
        ranges = sizes.get("values_per_query", 0) + sizes.get("answers_per_query", 0)
        names = sum(size for name, size in sizes.items() if name in NAMES) + sizes.get("n_queries", 0) * ranges
        needed = FACT * n_facts + NAME * names + PAIR * min(pairs, MOST_PAIRS_PER_FACT * n_facts)
    require_memory(needed, f"{kind}: {n_facts:,} facts", "choose smaller sizes")


def expected_facts(kind: str, sizes: Mapping[str, Any]) -> int:
    """Number of facts that a generator makes from these sizes.

    >>> expected_facts("matmul", {"n": 3}), expected_facts("boxes", {"shapes": [(2, 1), (1, 3)], "seed": 0})
    (27, 5)
    """
    if "shapes" in sizes:
        return sum(n_keys * n_queries for n_keys, n_queries in sizes["shapes"])
    if "n" in sizes:
        return int(sizes["n"] ** 3 if kind == "matmul" else sizes["n"])
    if "n_people" in sizes:
        return int(sizes["n_people"] * sizes.get("digits", ATTRIBUTES_OF_PEOPLE))
    if not {"n_inputs", "n_keys"} & sizes.keys():
        return 3  # the W state
    pairs = sizes.get("n_keys", 0) * (sizes.get("n_queries", 0) - sizes.get("n_missing", 0))
    return int(sizes.get("n_inputs") or sizes.get("n_facts") or pairs)
