"""`measure`: how big a table of facts really is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from factrank.databases import COLUMNS, Column, Database
from factrank.errors import InputError
from factrank.tensors.bounds import (
    INTERRUPTED,
    Ledger,
    RankBounds,
    completion_bounds,
    effective_bounds,
    expected_of,
    rank_bounds,
)
from factrank.tensors.core import Core, ZeroOneTensor

DEFAULT_BUDGET = 10.0
MERGING = "equal slices merged"
PASSES_OF_CORE = 1.6


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    """The sizes of a database: counts, information, and certified brackets for its three ranks.

    Arguments:
        triples, keys, queries, values: the counts.
        functional, full: at most one value per (key, query); a value for every (key, query).
        determined: the columns that the other two determine.
        bits, bits_by_query: information in the facts, with one range of values for all and with each query's own.
        rank: of the 0/1 tensor D.
        completion_rank: least rank of a tensor equal to D on every valid fiber.
        effective_rank: least rank of a tensor whose argmax, among the values in use, is right on every fact.
    """

    triples: int
    keys: int
    queries: int
    values: int
    duplicates: int
    functional: bool
    full: bool
    determined: tuple[Column, ...]
    bits: float
    bits_by_query: float
    rank: RankBounds
    completion_rank: RankBounds
    effective_rank: RankBounds

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `factrank measure --json` prints it."""
        names = ("triples", "keys", "queries", "values", "duplicates", "functional", "full", "bits", "bits_by_query")
        sizes = {name: getattr(self, name) for name in names}
        sizes["determined"] = list(self.determined)
        return sizes | {name: bounds.to_dict() for name, bounds in self.brackets.items()}

    @property
    def brackets(self) -> dict[str, RankBounds]:
        """The three ranks by name."""
        return {
            "rank": self.rank,
            "completion_rank": self.completion_rank,
            "effective_rank": self.effective_rank,
        }

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C kept some methods from being run."""
        return any(skip.reason == INTERRUPTED for bounds in self.brackets.values() for skip in bounds.skipped)

    def __repr__(self) -> str:
        ranks = (f"{name.replace('_', ' ')} {bounds.bracket}" for name, bounds in self.brackets.items())
        return f"Measurement({self.triples:,} facts, {', '.join(ranks)})"


def measure(
    database: Database,
    budget: float = DEFAULT_BUDGET,
    *,
    on_step: Callable[[str], None] = lambda _: None,
    interruptible: bool = False,
) -> Measurement:
    """Bracket the rank, the completion rank and the effective rank of a database.

    effective rank <= completion rank <= rank, and each bracket uses what is known of the others. Names without a fact
    do not matter.

    Arguments:
        database: the facts.
        budget: seconds; cheap methods run first, more expensive ones while time is left. Methods that were not run are
            listed with the reason in `RankBounds.skipped`. Bounds that only count facts are always given, which takes
            about a second for a million facts.
        on_step: called with the name of each method as it begins, for progress.
        interruptible: on Ctrl-C return what has been found instead of raising.

    >>> from factrank import sample
    >>> measure(sample("astrid"))
    Measurement(8 facts, rank 5, completion rank 4 to 5, effective rank 2)
    """
    if not isinstance(database, Database):
        raise InputError(
            f"measure takes a Database (Database.from_facts, read, from_table); got {type(database).__name__}"
        )
    if not (np.isfinite(budget) and budget >= 0):
        raise InputError(f"the budget is a number of seconds, 0 or more; got {budget}")
    ledger = Ledger(float(budget), on_step, interruptible=interruptible)
    tensor = ZeroOneTensor.of(database)
    core = _core(tensor, ledger)
    rank = rank_bounds(core, ledger)
    completion = completion_bounds(core, rank, ledger, full=database.full)
    effective = effective_bounds(core, completion, ledger)
    return Measurement(
        triples=database.n_facts,
        keys=database.n_keys,
        queries=database.n_queries,
        values=database.n_values,
        duplicates=database.duplicates,
        functional=database.functional,
        full=database.full,
        determined=tuple(column for column, determined in zip(COLUMNS, tensor.determined, strict=True) if determined),
        bits=database.bits,
        bits_by_query=database.bits_by_query,
        rank=rank,
        completion_rank=completion,
        effective_rank=effective,
    )


def _core(tensor: ZeroOneTensor, ledger: Ledger) -> Core:
    """The core if there is time for it, which also shows how fast this machine is; else all slices as they are."""
    expected = expected_of(PASSES_OF_CORE, len(tensor))
    core = ledger.run(MERGING, expected, partial(Core.of, tensor))
    if core is None:
        return Core.unmerged(tensor)
    ledger.calibrate(MERGING, expected)
    return core
