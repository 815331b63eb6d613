"""`measure`: certified bounds on the three ranks of a table of facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from factrank.databases import COLUMNS, Column, Database
from factrank.display import Drawn
from factrank.errors import InputError
from factrank.notebook_progress import ProgressLine
from factrank.tensors.bounds import (
    INTERRUPTED,
    Ledger,
    RankBounds,
    completion_bounds,
    effective_bounds,
    expected_of,
    rank_bounds,
)
from factrank.tensors.codes import training_seconds
from factrank.tensors.core import Core, ZeroOneTensor

DEFAULT_BUDGET = 10.0
MERGING = "equal slices merged"
PASSES_OF_CORE = 1.6

FOR_TRAINING = 0.35
"""Fraction of the budget that the bounds on rank and completion rank leave, if needed, for the effective rank."""


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Drawn):
    """Sizes of a database: counts, information content, and certified bounds on its three ranks.

    Arguments:
        triples, keys, queries, values: the counts.
        duplicates: the number of repeated facts in the input.
        functional: whether every (key, query) has at most one value.
        full: whether every (key, query) has a value.
        determined: the columns that the other two determine.
        bits: information in the facts, with one set of values for all queries.
        bits_by_query: the same, with a separate set of values for each query.
        rank: rank of the 0/1 tensor D.
        completion_rank: least rank of a tensor that equals D on every valid fiber.
        effective_rank: least rank of a tensor whose argmax (over the values in use) is correct on every fact.
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
        """Returns plain data, in the layout of `factrank measure --json`."""
        names = ("triples", "keys", "queries", "values", "duplicates", "functional", "full", "bits", "bits_by_query")
        sizes = {name: getattr(self, name) for name in names}
        sizes["determined"] = list(self.determined)
        return sizes | {name: bounds.to_dict() for name, bounds in self.brackets.items()}

    @property
    def brackets(self) -> dict[str, RankBounds]:
        """Bounds on the three ranks, by name."""
        return {
            "rank": self.rank,
            "completion_rank": self.completion_rank,
            "effective_rank": self.effective_rank,
        }

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C prevented some methods from running."""
        return any(skip.reason == INTERRUPTED for bounds in self.brackets.values() for skip in bounds.skipped)

    def __repr__(self) -> str:
        ranks = (f"{name.replace('_', ' ')} {bounds.bracket}" for name, bounds in self.brackets.items())
        return f"Measurement({self.triples:,} facts, {', '.join(ranks)})"


def measure(
    database: Database,
    budget: float = DEFAULT_BUDGET,
    *,
    on_step: Callable[[str], None] | None = None,
    interruptible: bool = False,
) -> Measurement:
    """Returns certified bounds on the rank, the completion rank and the effective rank of a database.

    effective rank <= completion rank <= rank, and the bounds on one rank use those on the others. Unused names have no
    effect.

    Arguments:
        database: the facts.
        budget: time limit in seconds. Cheap methods run first, more expensive ones while time is left;
            `RankBounds.skipped` lists the methods that were not run, with the reason. Bounds that only count facts are
            always computed, which takes about a second for a million facts.
        on_step: progress callback, called with the name of each method before it runs; by default, notebooks show a
            line below the cell.
        interruptible: on Ctrl-C, return the bounds found so far instead of raising.

    Raises:
        InputError: if `database` is not a `Database`, or `budget` is negative or not finite.

    >>> from factrank import sample
    >>> measure(sample("astrid"))
    Measurement(8 facts, rank 5, completion rank 4 to 5, effective rank 2)
    """
    if not isinstance(database, Database):
        raise InputError(
            f"measure expects a Database (see read, Database.from_facts, from_table); got {type(database).__name__}"
        )
    if not (np.isfinite(budget) and budget >= 0):
        raise InputError(f"the budget is a number of seconds, 0 or more; got {budget}")
    with ProgressLine("measuring", wanted=on_step is None) as line:
        return _measured(database, Ledger(float(budget), on_step or line.update, interruptible=interruptible))


def _measured(database: Database, ledger: Ledger) -> Measurement:
    tensor = ZeroOneTensor.of(database)
    core = _core(tensor, ledger)
    ledger.hold_back(training_seconds(core.tensor), FOR_TRAINING)
    rank = rank_bounds(core, ledger)
    completion = completion_bounds(core, rank, ledger, full=database.full)
    ledger.hold_back(0.0)
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
    """Merges equal slices if the budget allows; the time taken calibrates the expected times of later methods."""
    expected = expected_of(PASSES_OF_CORE, len(tensor))
    core = ledger.run(MERGING, expected, partial(Core.of, tensor))
    if core is None:
        return Core.unmerged(tensor)
    ledger.calibrate(MERGING, expected)
    return core
