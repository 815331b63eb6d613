"""Reproducible certified ranks of a database, which studies compare with the recall of trained layers.

The bounds are computed as in `measure`, except that methods are selected by their expected time instead of the clock,
and searches (CP, labels, trained logits) are skipped. Results are therefore the same on every machine, and require
neither python-flint nor threadpoolctl.
"""

from __future__ import annotations

from factrank.databases import Database
from factrank.tensors.bounds import SteadyLedger, completion_bounds, effective_bounds, rank_bounds
from factrank.tensors.bounds.upper import proposition_bound
from factrank.tensors.core import Core, ZeroOneTensor

LIMIT, LIMIT_PER_FACT = 0.05, 1e-4
"""Limit of a method's expected time in seconds: a constant, plus a term per fact."""

MOST_KEPT = 4096
"""Number of databases in the cache; trials of a study often use the same one."""

_known: dict[str, dict[str, float]] = {}


def certified_ranks(database: Database) -> dict[str, float]:
    """Return certified bounds of the three ranks, the bound of Wong's Proposition 2.1, and the information in bits.

    The names are rank_lower, rank_upper, completion_lower, completion_upper, effective_lower, effective_upper,
    proposition, bits and bits_by_query. Results are cached by the fingerprint of the database.

    >>> from factrank import sample
    >>> ranks = certified_ranks(sample("astrid"))
    >>> ranks["rank_lower"], ranks["rank_upper"], ranks["proposition"]
    (5.0, 5.0, 6.0)
    """
    fingerprint = database.fingerprint
    if fingerprint not in _known:
        while len(_known) >= MOST_KEPT:
            del _known[next(iter(_known))]
        _known[fingerprint] = _certified_ranks(database)
    return dict(_known[fingerprint])


def rank_limit(n_facts: int) -> float:
    """Return the limit of a method's expected time in seconds, for this number of facts."""
    return LIMIT + LIMIT_PER_FACT * n_facts


def _certified_ranks(database: Database) -> dict[str, float]:
    tensor = ZeroOneTensor.of(database)
    core, ledger = Core.of(tensor), SteadyLedger(rank_limit(len(tensor)))
    rank = rank_bounds(core, ledger)
    completion = completion_bounds(core, rank, ledger, full=database.full)
    effective = effective_bounds(core, completion, ledger)
    numbers = {
        f"{name}_{side}": float(getattr(bounds, side).value)
        for name, bounds in (("rank", rank), ("completion", completion), ("effective", effective))
        for side in ("lower", "upper")
    }
    information = {"bits": float(database.bits), "bits_by_query": float(database.bits_by_query)}
    return numbers | {"proposition": float(proposition_bound(tensor))} | information
