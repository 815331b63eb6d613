"""Fill a store from a published folder, so that its studies can be resumed without the original store.

The published tables lack three columns, and settings that were added to trials after publication. The JSON of a trial
and its settings follow from the study that lists it, and are checked by the hash. Only the total time is published, and
every row gets an equal part of it. The width of bundles is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from factrank.experiments.store import CURVES, PUBLISHED_ONLY, READINGS, Row, Store, trial_columns
from factrank.experiments.study import Study, asked_trials
from factrank.report.publishing.published_tables import (
    TABLES,
    load_published,
    published_claims,
    published_seconds,
    published_size,
    table_path,
)


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Arguments:
        n_trials: Number of restored trials.
        n_unknown: Number of skipped rows that no study requests any more.
        unpublished: Names of the studies that the folder does not have.
    """

    n_trials: int
    n_unknown: int
    unpublished: tuple[str, ...] = ()


def restore(folder: str | Path, studies: Sequence[Study], store: Store) -> Restored:
    """Append the published rows of these studies that the store lacks; studies that were not published are skipped.

    They are marked, so that curves and readings that were never published do not count as lost.

    Raises:
        InputError: If the folder has none of the studies.
    """
    known, n_restored, n_unknown = store.finished(), 0, 0
    unpublished = [study for study in studies if not table_path(Path(folder) / TABLES, study, "trials").exists()]
    asked_for = [study for study in studies if study not in unpublished] or studies
    for study in asked_for:
        tables, size = load_published(folder, study), published_size(folder, study)
        trials = {trial.hash: trial for trial in asked_trials(study, size, tables.trials)}
        published = tables.trials
        seconds = published_seconds(folder, study)
        each: Row = {PUBLISHED_ONLY: True}
        if seconds is not None:
            each["seconds"] = seconds / max(1, published.num_rows)
        asked = [row for row in _rows(published) if row["hash"] in trials]
        n_unknown += published.num_rows - len(asked)
        lacking = [row for row in asked if row["hash"] not in known]
        new = [{**row, **each, **trial_columns(trials[str(row["hash"])])} for row in lacking]
        own = {str(row["hash"]) for row in new}
        store.append_rows(new, {CURVES: _rows(tables.curves, own), READINGS: _rows(tables.readings, own)})
        known |= own
        n_restored += len(new)
        fixed = published_claims(folder, study)
        if fixed is not None:
            store.fix_claims(study.name, size, fixed)
    return Restored(n_restored, n_unknown, tuple(study.name for study in unpublished))


def _rows(table: pa.Table, only: set[str] | None = None) -> list[Row]:
    """Return the rows of a table without null cells, of all trials or of those in `only`."""
    if only is not None:
        table = table.filter(pc.is_in(table["hash"], pa.array(sorted(only), pa.string())))
    return [{name: cell for name, cell in row.items() if cell is not None} for row in table.to_pylist()]
