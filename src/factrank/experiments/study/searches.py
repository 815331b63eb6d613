"""Searches: trials that are asked for round by round, because what comes next depends on what came before.

A search gives, from the rows of the trials that have ended, the lists of trials that it has asked for so far: its
rounds. The runner runs round i of all searches of a study together, reads the store and asks again, until no search
asks for more. Nothing of a search is stored but the rows of its trials: a killed run replays the rounds from them, and
so does whoever has a published table.

    rounds of a study = its listed trials, then round 1 of all searches, round 2 of all, ...

Round i of a search may depend on the rows of its rounds before i alone, so that lists that were asked for never
change, and the bundles cut from them are always the same.
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
"""What came of trials, by their hashes: status and measured numbers, without the settings of the trial."""

SEARCH_COLUMNS = ("search", "status", "why")
"""What the row of every search begins with."""


@runtime_checkable
class TrialSearch(Protocol):
    """Something that is found by running trials, round after round; `experiments.capacity` has one."""

    @property
    def name(self) -> str:
        """What it is called in its study."""

    def rounds(self, rows: Rows) -> list[list[Trial]]:
        """The lists of trials asked for so far; all but the last have rows, and the last one may lack some."""

    def row(self, rows: Rows) -> Row:
        """What was found: `status` is "finished" where the search has its answer, else it says what is lacking."""


def measured_rows(table: pa.Table) -> dict[str, Row]:
    """The rows of a table of trials by hash, without what the trial itself says, and without cells that are null."""
    if "hash" not in table.column_names:
        return {}
    left_out = {"trial", *(name for name in table.column_names if name.startswith(TRIAL_GROUPS))}
    kept = table.select([name for name in table.column_names if name not in left_out])
    return {
        row["hash"]: {name: cell for name, cell in row.items() if name != "hash" and cell is not None}
        for row in kept.to_pylist()
    }


def rounds_of(searches: Sequence[TrialSearch], rows: Rows) -> list[list[Trial]]:
    """Round after round what all searches together have asked for so far; a trial that several ask for comes once."""
    each = [search.rounds(rows) for search in searches]
    return [
        list({trial.hash: trial for part in parts for trial in part}.values())
        for parts in zip_longest(*each, fillvalue=[])
    ]


def search_table(searches: Sequence[TrialSearch], rows: Rows) -> pa.Table:
    """One row per search: what it found, beside the settings that all its trials share."""
    found = []
    for search in searches:
        trials = [trial for part in search.rounds(rows) for trial in part]
        found.append({"search": search.name, **search.row(rows), **shared_columns(trials)})
    table = table_of(found)
    first = [name for name in SEARCH_COLUMNS if name in table.column_names]
    settings = [name for name in table.column_names if name.startswith(TRIAL_GROUPS)]
    return table.select([*first, *settings, *(one for one in table.column_names if one not in {*first, *settings})])


def shared_columns(trials: Sequence[Trial]) -> Row:
    """The settings that are the same in all trials."""
    columns = [trial_columns(trial) for trial in trials]
    names = [name for name in (columns[0] if columns else ()) if name not in ("hash", "trial")]
    return {
        name: columns[0][name]
        for name in names
        if all(name in row and row[name] == columns[0][name] for row in columns)
    }


def is_measured_number(name: str, cell: object) -> bool:
    """Whether a cell of a measured row is a number that says something about the model, and not about the run."""
    own = name not in RUN_COLUMNS or name == "epochs"
    return own and isinstance(cell, int | float) and not isinstance(cell, bool)


def require_searches(searches: Sequence[object]) -> list[TrialSearch]:
    """The searches, each with a name of its own."""
    kept: list[TrialSearch] = []
    for search in searches:
        if not isinstance(search, TrialSearch) or not isinstance(search.name, str) or not search.name:
            raise InputError(f"searches must be a list of Search, each with a name; got {search!r} in it")
        kept.append(search)
    counts = Counter(search.name for search in kept)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"two searches have the name {twice!r}")
    return kept
