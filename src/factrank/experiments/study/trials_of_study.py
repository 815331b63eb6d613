"""One study in a store that may hold others: its trials in their order, and the tables of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from factrank.experiments.specs import Trial
from factrank.experiments.store import RUN_COLUMNS, Row, Tables, as_texts, in_order, trial_columns
from factrank.experiments.study.searches import measured_rows, search_table
from factrank.experiments.study.study import Size, Study

MISSING = "missing"
"""The status of a trial that is not in the store."""


def study_table(study: Study, size: Size, table: pa.Table) -> pa.Table:
    """One row per trial of the study, in its order; a trial that the table lacks has the status "missing".

    Claims can so tell a trial that was never run from one that the study does not ask for. Of searches there are the
    trials that they ask for so far, round after round. Columns without any value are left out.
    """
    trials = asked_trials(study, size, table)
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
    """The trials that a study asks for so far, each once; those of searches follow from the table of what was run."""
    if study.searches is None:
        return study.trials_of(size)
    rounds = study.rounds(size, measured_rows(table))
    return list({trial.hash: trial for trials in rounds for trial in trials}.values())


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table, its columns of the types of another where they have the same names."""
    columns = {}
    for name in in_order({name for row in rows for name in row}):
        cells = [row.get(name) for row in rows]
        kind = schema.field(name).type if name in schema.names else None
        texts = kind is not None and pa.types.is_string(kind)  # a column may be text for the sake of another study
        columns[name] = pa.array(as_texts(cells) if texts else cells, kind)
    return pa.table(columns)


def study_tables(study: Study, size: Size, tables: Tables) -> Tables:
    """The trials and searches of one study, and the long tables as they are (`Tables.rows` takes its rows)."""
    searches = search_table(study.searches_of(size), measured_rows(tables.trials)) if study.searches else pa.table({})
    return replace(tables, trials=study_table(study, size, tables.trials), searches=searches)
