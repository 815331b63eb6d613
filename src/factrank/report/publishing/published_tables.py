"""The published tables of a study: small files from which its claims, summaries and charts can be recomputed.

    <study>.parquet            one row per trial: hash, status, varying settings and measures, in the study's order
    <study>.curves.parquet     one row per trial and recorded epoch, if the study uses them
    <study>.readings.parquet   one row per trial and reading, if the study uses them

The table of a study's searches is not published: it follows from the trials (`factrank.experiments.study.searches`).

A column that is the same in all rows is stored once in the metadata of its file, under "factrank", with the name and
size of the study. The JSON of the trials (the study lists them, and the hashes are published), error messages and times
are omitted; the metadata have the total time. Equal results give equal bytes.
"""

from __future__ import annotations

import json
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from factrank.errors import InputError
from factrank.experiments.statistics import Claim, Summary
from factrank.experiments.store import ARROW, PUBLISHED_ONLY, STORED, WEIGHTS_KEPT, DataName, Tables
from factrank.experiments.study import MISSING, Chart, Size, Study, StudyResults
from factrank.host import replacing, require_file

TABLES = "tables"
"""Subfolder of the tables."""

LEFT_OUT = ("trial", "error", "seconds", "width", WEIGHTS_KEPT, PUBLISHED_ONLY)
JUDGED_BY = ("hash", "status", "seed", "data.seed")
"""Columns that every claim depends on."""
METADATA = b"factrank"
ZSTD_LEVEL = 19


def data_used(study: Study) -> tuple[DataName, ...]:
    """Return the names of the stored tables that a study uses."""
    parts: list[Chart | Claim | Summary] = [*study.charts, *study.claims, *study.summaries]
    used = {part.data for part in parts}
    return tuple(name for name in STORED if name == "trials" or name in used)


def table_path(folder: Path, study: Study, data: DataName) -> Path:
    """Return the path of a published table."""
    return folder / f"{study.name}{'' if data == 'trials' else f'.{data}'}.parquet"


def write_published(folder: Path, found: StudyResults) -> list[Path]:
    """Write the rows of all trials of the study that have run; returns the paths."""
    study, tables = found.study, found.tables
    own = tables.trials.filter(pc.not_equal(tables.trials["status"], MISSING))
    about: dict[str, Any] = {"study": study.name, "size": found.size}
    if found.fixed is not None:
        about["claims"] = dict(found.fixed)
    paths = []
    for data in data_used(study):
        if data == "trials":
            table, more = own.drop_columns([name for name in LEFT_OUT if name in own.column_names]), _times(own)
        else:
            table, more = _rows_of(getattr(tables, data), own), {}
        paths.append(table_path(folder, study, data))
        content = _packed(table, about | more)
        with replacing(paths[-1]) as stream:
            stream.write(content)
    return paths


def _times(own: pa.Table) -> dict[str, float]:
    seconds = pc.sum(own["seconds"]).as_py() if "seconds" in own.column_names else None
    return {} if seconds is None else {"seconds": round(seconds, 3)}


def load_published(folder: str | Path, study: Study) -> Tables:
    """Load the published tables of a study, in the form that `factrank.experiments.study.results_of` takes."""
    place = Path(folder) / TABLES
    found = {data: _unpacked(table_path(place, study, data), study)[0] for data in data_used(study)}
    empty = Tables.empty()
    return Tables(**{data: found.get(data, getattr(empty, data)) for data in STORED})


def require_published(stored: StudyResults, published: StudyResults) -> None:
    """Raise unless the published tables have every number that the claims of a study depend on."""
    for claim in stored.study.claims:
        ours, theirs = stored.tables.rows(claim.data), published.tables.rows(claim.data)
        named = [name for part in claim.quantity.parts for name in part.columns]
        lost = [name for name in (*JUDGED_BY, *named) if _cells(ours, name) != _cells(theirs, name)]
        if lost:
            raise InputError(
                f"study {stored.study.name}, claim {claim.name}: it is computed from {', '.join(dict.fromkeys(lost))}, "
                "which the published tables do not contain as stored"
            )


def _cells(table: pa.Table, name: str) -> list[str]:
    """Return the cells of a column as texts, so that NaN equals NaN; empty if there is no such column."""
    return list(map(repr, table.column(name).to_pylist())) if name in table.column_names else []


def published_size(folder: str | Path, study: Study) -> Size:
    """Return the size of a study that was published."""
    path = table_path(Path(folder) / TABLES, study, "trials")
    found = _unpacked(path, study)[1].get("size")
    for size in get_args(Size):
        if found == size:
            return cast("Size", size)
    raise InputError(f"{path}: the size in its metadata must be one of {', '.join(get_args(Size))}; got {found!r}")


def published_claims(folder: str | Path, study: Study) -> dict[str, str] | None:
    """Return the hashes of the claims that were fixed before the published run; None if there is no record."""
    path = table_path(Path(folder) / TABLES, study, "trials")
    found = _unpacked(path, study)[1].get("claims")
    if found is not None and not (isinstance(found, dict) and all(isinstance(one, str) for one in found.values())):
        raise InputError(f"{path}: the claims in its metadata must be hashes by name")
    return found


def published_seconds(folder: str | Path, study: Study) -> float | None:
    """Return the total time of all trials of a study, if it was published."""
    seconds = _unpacked(table_path(Path(folder) / TABLES, study, "trials"), study)[1].get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


# ---------------------------------------------------------------- one file


def _rows_of(long: pa.Table, own: pa.Table) -> pa.Table:
    if "hash" not in long.column_names:
        return Tables.empty().curves
    return long.filter(pc.is_in(long["hash"], own["hash"].combine_chunks()))


def _packed(table: pa.Table, about: dict[str, Any]) -> bytes:
    constants = {name: table[name][0].as_py() for name in table.column_names if _is_constant(name, table)}
    plain = json.dumps(about | {"constants": constants}, sort_keys=True, allow_nan=False)
    varying = table.drop_columns(list(constants)).combine_chunks()
    stream = BytesIO()
    options = {"compression": "zstd", "compression_level": ZSTD_LEVEL, "write_page_checksum": True}
    with pq.ParquetWriter(stream, varying.schema, store_schema=False, write_statistics=False, **options) as writer:
        writer.write_table(varying)
        writer.add_key_value_metadata({METADATA: plain})
    return stream.getvalue()


def _is_constant(name: str, table: pa.Table) -> bool:
    """Return whether a column other than the hash is the same in all rows and can be written as JSON."""
    column = table[name]
    if name == "hash" or column.null_count or pc.count_distinct(column).as_py() != 1:
        return False
    value = column[0].as_py()
    return type(value) in ARROW and (not isinstance(value, float) or isfinite(value))


def _unpacked(path: Path, study: Study) -> tuple[pa.Table, dict[str, Any]]:
    require_file(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
            about = json.loads((file.metadata.metadata or {})[METADATA])
        for name, value in about["constants"].items():
            table = table.append_column(name, pa.array([value] * table.num_rows, ARROW[type(value)]))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a published table: {type(error).__name__}: {str(error)[:200]}") from None
    if about.get("study") != study.name or "hash" not in table.column_names:
        raise InputError(f"{path}: expected the table of {study.name}; its metadata name {about.get('study')!r}")
    return table.replace_schema_metadata(None), about
