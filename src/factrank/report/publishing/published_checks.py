"""Whether a published folder is as it was written, and whether its tables are those of the studies.

`checksums.txt` has the SHA-256 of every published file in the format of `sha256sum`. It finds what was altered by
accident, or by somebody who did not write it anew; it proves nothing about who wrote the folder. The rows of the tables
are compared with the trials that the studies list, and that their searches ask for when they are replayed from the
table: a hash names one trial, and so all its settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.store import READING, TRIAL_GROUPS, DataName, Row, Tables, as_texts, trial_columns
from factrank.experiments.study import Size, Study, asked_trials
from factrank.host import require_file
from factrank.report.publishing.published_tables import TABLES, data_used, table_path

CHECKSUMS = "checksums.txt"
CHECKSUM_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")

KEYS: dict[DataName, tuple[str, ...]] = {
    "trials": ("hash",),
    "curves": ("hash", "epoch"),
    "readings": ("hash", *READING),
}
"""What tells the rows of each table apart."""


# ---------------------------------------------------------------- files


def checksums_text(folder: Path, names: Iterable[str]) -> str:
    """A line for each file of the folder, as `sha256sum` writes and checks them, sorted by name."""
    return "".join(f"{_checksum(folder / name)}  {name}\n" for name in sorted(names))


def checksum_differences(folder: Path, known: Collection[str]) -> list[str]:
    """Which files are not as their checksums say, or have none; `known` are the names that may be there."""
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
            found.append(f"{path}, line {at}: not the checksum and the name of a file of this paper, each once")
            continue
        listed.add(parts[2])
        try:
            if _checksum(folder / parts[2]) != parts[1]:
                found.append(f"{folder / parts[2]}: not the file that was published: its checksum is another")
        except InputError as error:
            found.append(str(error))
    unlisted = sorted(name for name in known if name not in listed and (folder / name).is_file())
    return found + [f"{folder / name}: {CHECKSUMS} does not name it" for name in unlisted]


def _checksum(path: Path) -> str:
    require_file(path)
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


# ---------------------------------------------------------------- rows


def row_differences(folder: Path, study: Study, size: Size, tables: Tables) -> list[str]:
    """What in the tables of a study cannot be of its own trials: rows twice, rows of others, other settings."""
    trials = {trial.hash: trial_columns(trial) for trial in asked_trials(study, size, tables.trials)}
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
        found.append(f"{_rows(again)} with the {', '.join(key)} of another row")
    strange = sum(one not in trials for one in hashes)
    if strange:
        found.append(f"{_rows(strange)} of no trial of the study")
    for name in table.column_names:
        if name.startswith(TRIAL_GROUPS):
            pairs = zip(hashes, table.column(name).to_pylist(), strict=True)
            other = [(cell, trials[one].get(name)) for one, cell in pairs if one in trials]
            other = [(written, given) for written, given in other if not _same(written, given)]
            if other:
                written, given = other[0]
                found.append(f"{_rows(len(other))} with another {name} than the trial, as {written!r} for {given!r}")
    return found


def _same(written: object, given: object) -> bool:
    """Whether a cell is the setting; a column may be text for the sake of another study's trials."""
    return written == (as_texts([given])[0] if isinstance(written, str) else given)


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"
