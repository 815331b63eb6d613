"""Convert what factrank 0.1 wrote: a store of results, or a model file whose specification says how it starts.

    python tools/convert_from_0_1.py OLD NEW

OLD stays as it is; NEW must not exist. Trials get the specification and the hash that they have today
(`trials_of_0_1`); every number is kept bit for bit. Layer files need no conversion.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pyarrow as pa
from trials_of_0_1 import trial_today

from factrank.errors import FactrankError, InputError
from factrank.experiments.specs import Trial, canonical_json
from factrank.experiments.store import CURVES, READINGS, Row, Store, trial_columns
from factrank.experiments.store.kept_weights import FORMAT, VERSION, weights_path
from factrank.experiments.store.part_tables import PART, read_parts
from factrank.nn import Sealed, format_of, read_sealed, write_sealed

OLD_SETTINGS = ("database.", "model.", "training.", "measures.")
OLD_COLUMNS = ("hash", "trial", "curve_epochs", "seed")
MODEL_FILE = "factrank.model"


def main() -> int:
    """Convert, and say what was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a store or a model file of factrank 0.1")
    parser.add_argument("new", type=Path, help="where the converted one goes; it must not exist")
    paths = parser.parse_args()
    try:
        if paths.new.exists():
            raise InputError(f"{paths.new}: exists already; name a new place")
        if not paths.old.exists():
            raise InputError(f"{paths.old}: no such file or folder")
        print(convert_store(paths.old, paths.new) if paths.old.is_dir() else convert_file(paths.old, paths.new))
    except (FactrankError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def convert_store(old: Path, new: Path) -> str:
    """Write the trials, curves, readings and weights of a store, part by part."""
    parts = {folder: _parts(old / folder) for folder in ("trials", CURVES, READINGS)}
    if not parts["trials"]:
        raise InputError(f"{old}: not a store: it has no trials")
    today, converted = dict[str, Trial](), list[tuple[list[Row], dict[str, list[Row]]]]()
    for name, rows in parts["trials"].items():
        today |= {str(row["hash"]): _trial(str(row["trial"]), f"{old}, part {name}") for row in rows}
        long = {folder: [_moved(row, today) for row in parts[folder].get(name, ())] for folder in (CURVES, READINGS)}
        converted.append(([_row(row, today) for row in rows], long))
    weights = _weights(old / "weights", today)
    store = Store(new)  # nothing is written before everything is known to be sound
    for rows, long in converted:
        store.append_rows(rows, long)
    _write_weights(weights, new / "weights", today)
    n_rows, n_weights = sum(len(rows) for rows, _ in converted), len(weights)
    return f"{n_rows:,} rows of {len(today):,} trials, {n_weights:,} files of weights: {new}"


def convert_file(old: Path, new: Path) -> str:
    """Write a model file without the start in its specification."""
    mark = format_of(old)
    if mark != MODEL_FILE:
        raise InputError(f"{old}: expected a store or a {MODEL_FILE} file; got {mark!r}, which needs no conversion")
    sealed = read_sealed(old, MODEL_FILE, 1)
    spec = {name: value for name, value in json.loads(sealed.metadata["spec"]).items() if name != "start"}
    write_sealed(new, Sealed(sealed.tensors, {**sealed.metadata, "spec": canonical_json(spec)}), MODEL_FILE, 1)
    return str(new)


def _parts(folder: Path) -> dict[str, list[Row]]:
    """The rows of every part by its name, without cells that are null."""
    tables, problems = read_parts(folder, {"hash": str}, lambda _, table: (table, []))
    if problems:
        raise InputError(problems[0])
    return {table[PART][0].as_py(): _rows(table.drop_columns([PART])) for table in tables if table.num_rows}


def _rows(table: pa.Table) -> list[Row]:
    return [{name: cell for name, cell in row.items() if cell is not None} for row in table.to_pylist()]


def _trial(text: str, where: str) -> Trial:
    try:
        return Trial.from_dict(trial_today(json.loads(text)))
    except (ValueError, InputError) as error:
        raise InputError(f"{where}: {error}") from None


def _row(row: Row, today: Mapping[str, Trial]) -> Row:
    """A row of a trial: what ran and the numbers as they were, the specification as it is today."""
    kept = {name: cell for name, cell in row.items() if not name.startswith(OLD_SETTINGS) and name not in OLD_COLUMNS}
    return {**_renamed(kept), **trial_columns(today[str(row["hash"])])}


def _moved(row: Row, today: Mapping[str, Trial]) -> Row:
    """A row of a curve or a reading."""
    known = today.get(str(row["hash"]))
    if known is None:
        raise InputError(f"a curve or reading belongs to no trial of its part: {row['hash']}")
    return {**_renamed(row), "hash": known.hash}


def _renamed(row: Row) -> Row:
    begins, today = "artifacts_", "hallucinations_"
    return {today + name.removeprefix(begins) if name.startswith(begins) else name: cell for name, cell in row.items()}


def _weights(folder: Path, today: Mapping[str, Trial]) -> dict[str, Any]:
    """The files of weights by the old hash of their trial."""
    paths = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    for path in paths:
        if path.stem not in today:
            raise InputError(f"{path}: the weights of no trial of the store")
    return {path.stem: read_sealed(path, FORMAT, VERSION) for path in paths}


def _write_weights(weights: Mapping[str, Any], folder: Path, today: Mapping[str, Trial]) -> None:
    for name, sealed in weights.items():
        folder.mkdir(exist_ok=True)
        metadata = {**sealed.metadata, "trial": canonical_json(today[name].to_dict())}
        write_sealed(weights_path(folder, today[name].hash), Sealed(sealed.tensors, metadata), FORMAT, VERSION)


if __name__ == "__main__":
    sys.exit(main())
