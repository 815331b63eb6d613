"""Searches: trials that are requested round by round, because the next ones depend on earlier results.

A search computes its rounds so far, lists of trials, from the rows of finished trials. The runner runs round i of all
searches of a study together, reads the store, and repeats until no search requests more. Only the rows of trials are
stored; a killed run, or anyone with a published table, replays the rounds from them.

    rounds of a study = its listed trials, then round 1 of all searches, round 2 of all, ...

Round i of a search may only depend on the rows of earlier rounds. Requested lists therefore never change, and neither
do their bundles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Protocol, runtime_checkable

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.specs import Trial
from factrank.experiments.store import RUN_COLUMNS, TRIAL_GROUPS, Row, table_of, trial_columns

Rows = Mapping[str, Row]
"""Results of trials by hash: status and metrics, without the settings of the trial."""

SEARCH_COLUMNS = ("search", "status", "why")
"""First columns of the row of every search."""


@runtime_checkable
class TrialSearch(Protocol):
    """Something that is found by running trials round by round, such as `CapacitySearch`."""

    @property
    def name(self) -> str:
        """Name of the search in its study."""

    def rounds(self, rows: Rows) -> list[list[Trial]]:
        """Return the trials requested so far, by round; only the last round may have trials without rows."""

    def row(self, rows: Rows) -> Row:
        """Return the result; `status` is "finished" if the search has its answer, otherwise it is the problem."""


def measured_rows(table: pa.Table) -> dict[str, Row]:
    """Return the rows of a table of trials by hash, without settings and null cells."""
    if "hash" not in table.column_names:
        return {}
    left_out = {"trial", *(name for name in table.column_names if name.startswith(TRIAL_GROUPS))}
    kept = table.select([name for name in table.column_names if name not in left_out])
    return {
        row["hash"]: {name: cell for name, cell in row.items() if name != "hash" and cell is not None}
        for row in kept.to_pylist()
    }


def rounds_of(searches: Sequence[TrialSearch], rows: Rows) -> list[list[Trial]]:
    """Return the rounds of all searches together; each round contains a trial once."""
    each = [search.rounds(rows) for search in searches]
    return [
        list({trial.hash: trial for part in parts for trial in part}.values())
        for parts in zip_longest(*each, fillvalue=[])
    ]


def search_table(searches: Sequence[TrialSearch], rows: Rows) -> pa.Table:
    """Return one row per search: its result, and the settings that all its trials have in common."""
    found = []
    for search in searches:
        trials = [trial for part in search.rounds(rows) for trial in part]
        found.append({"search": search.name, **search.row(rows), **shared_columns(trials)})
    table = table_of(found)
    first = [name for name in SEARCH_COLUMNS if name in table.column_names]
    settings = [name for name in table.column_names if name.startswith(TRIAL_GROUPS)]
    return table.select([*first, *settings, *(one for one in table.column_names if one not in {*first, *settings})])


def shared_columns(trials: Sequence[Trial]) -> Row:
    """Return the settings that are the same in all trials."""
    columns = [trial_columns(trial) for trial in trials]
    names = [name for name in (columns[0] if columns else ()) if name not in ("hash", "trial")]
    return {
        name: columns[0][name]
        for name in names
        if all(name in row and row[name] == columns[0][name] for row in columns)
    }


def is_measured_number(name: str, cell: object) -> bool:
    """Return whether a cell is a number that describes the model, not the run."""
    own = name not in RUN_COLUMNS or name == "epochs"
    return own and isinstance(cell, int | float) and not isinstance(cell, bool)


def require_searches(searches: Sequence[object]) -> list[TrialSearch]:
    """Return the searches; raise an `InputError` unless all have different names."""
    kept: list[TrialSearch] = []
    for search in searches:
        if not isinstance(search, TrialSearch) or not isinstance(search.name, str) or not search.name:
            raise InputError(f"searches must be a list of searches with names; it contains {search!r}")
        kept.append(search)
    counts = Counter(search.name for search in kept)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"two searches have the name {twice!r}")
    return kept
