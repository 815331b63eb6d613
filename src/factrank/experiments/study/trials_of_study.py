"""Extract one study from a store that may contain others: its trials in order, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from factrank.experiments.specs import Trial
from factrank.experiments.store import RUN_COLUMNS, Row, Tables, as_texts, in_order, trial_columns
from factrank.experiments.study.searches import measured_rows, search_table
from factrank.experiments.study.study import Size, Study

MISSING = "missing"
"""Status of a trial that is not in the store."""


def study_table(study: Study, size: Size, table: pa.Table, trials: Sequence[Trial] | None = None) -> pa.Table:
    """Return one row per trial of the study, in order; trials that are not in the table have the status "missing".

    Claims can thus distinguish trials that were never run from trials that are not part of the study. Trials of
    searches are included if they were requested so far. Columns without any value are omitted.

    `trials` are its `asked_trials`, if they are known already: listing them takes seconds for a large study.
    """
    trials = asked_trials(study, size, table) if trials is None else trials
    hashes = table.column("hash").to_pylist() if "hash" in table.column_names else []
    place = {found: at for at, found in reversed(list(enumerate(hashes)))}
    wanted = [place.get(trial.hash) for trial in trials]
    found = table.take(pa.array([at for at in wanted if at is not None], pa.int64()))
    absent = [trial for trial, at in zip(trials, wanted, strict=True) if at is None]
    if absent:
        missing = _table([{**trial_columns(trial), "status": MISSING} for trial in absent], found.schema)
        found = pa.concat_tables([found, missing], promote_options="permissive") if found.num_rows else missing
    order = iter(range(len(trials) - len(absent))), iter(range(len(trials) - len(absent), len(trials)))
    rows = found.take(pa.array([next(order[at is None]) for at in wanted], pa.int64()))
    used = [name for name in rows.column_names if name in RUN_COLUMNS or rows.column(name).null_count < rows.num_rows]
    return rows.select(in_order(used))


def asked_trials(study: Study, size: Size, table: pa.Table) -> list[Trial]:
    """Return the trials that a study has requested so far, without duplicates; searches depend on the table."""
    if study.searches is None:
        return study.trials_of(size)
    rounds = study.rounds(size, measured_rows(table))
    return list({trial.hash: trial for trials in rounds for trial in trials}.values())


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Convert rows to a table, with the column types of a schema."""
    columns = {}
    for name in in_order({name for row in rows for name in row}):
        cells = [row.get(name) for row in rows]
        kind = schema.field(name).type if name in schema.names else None
        texts = kind is not None and pa.types.is_string(kind)  # another study may have stored strings
        columns[name] = pa.array(as_texts(cells) if texts else cells, kind)
    return pa.table(columns)


def study_tables(study: Study, size: Size, tables: Tables, trials: Sequence[Trial] | None = None) -> Tables:
    """Return the trials and searches of one study; long tables are unchanged (`Tables.rows` selects their rows)."""
    searches = search_table(study.searches_of(size), measured_rows(tables.trials)) if study.searches else pa.table({})
    return replace(tables, trials=study_table(study, size, tables.trials, trials), searches=searches)
