"""Checks that a published folder is unaltered and that its tables belong to the studies.

`checksums.txt` has the SHA-256 of every published file in the format of `sha256sum`. It reveals accidental changes, but
proves nothing about the author of the folder. The rows of the tables are compared with the trials that the studies
list, and that their searches request when replayed from the table. A hash identifies a trial with all its settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import get_args

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.specs import Trial
from factrank.experiments.store import READING, TRIAL_GROUPS, DataName, Row, Tables, as_texts, trial_columns
from factrank.experiments.study import Size, Study, asked_trials
from factrank.host import require_file
from factrank.report.plain_output import many
from factrank.report.publishing.published_tables import TABLES, data_used, table_path

CHECKSUMS = "checksums.txt"
CHECKSUM_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")

KEYS: dict[DataName, tuple[str, ...]] = {
    "trials": ("hash",),
    "curves": ("hash", "epoch"),
    "readings": ("hash", *READING),
}
"""Columns that identify a row of each table."""


def require_size(study: Study, size: Size, trials: pa.Table) -> None:
    """Raise if a study is to be published in full, but only its quick size was run.

    This is so if some of its trials were run, and none that only the full size has.

    Raises:
        InputError: If only the quick size was run.
    """
    if size == "quick" or "hash" not in trials.column_names:
        return
    ran, sizes = set(trials["hash"].to_pylist()), get_args(Size)
    asked = {one: {trial.hash for trial in asked_trials(study, one, trials)} for one in sizes}
    full, quick = asked["full"], asked["quick"]
    if ran & quick and full - quick and not ran & (full - quick):
        raise InputError(
            f"study {study.name}: only its quick size was run ({len(ran & quick):,} trials), so it cannot be published "
            f"as the full one; run it with --full, or publish it with --quick"
        )


# ---------------------------------------------------------------- files


def checksums_text(folder: Path, names: Iterable[str]) -> str:
    """Return a line per file in the format of `sha256sum`, sorted by name."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in sorted(names))


def checksum_differences(folder: Path, known: Collection[str]) -> list[str]:
    """Return the files that do not match their checksum or have none; `known` are all permitted names."""
    path = folder / CHECKSUMS
    try:
        require_file(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    except (InputError, OSError, UnicodeDecodeError) as error:
        return [str(error) if isinstance(error, InputError) else f"{path}: cannot be read: {error}"]
    found: list[str] = []
    listed: set[str] = set()
    for at, line in enumerate(lines, start=1):
        parts = CHECKSUM_LINE.fullmatch(line)
        if parts is None or parts[2] not in known or parts[2] in listed:
            found.append(f"{path}, line {at}: expected the checksum and name of a file of this paper, each once")
            continue
        listed.add(parts[2])
        try:
            if _checksum(folder / parts[2]) != parts[1]:
                found.append(f"{folder / parts[2]}: not the file that was published: its checksum differs")
        except InputError as error:
            found.append(str(error))
    unlisted = sorted(name for name in known if name not in listed and (folder / name).is_file())
    return found + [f"{folder / name}: not listed in {CHECKSUMS}" for name in unlisted]


def _checksum(path: Path) -> str:
    require_file(path)
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


# ---------------------------------------------------------------- rows


def row_differences(folder: Path, study: Study, tables: Tables, asked: Sequence[Trial]) -> list[str]:
    """Return the rows of a study's tables that are not of its trials: duplicates, foreign rows, wrong settings.

    `asked` are all trials of the study (`factrank.experiments.study.asked_trials`).
    """
    trials = {trial.hash: trial_columns(trial) for trial in asked}
    return [
        f"{table_path(folder / TABLES, study, data)}: {text}"
        for data in data_used(study)
        for text in _problems(getattr(tables, data), KEYS[data], trials)
    ]


def _problems(table: pa.Table, key: tuple[str, ...], trials: Mapping[str, Row]) -> list[str]:
    absent = [name for name in key if name not in table.column_names]
    if absent:
        return [f"it has no column {', '.join(absent)}"] if table.num_rows else []
    hashes = table.column("hash").to_pylist()
    found = []
    again = len(hashes) - len(set(zip(*(table.column(name).to_pylist() for name in key), strict=True)))
    if again:
        found.append(f"{many(again, 'row')} repeating the {', '.join(key)} of another row")
    strange = sum(one not in trials for one in hashes)
    if strange:
        found.append(f"{many(strange, 'row')} of no trial of the study")
    for name in table.column_names:
        if name.startswith(TRIAL_GROUPS):
            pairs = zip(hashes, table.column(name).to_pylist(), strict=True)
            other = [(cell, trials[one].get(name)) for one, cell in pairs if one in trials]
            other = [(written, given) for written, given in other if not _same(written, given)]
            if other:
                written, given = other[0]
                found.append(
                    f"{many(len(other), 'row')} with another {name} than the trial, as {written!r} for {given!r}"
                )
    return found


def _same(written: object, given: object) -> bool:
    """Return whether a cell equals the setting; a column is text if the trials of some study require it."""
    return written == (as_texts([given])[0] if isinstance(written, str) else given)
