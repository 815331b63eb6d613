"""Parquet: columnar files, read and written by Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from factrank.databases.columns import Form, long_columns
from factrank.databases.conflicts import PlacedFact
from factrank.databases.database import Database
from factrank.databases.rows import require_no_name
from factrank.databases.streams import reading
from factrank.databases.tables import CodedFacts, coded_facts, coded_table
from factrank.errors import InputError


@dataclass(frozen=True)
class Parquet:
    """A Parquet file of flat columns of any type; only the columns that hold facts are read."""

    place: ClassVar[str] = "row"

    def read(self, path: Path, form: Form) -> Database:
        """The facts of a file; errors name its rows and columns."""
        return _facts(path, form).database()

    def placed(self, path: Path, form: Form) -> Iterator[PlacedFact]:
        """Each fact with its row."""
        return _facts(path, form).placed()

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write columns of strings, with checksums."""
        require_no_name(database, "", "an empty text is no fact")
        table = coded_table(database, wide=wide)
        pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)


def _facts(path: Path, form: Form) -> CodedFacts:
    with reading(path) as stream:
        try:
            names = pq.read_schema(stream).names
            wanted = names if form.wide else [names[i] for i in long_columns(names, form, str(path)).indices]
            table = pq.read_table(
                stream, columns=wanted, read_dictionary=wanted, page_checksum_verification=True, partitioning=None
            )
        except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
            raise InputError(f"{path}: not a readable Parquet file: {error}") from None
    return coded_facts(table, form if form.wide else Form(long=(1, 2, 3)), str(path))
