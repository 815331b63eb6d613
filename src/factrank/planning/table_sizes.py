"""Sizes of a table as a plan needs them: four counts, the bits, and the most similar kind of table in the atlas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log2
from typing import Any

from factrank.databases import Database
from factrank.errors import InputError

SIZES = ("n_facts", "n_keys", "n_queries", "n_values")
LARGEST = 10**12
"""Limit of any size of a table."""

OWN_RANGES = 1.5
"""Queries count as having their own values if their ranges add up to at most this many times the values."""


@dataclass(frozen=True)
class TableSizes:
    """Sizes of a table.

    Arguments:
        n_facts, n_keys, n_queries, n_values: the counts, without names that no fact uses.
        bits: n log2 |V|; for disjoint tables the sum over queries of n_q log2 |V_q|.
        kind: "associations" with one query, "disjoint" if queries have their own values, else "uniform".
        is_real: the bits were counted in a table, not computed from its sizes.
    """

    n_facts: int
    n_keys: int
    n_queries: int
    n_values: int
    bits: float
    kind: str = "uniform"
    is_real: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of keys, queries and values."""
        return self.n_keys, self.n_queries, self.n_values

    @classmethod
    def of(cls, database: Database) -> TableSizes:
        """Return the sizes of a table in memory.

        >>> facts = [("Oslo", "country", "Norway"), ("Lima", "country", "Peru"), ("Lima", "language", "Spanish")]
        >>> TableSizes.of(Database.from_facts(facts)).kind
        'disjoint'
        """
        if not len(database):
            raise InputError("the table has no facts, so there is nothing to plan for")
        if not database.functional:
            raise InputError(
                "some (key, query) have several values; plans are for tables with one value each: choose a view in "
                "which they have (`Database.determined` names the columns)"
            )
        facts = database.compact()
        is_own = facts.n_queries > 1 and facts.values_per_query.sum() <= OWN_RANGES * facts.n_values
        kind = "disjoint" if is_own else _kind(facts.n_queries)
        bits = facts.bits_by_query if is_own else facts.bits
        return cls(len(facts), *facts.shape, max(bits, 1.0), kind, is_real=True)

    @classmethod
    def given(cls, sizes: Mapping[str, Any]) -> TableSizes:
        """Return the sizes that a user states: n_facts, n_keys, n_queries, n_values; values are drawn uniformly."""
        whole = {name: whole_number(name, size) for name, size in sizes.items()}
        if whole["n_facts"] > whole["n_keys"] * whole["n_queries"]:
            pairs = (
                f"{whole['n_keys']:,} keys x {whole['n_queries']:,} queries = {whole['n_keys'] * whole['n_queries']:,}"
            )
            raise InputError(f"{whole['n_facts']:,} facts do not fit: there are only {pairs} pairs of key and query")
        for name in ("n_keys", "n_queries", "n_values"):
            if whole[name] > whole["n_facts"]:
                used = f"only {whole['n_facts']:,} facts use them"
                raise InputError(f"{name} is {whole[name]:,}, but {used}: leave out names without a fact")
        n_facts, n_keys, n_queries, n_values = (whole[name] for name in SIZES)
        return cls(n_facts, n_keys, n_queries, n_values, max(n_facts * log2(n_values), 1.0), _kind(n_queries))


def _kind(n_queries: int) -> str:
    return "associations" if n_queries == 1 else "uniform"


def whole_number(name: str, size: Any, most: int = LARGEST) -> int:
    """Return a whole number from 1 to `most`; 2e6 is one."""
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    if not is_number or not isfinite(size) or size != int(size) or not 1 <= size <= most:
        raise InputError(f"{name} must be a whole number from 1 to {most:,}; got {size!r}")
    return int(size)
