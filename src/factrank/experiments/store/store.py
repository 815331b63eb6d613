"""Store: an append-only folder with the results of trials.

    trials/    one row per trial (`columns`), in Parquet parts
    curves/    one row per trial and recorded epoch; a part has the same prefix as its part in trials/
    readings/  one row per trial and readout; same prefix
    weights/   one safetensors file per trial, named after its hash; optional
    drafts/    files being written, or left by a writer that was killed; never read

Parts in trials/ are written last, so a row counts only when everything else exists. Several processes may write
concurrently. If a trial has several rows, the first with an ended run counts, or else the first failed one; rows
are ordered by the names of their parts, which sort by time. Tables are sorted by hash, so they do not depend on the
order of writing.

A trial whose curves or readings were lost counts as unfinished: it is run again, which restores them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from factrank.errors import InputError
from factrank.experiments.columns import is_measured
from factrank.experiments.specs import CONVERTER, SCHEMA, Trial
from factrank.experiments.store.columns import (
    ENDED,
    PUBLISHED_ONLY,
    RUN_COLUMNS,
    STATUSES,
    WEIGHTS_KEPT,
    Row,
    curve_rows,
    failed_row,
    in_order,
    reading_rows,
    row_of,
)
from factrank.experiments.store.exports import write_table
from factrank.experiments.store.kept_weights import (
    read_weights,
    weights_path,
    weights_problem,
    weights_problems,
    write_weights,
)
from factrank.experiments.store.losses import CURVES, READINGS, WEIGHTS, Losses, long_tables_of, losses_text
from factrank.experiments.store.parquet_parts import (
    ARROW,
    new_name,
    packed,
    publishing,
    sealed_name,
    table_of,
    write_draft,
)
from factrank.experiments.store.part_tables import PART, FormerVersionError, Problems, first_rows, read_parts, united
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.training import TrialResult
from factrank.host import replacing
from factrank.nn import SUFFIX as WEIGHTS_SUFFIX

TRIALS, DRAFTS, CLAIMS = "trials", "drafts", "claims"
IDENTITY: dict[str, type] = {"hash": str, "status": str, "trial": str}
LONG_TABLES: dict[str, dict[str, type]] = {
    CURVES: {"hash": str, "epoch": int},
    READINGS: {"hash": str, "precision": str, "temperature": float, "tau": float},
}
"""Tables with several rows per trial, and the columns that identify a row."""
VERSION = f'"version":{SCHEMA}'
"""Substring of the canonical JSON of every trial in the current schema."""

FORMER_VERSION = '"version":1}'
"""End of the canonical JSON of every trial of factrank 0.1."""

SHOWN_ROWS = 3


class Store:
    """Results of trials in a folder. The folder is created when something is first stored.

    >>> import tempfile
    >>> from factrank import LayerShape
    >>> from factrank import Training, generated, train_many
    >>> facts = generated("unit", n=3)
    >>> trials = [Trial(facts, LayerShape(3, 1, 1, 2), Training(epochs=20), seed=seed) for seed in range(4)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.append(train_many(trials))
    ...     table = store.trials()
    >>> table.num_rows, sorted(table["seed"].to_pylist())
    (4, [0, 1, 2, 3])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if os.path.lexists(self.folder) and not os.path.isdir(self.folder):
            raise InputError(f"{self.folder}: not a folder; a store must be a folder")

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    @property
    def exists(self) -> bool:
        """True if the folder contains a store."""
        return (self.folder / TRIALS).is_dir()

    # ---------------------------------------------------------------- writing

    def require_writable(self) -> None:
        """Create the folder and write a draft, to raise an `InputError` now instead of after hours of training."""
        self._make(TRIALS, *LONG_TABLES, DRAFTS)
        with publishing(self.folder) as drafts:
            draft = self._draft()
            write_draft(drafts, draft, draft, b"can this be written?")  # removed on exit
        effective = os.access in os.supports_effective_ids
        for name in (TRIALS, *LONG_TABLES):
            if not os.access(self.folder / name, os.W_OK | os.X_OK, effective_ids=effective):
                raise InputError(f"{self.folder / name}: no permission to write there")

    def fix_claims(self, study: str, size: str, hashes: Mapping[str, str]) -> None:
        """Record the hashes of the claims of a study before its run; a record that exists stays as it is."""
        path = self._claims_path(study, size)
        if not path.exists():
            self._make(CLAIMS)
            with replacing(path) as stream:
                stream.write(json.dumps(dict(hashes), indent=1, sort_keys=True).encode())

    def fixed_claims(self, study: str, size: str) -> dict[str, str] | None:
        """Return the hashes of the claims that were recorded before the run of a study; None without a record."""
        path = self._claims_path(study, size)
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a record of claims: {error}") from None
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise InputError(f"{path}: not a record of claims: expected the hash of each claim by name")
        return found

    def _claims_path(self, study: str, size: str) -> Path:
        return self.folder / CLAIMS / f"{study}-{size}.json"

    def append(
        self,
        results: Sequence[TrialResult],
        failures: Sequence[tuple[Trial, str]] = (),
        keep_weights: bool = False,
    ) -> None:
        """Store results and failures in one part; when this returns, they are on disk.

        Interrupted trials are skipped, because they still have to be run. An error leaves stored results unchanged.

        Arguments:
            results: Results of trials.
            failures: Trials that could not be run, with their error messages.
            keep_weights: Whether to store the trained models.
        """
        ended = [result for result in results if result.status in ENDED]
        rows = [*map(row_of, ended), *(failed_row(*failure) for failure in failures)]
        long = {
            CURVES: [row for result in ended for row in curve_rows(result)],
            READINGS: [row for result in ended for row in reading_rows(result)],
        }
        self.append_rows(rows, long, [result for result in ended if keep_weights and result.weights is not None])

    def append_rows(
        self,
        rows: Sequence[Row],
        long: Mapping[str, Sequence[Row]] = MappingProxyType({}),
        with_weights: Sequence[TrialResult] = (),
    ) -> None:
        """Store rows of `row_of` and `failed_row`, and rows of `curve_rows` and `reading_rows` by table."""
        if not rows:
            return
        kept = {result.trial.hash for result in with_weights}
        found = {**long, TRIALS: [{**row, WEIGHTS_KEPT: True} if row["hash"] in kept else row for row in rows]}
        contents = [(folder, packed(table_of(found[folder]))) for folder in (*LONG_TABLES, TRIALS) if found.get(folder)]
        self._make(TRIALS, *LONG_TABLES, DRAFTS, *([WEIGHTS] if with_weights else []))
        with publishing(self.folder) as drafts:
            for result in with_weights:
                place = weights_path(self.folder / WEIGHTS, result.trial.hash)
                if weights_problem(place) is not None:  # keep existing weights unless they are damaged
                    drafts.append((self._draft(WEIGHTS_SUFFIX), place))
                    write_weights(drafts[-1][0], result)
            name = new_name()
            for folder, content in contents:  # trials last: their part makes the others count
                write_draft(drafts, self._draft(), self.folder / folder / sealed_name(name, content), content)

    def _make(self, *names: str) -> None:
        with publishing(self.folder):
            for name in names:
                (self.folder / name).mkdir(parents=True, exist_ok=True)

    def _draft(self, suffix: str = ".tmp") -> Path:
        return self.folder / DRAFTS / f"{new_name()}{suffix}"

    # ---------------------------------------------------------------- reading

    def trials(self) -> pa.Table:
        """Return one row per trial, sorted by hash, with the columns of `columns`; missing values are null."""
        table = self._counting()
        return table.select(in_order(name for name in table.schema.names if name != PART))

    def curves(self) -> pa.Table:
        """Return one row per trial and recorded epoch, sorted by both."""
        return self._long(CURVES)

    def readings(self) -> pa.Table:
        """Return one row per trial, precision, temperature and tau, sorted by them."""
        return self._long(READINGS)

    def tables(self) -> Tables:
        """Return all three tables."""
        return Tables(self.trials(), self.curves(), self.readings())

    def _long(self, folder: str) -> pa.Table:
        identity = LONG_TABLES[folder]
        rows = self._counting(list(IDENTITY))
        parts, _ = read_parts(self.folder / folder, identity, lambda _, table: (table, []))
        table = united([_no_rows(identity | {PART: str}), *parts])
        at = pc.index_in(table["hash"], rows["hash"].combine_chunks())
        other = pc.not_equal(table[PART], rows[PART].take(at))
        table = table.append_column("\0other", other).filter(pc.is_valid(at))
        # For each trial, use the part of its row, or the first part; each epoch or readout of that part occurs once.
        best = first_rows(table, ["hash"], ["\0other", PART])
        of_part = best[PART].take(pc.index_in(table["hash"], best["hash"].combine_chunks()))
        table = first_rows(table.filter(pc.equal(table[PART], of_part)), list(identity))
        numbers = sorted(set(table.schema.names) - {*identity, PART, "\0other"})
        return table.select([*identity, *numbers])

    def finished(self, *, with_weights: bool = False) -> set[str]:
        """Return the hashes of trials that have ended (finished, stopped or diverged) and lost no curves or readings.

        If `with_weights`, only trials whose weights are stored.
        """
        lost = self.lost()
        found = self._hashes(ENDED) - lost[CURVES] - lost[READINGS]
        return {name for name in found if self._has_weights(name)} if with_weights else found

    def failed(self) -> set[str]:
        """Return the hashes of trials that failed and never ended."""
        return self._hashes(("failed",))

    def weights(self, trial_hash: str) -> Any:
        """Return the trained model of a trial whose weights were kept."""
        return read_weights(self.folder / WEIGHTS, trial_hash)

    def lost(self) -> Losses:
        """Return the hashes of ended trials whose curves, readings or weights are lost, by table."""
        wanted = [*IDENTITY, "epochs", WEIGHTS_KEPT, PUBLISHED_ONLY]
        parts, _ = read_parts(self.folder / TRIALS, IDENTITY, _sound_rows, wanted)
        table = united([_no_rows({**IDENTITY, "epochs": int, WEIGHTS_KEPT: bool, PUBLISHED_ONLY: bool}), *parts])
        expected: dict[str, set[str]] = {folder: set() for folder in (*LONG_TABLES, WEIGHTS)}
        columns = [table[name].to_pylist() for name in wanted]
        for name, status, trial, epochs, kept, restored in zip(*columns, strict=True):
            if status in ENDED:
                long = () if restored else long_tables_of(trial, epochs)
                for folder in (*long, *([WEIGHTS] if kept else [])):
                    expected[folder].add(name)
        lost = {folder: expected[folder] - self._present(folder) for folder in LONG_TABLES if expected[folder]}
        weights = {name for name in expected[WEIGHTS] if not self._has_weights(name)}
        return {CURVES: set(), READINGS: set(), **lost, WEIGHTS: weights}

    def losses(self) -> Problems:
        """Describe the result of `lost`, one line per table."""
        return [
            f"{self.folder / folder}: {losses_text(folder, names)}" for folder, names in self.lost().items() if names
        ]

    def problems(self) -> Problems:
        """Describe all problems of the store: invalid files and lost data."""
        return [*self.unsound_files(), *self.losses()]

    def unsound_files(self) -> Problems:
        """Describe invalid files. Only damaged weights are ever replaced."""
        _, in_trials = read_parts(self.folder / TRIALS, IDENTITY, _sound_rows)
        in_long = [
            problem
            for folder, identity in LONG_TABLES.items()
            for problem in read_parts(self.folder / folder, identity, lambda _, table: (table, []))[1]
        ]
        return [*in_trials, *in_long, *weights_problems(self.folder / WEIGHTS)]

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the table of trials to a Parquet or CSV file, depending on the suffix."""
        write_table(self.trials(), path)

    def _present(self, folder: str) -> set[str]:
        parts, _ = read_parts(self.folder / folder, LONG_TABLES[folder], lambda _, table: (table, []), ["hash"])
        return {name for part in parts for name in pc.unique(part["hash"]).to_pylist()}

    def _has_weights(self, trial_hash: str) -> bool:
        return weights_problem(weights_path(self.folder / WEIGHTS, trial_hash)) is None

    def _hashes(self, statuses: Sequence[str]) -> set[str]:
        table = self._counting(list(IDENTITY))
        return set(table.filter(pc.is_in(table["status"], pa.array(statuses)))["hash"].to_pylist())

    def _counting(self, only: Sequence[str] | None = None) -> pa.Table:
        """Select the row of each trial that counts, sorted by hash, with its part."""
        parts, _ = read_parts(self.folder / TRIALS, IDENTITY, _sound_rows, only)
        known = {name: kind for name, kind in RUN_COLUMNS.items() if only is None or name in only}
        table = united([_no_rows(known | {PART: str}), *parts])
        table = table.append_column("\0failed", pc.equal(table["status"], "failed"))
        return first_rows(table, ["hash"], ["\0failed", PART]).drop_columns(["\0failed"])


def _no_rows(columns: dict[str, type]) -> pa.Table:
    return pa.schema([(name, ARROW[kind]) for name, kind in columns.items()]).empty_table()


def _sound_rows(path: Path, table: pa.Table) -> tuple[pa.Table, Problems]:
    """Select rows with a valid hash, a known schema version and a known status, and describe the others."""
    cells = list(zip(*(table[name].to_pylist() for name in IDENTITY), strict=True))
    if any(text.endswith(FORMER_VERSION) for _, _, text in cells):
        raise FormerVersionError(f"{path}: written by factrank 0.1; {CONVERTER}")
    sound = [
        hashlib.sha256(text.encode()).hexdigest() == name and status in STATUSES and VERSION in text
        for name, status, text in cells
    ]
    texts = [field.name for field in table.schema if is_measured(field.name) and pa.types.is_string(field.type)]
    problems = [f"{path}: the column {name} contains text instead of numbers; it is ignored" for name in texts]
    wrong = [str(row) for row, is_sound in enumerate(sound, start=1) if not is_sound]
    if not wrong:
        return table, problems
    shown = ", ".join(wrong[:SHOWN_ROWS]) + (", ..." if len(wrong) > SHOWN_ROWS else "")
    problem = (
        f"{path}: {len(wrong)} of {len(sound)} rows were modified (row {shown}): the hash does not match the trial"
    )
    return table.filter(pa.array(sound, pa.bool_())), [f"{problem}, or its version or status is unknown", *problems]
