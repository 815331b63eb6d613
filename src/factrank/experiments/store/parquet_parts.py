"""Parts: Parquet files that are written once, in one step, and never changed.

A part is made complete in the folder of drafts, forced to the disk and then renamed to its place, so that a reader sees
all of it or nothing. Its name is the time, a random number, so that two writers never meet, and a checksum of its
bytes. Cells are int64, float64, bool or text.
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
"""The names of parts: what a part shares with its curves and readings, and a checksum (SHA-256) of its bytes."""
ARROW: dict[type, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
KNOWN: dict[str, Any] = {name: ARROW[kind] for name, kind in RUN_COLUMNS.items()} | {
    "training.batch_size": pa.int64(),
    "measures.planted_cp": pa.float64(),
}
"""The types of columns that may hold nothing but nulls in a part."""
MOST_LETTERS = 300
"""An error of Arrow may quote much of a damaged file."""

Drafts = list[tuple[Path, Path]]
"""Files that are complete on the disk, and the places that they will have."""


# ---------------------------------------------------------------- writing


def new_name() -> str:
    """A name that no other part has; names sort by time.

    >>> new_name() < new_name()
    True
    """
    seconds, nanoseconds = divmod(time_ns(), 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{nanoseconds:09d}Z-{secrets.token_hex(8)}"


def sealed_name(name: str, content: bytes) -> str:
    """The name of the file: it tells whether the bytes were altered, which Parquet does not check for all of them."""
    return f"{name}-{hashlib.sha256(content).hexdigest()[:16]}{SUFFIX}"


def shared_name(file_name: str) -> str:
    """What parts of trials, curves and readings that were written together have in common."""
    stem = file_name.removesuffix(SUFFIX)
    sealed = SEALED.fullmatch(stem)
    return sealed[1] if sealed else stem


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table; columns in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _array(name, [row.get(name) for row in rows]) for name in names}
    return pa.table({name: column for name, column in columns.items() if column is not None})


def packed(table: pa.Table) -> bytes:
    """The bytes of a Parquet file, with checksums."""
    stream = BytesIO()
    pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)
    return stream.getvalue()


@contextmanager
def publishing(folder: Path) -> Iterator[Drafts]:
    """Drafts that are renamed to their places at the end, in their order; none of them if an error comes first."""
    drafts: Drafts = []
    try:
        yield drafts
        for draft, place in drafts:
            os.rename(draft, place)
        for parent in {place.parent for _, place in drafts}:
            _to_disk(parent)
    except (OSError, ValueError) as error:
        place, reason = getattr(error, "filename", None) or folder, getattr(error, "strerror", None) or error
        raise InputError(f"{place}: cannot be written: {reason}; nothing that is stored was touched") from None
    finally:
        for draft, _ in drafts:
            with suppress(OSError):  # renamed, or on a disk that is gone
                draft.unlink()


def write_draft(drafts: Drafts, draft: Path, place: Path, content: bytes) -> None:
    """Write a draft and force it to the disk."""
    drafts.append((draft, place))
    with draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _to_disk(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _array(name: str, values: list[object]) -> pa.Array | None:
    """A column of one type; None where it holds only nulls and its type is not known."""
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
    """Whether a float64 holds this number."""
    return not isinstance(value, int) or abs(value) <= 2**53


def as_texts(values: Iterable[object]) -> list[str | None]:
    """Values of several types as text: numbers and truth values as in JSON."""
    return [value if isinstance(value, str) or value is None else json.dumps(value) for value in values]


# ---------------------------------------------------------------- reading


def read_part(path: Path, needed: Mapping[str, type], only: Sequence[str] | None = None) -> pa.Table:
    """The table of a part, `only` its columns of these names, with an `InputError` for whatever else the file is.

    Columns of whole numbers, real numbers and text of any width are taken, so that parts may be rewritten by other
    tools; the `needed` ones must be there, of their type and without nulls.
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
            raise InputError(f"{path}: truncated or altered: the checksum in its name does not fit its bytes")


def _require_columns(path: Path, schema: pa.Schema, needed: Mapping[str, type]) -> None:
    missing = [name for name in needed if name not in schema.names]
    if missing:
        raise InputError(f"{path}: not a part of a store: it has no column {', '.join(missing)}")
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{path}: not a part of a store: two columns have one name")
    for name, kind in needed.items():
        if _plain_type(schema.field(name).type) != ARROW[kind]:
            raise InputError(f"{path}: not a part of a store: {name} is of the type {schema.field(name).type}")


def _plain(path: Path, table: pa.Table) -> pa.Table:
    """The table in the four types of a store; columns of nulls are left out."""
    columns = {}
    for field in table.schema:
        kind = _plain_type(field.type)
        if kind is None:
            raise InputError(f"{path}: not a part of a store: {field.name[:60]} is of the type {field.type}")
        if kind != pa.null():
            columns[field.name] = table[field.name] if field.type == kind else pc.cast(table[field.name], kind)
    return pa.table(columns)


def _plain_type(kind: Any) -> Any:
    """Which of the four types stands for a type of Arrow; None where none does."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind if pa.types.is_boolean(kind) or pa.types.is_null(kind) else None
