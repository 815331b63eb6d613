"""The table of one study: its trials in their order, from a store that may hold others, with those that are missing."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from factrank.runs.claims import Claim, Verdict, evaluate
from factrank.runs.columns import RUN_COLUMNS, Row, in_order, trial_columns
from factrank.runs.parts import as_texts
from factrank.runs.study import Size, Study

MISSING = "missing"
"""The status of a trial that is not in the store."""


def study_table(study: Study, size: Size, table: pa.Table) -> pa.Table:
    """One row per trial of the study, in its order; a trial that the table lacks has the status "missing".

    Claims can so tell a trial that was never run from one that the study does not ask for. Columns without any value
    are left out.
    """
    trials = study.trials_of(size)
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


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table, its columns of the types of another where they have the same names."""
    columns = {}
    for name in in_order({name for row in rows for name in row}):
        cells = [row.get(name) for row in rows]
        kind = schema.field(name).type if name in schema.names else None
        texts = kind is not None and pa.types.is_string(kind)  # a column may be text for the sake of another study
        columns[name] = pa.array(as_texts(cells) if texts else cells, kind)
    return pa.table(columns)


def judge(study: Study, size: Size, table: pa.Table) -> list[tuple[Claim, Verdict]]:
    """Each claim of the study with our verdict, from the trials of this size."""
    own = study_table(study, size, table)
    return [(claim, evaluate(claim, own)) for claim in study.claims]
