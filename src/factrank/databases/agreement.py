"""Compare two databases: common facts and contradictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from factrank.databases.database import Database
from factrank.errors import InputError


@dataclass(frozen=True, eq=False)
class Agreement:
    """Result of comparing two databases.

    Arguments:
        shared: Number of facts that are in both.
        contradicted: Codes of each (key, query) for which both have facts, but not the same values.
    """

    shared: int
    contradicted: Int[np.ndarray, "pairs 2"]


def agreement_of(one: Database, other: Database) -> Agreement:
    """Compare two databases that use the same codes (see `recode`).

    Raises:
        InputError: If the vocabularies differ.

    >>> from factrank.databases import recode
    >>> facts = Database.from_facts([("Lima", "country", "Peru"), ("Oslo", "country", "Norway")])
    >>> other = Database.from_facts([("Lima", "country", "Norway"), ("Oslo", "country", "Norway")])
    >>> found = agreement_of(facts, recode(other, onto=facts))
    >>> found.shared, found.contradicted.tolist()
    (1, [[0, 0]])
    """
    if one.vocabularies != other.vocabularies:
        raise InputError("cannot compare databases with different vocabularies; recode one onto the other first")
    if np.array_equal(one.triples, other.triples):  # the common case, and cheap to check
        return Agreement(len(one), np.empty((0, 2), np.int64))
    pairs = [facts.triples[:, 0].astype(np.int64) * one.n_queries + facts.triples[:, 1] for facts in (one, other)]
    together, values = np.concatenate(pairs), np.concatenate([one.triples[:, 2], other.triples[:, 2]])
    order = np.lexsort((values, together))
    together, values = together[order], values[order]
    twice = (together[1:] == together[:-1]) & (
        values[1:] == values[:-1]
    )  # facts are distinct within a database, so a repeat is in both
    alone = np.ones(len(together), dtype=bool)
    alone[1:] &= ~twice
    alone[:-1] &= ~twice
    contradicted = np.intersect1d(together[alone], np.intersect1d(*pairs))
    return Agreement(int(twice.sum()), np.column_stack(np.divmod(contradicted, one.n_queries)))
