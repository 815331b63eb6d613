"""Parts: Parquet files that are written once, atomically, and never changed.

A part is written to the folder of drafts, flushed to disk, and then renamed, so readers never see an incomplete part.
Its name consists of the time, a random number to avoid collisions, and a checksum of its bytes. Cells are int64,
float64, bool or string.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from time import time_ns
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from factrank.errors import InputError
from factrank.experiments.store.columns import EPOCHS_TO, RUN_COLUMNS, Row
from factrank.host import require_file

SUFFIX = ".parquet"
SEALED = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{9}Z-[0-9a-f]{16})-([0-9a-f]{16})")
"""Name of a part: a prefix that it has in common with its curves and readings, and a checksum (SHA-256)."""
ARROW: dict[type, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
KNOWN: dict[str, Any] = {name: ARROW[kind] for name, kind in RUN_COLUMNS.items()} | {
    "training.batch_size": pa.int64(),
}
"""Types of columns that may contain only nulls in a part."""
MOST_LETTERS = 300
"""Maximum length of an Arrow error, which may quote much of a damaged file."""

Drafts = list[tuple[Path, Path]]
"""Files that are complete on disk, and their final paths."""


# ---------------------------------------------------------------- writing


def new_name() -> str:
    """Return a unique name for a part; names sort by time.

    >>> new_name() < new_name()
    True
    """
    seconds, nanoseconds = divmod(time_ns(), 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{nanoseconds:09d}Z-{secrets.token_hex(8)}"


def sealed_name(name: str, content: bytes) -> str:
    """Return the file name with a checksum, because Parquet's own checksums do not cover all bytes."""
    return f"{name}-{hashlib.sha256(content).hexdigest()[:16]}{SUFFIX}"


def shared_name(file_name: str) -> str:
    """Return the common prefix of parts of trials, curves and readings that were written together."""
    stem = file_name.removesuffix(SUFFIX)
    sealed = SEALED.fullmatch(stem)
    return sealed[1] if sealed else stem


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Convert rows to a table; columns are in order of first appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _array(name, [row.get(name) for row in rows]) for name in names}
    return pa.table({name: column for name, column in columns.items() if column is not None})


def packed(table: pa.Table) -> bytes:
    """Return the bytes of a Parquet file, with checksums."""
    stream = BytesIO()
    pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)
    return stream.getvalue()


@contextmanager
def publishing(folder: Path) -> Iterator[Drafts]:
    """Rename drafts to their final paths at the end of the block, in order; none of them if there is an error.

    Raises:
        InputError: If a file cannot be written.
    """
    drafts: Drafts = []
    try:
        yield drafts
        for draft, place in drafts:
            os.rename(draft, place)
        for parent in {place.parent for _, place in drafts}:
            _to_disk(parent)
    except (OSError, ValueError) as error:
        place, reason = getattr(error, "filename", None) or folder, getattr(error, "strerror", None) or error
        raise InputError(f"{place}: cannot be written: {reason}; stored results are unchanged") from None
    finally:
        for draft, _ in drafts:
            with suppress(OSError):  # already renamed, or the disk is gone
                draft.unlink()


def write_draft(drafts: Drafts, draft: Path, place: Path, content: bytes) -> None:
    """Write a draft and flush it to disk."""
    drafts.append((draft, place))
    with draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _to_disk(folder: Path) -> None:
    """Flush a folder to disk, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _array(name: str, values: list[object]) -> pa.Array | None:
    """Convert values to a column of a single type; None if all are null and the type is unknown."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        kind = pa.int64() if name.startswith(EPOCHS_TO) else KNOWN.get(name)
        return None if kind is None else pa.nulls(len(values), kind)
    if kinds == {int, float} and all(_is_exact(value) for value in values):
        kinds = {float}
    if len(kinds) > 1:
        return pa.array(as_texts(values), pa.string())
    return pa.array(values, ARROW[kinds.pop()])


def _is_exact(value: object) -> bool:
    """Check whether float64 represents this number exactly."""
    return not isinstance(value, int) or abs(value) <= 2**53


def as_texts(values: Iterable[object]) -> list[str | None]:
    """Convert values of several types to strings; numbers and booleans as in JSON.

    >>> as_texts([True, 2, "two", None])
    ['true', '2', 'two', None]
    """
    return [value if isinstance(value, str) or value is None else json.dumps(value) for value in values]


# ---------------------------------------------------------------- reading


def read_part(path: Path, needed: Mapping[str, type], only: Sequence[str] | None = None) -> pa.Table:
    """Read a part, or only some of its columns.

    Integer, float and string columns of any width are accepted, so parts may be rewritten by other tools.

    Arguments:
        path: The file.
        needed: Columns that must exist, with these types and without nulls.
        only: Names of the columns to read; None reads all.

    Raises:
        InputError: If the file is not a valid part.
    """
    require_file(path)
    try:
        _require_unaltered(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _require_columns(path, file.schema_arrow, needed)
            names = None if only is None else [name for name in only if name in file.schema_arrow.names]
            table = file.read(columns=names)
        table = _plain(path, table if names is None else table.select(names))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: not a readable Parquet file: {reason[:MOST_LETTERS]}") from None
    for name in needed:
        if name in table.schema.names and table[name].null_count:
            raise InputError(f"{path}: not a part of a store: {name} is missing in some rows")
    return table


def _require_unaltered(path: Path) -> None:
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    sealed = SEALED.fullmatch(path.stem)
    if sealed:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if not found.startswith(sealed[2]):
            raise InputError(f"{path}: truncated or modified: the checksum in its name does not match its contents")


def _require_columns(path: Path, schema: pa.Schema, needed: Mapping[str, type]) -> None:
    missing = [name for name in needed if name not in schema.names]
    if missing:
        raise InputError(f"{path}: not a part of a store: it has no column {', '.join(missing)}")
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{path}: not a part of a store: two columns have the same name")
    for name, kind in needed.items():
        if _plain_type(schema.field(name).type) != ARROW[kind]:
            raise InputError(f"{path}: not a part of a store: {name} is of the type {schema.field(name).type}")


def _plain(path: Path, table: pa.Table) -> pa.Table:
    """Convert the table to the four types of a store; omit columns of nulls."""
    columns = {}
    for field in table.schema:
        kind = _plain_type(field.type)
        if kind is None:
            raise InputError(f"{path}: not a part of a store: {field.name[:60]} is of the type {field.type}")
        if kind != pa.null():
            columns[field.name] = table[field.name] if field.type == kind else pc.cast(table[field.name], kind)
    return pa.table(columns)


def _plain_type(kind: Any) -> Any:
    """Map an Arrow type to the type that a store uses; None if it is not supported."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind if pa.types.is_boolean(kind) or pa.types.is_null(kind) else None
