"""Parquet files, read and written by Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from factrank.databases.columns import TableForm, long_columns
from factrank.databases.conflicts import PlacedFact
from factrank.databases.database import Database
from factrank.databases.files.rows import require_no_name
from factrank.databases.source_files import SourceFile
from factrank.databases.tables import CodedFacts, coded_facts, coded_table
from factrank.errors import InputError


@dataclass(frozen=True)
class Parquet:
    """Flat columns of any type; only the columns with facts are read."""

    place: ClassVar[str] = "row"

    def column_names(self, source: SourceFile, _form: TableForm) -> list[str]:
        """Return the column names of the schema."""
        with _opened(source) as file:
            return _column_names(file)

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """Read the facts of a file; errors name the row and column."""
        return _facts(source, form).database()

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Yield each fact with its row."""
        return _facts(source, form).placed()

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write columns of strings, with checksums."""
        require_no_name(database, "", "an empty string is a missing entry")
        table = coded_table(database, wide=wide)
        pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)


def _facts(source: SourceFile, form: TableForm) -> CodedFacts:
    with _opened(source) as file:
        names = _column_names(file)
        wanted = names if form.wide else [names[i] for i in long_columns(names, form, str(source)).indices]
        table = pq.read_table(
            file, columns=wanted, read_dictionary=wanted, page_checksum_verification=True, partitioning=None
        )
    return coded_facts(table, form if form.wide else TableForm(long=(1, 2, 3), missing=form.missing), str(source))


def _column_names(file: pa.NativeFile) -> list[str]:
    names: list[str] = pq.read_schema(file).names
    return names


@contextmanager
def _opened(source: SourceFile) -> Iterator[pa.NativeFile]:
    """Open a native Arrow file, because its read-ahead threads must not need Python when the interpreter exits."""
    try:
        with pa.OSFile(str(source.path)) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise InputError(f"{source}: not a readable Parquet file: {error}") from None
