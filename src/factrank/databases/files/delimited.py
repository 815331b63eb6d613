"""Delimited text: CSV and TSV, quoted as in RFC 4180."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from factrank.databases.cells import TEXT
from factrank.databases.columns import TableForm, long_columns
from factrank.databases.conflicts import PlacedFact
from factrank.databases.database import Database
from factrank.databases.files.records import Dialect, column_names, placed_facts
from factrank.databases.files.rows import Piece, require_no_name, spelled_table, write_rows
from factrank.databases.files.text_blocks import read_blocks
from factrank.databases.source_files import SourceFile
from factrank.databases.tables import CodedFacts, coded_facts
from factrank.errors import InputError


@dataclass(frozen=True)
class Delimited:
    """Delimiter-separated records; fields that contain a delimiter, quote or line end are quoted.

    Arrow parses the whole file. If that fails, the file is read again record by record to locate the error.
    """

    dialect: Dialect
    place: ClassVar[str] = "line"

    def column_names(self, source: SourceFile, form: TableForm) -> list[str]:
        """Return the header, or 1-based positions if there is no header."""
        return column_names(source, self.dialect, form)

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """Read the facts of a file; errors name the line."""
        names = self.column_names(source, form)
        try:
            facts = self._wide(source, names, form) if form.wide else self._long(source, names, form)
        except (InputError, pa.ArrowException) as error:
            for _ in self.placed(source, form):
                pass
            raise InputError(str(error) if isinstance(error, InputError) else f"{source}: {error}") from None
        return facts.database()

    def placed(self, source: SourceFile, form: TableForm, *, open_values: bool = False) -> Iterator[PlacedFact]:
        """Yield each fact with its line, including facts with an empty value if `open_values`."""
        return placed_facts(source, self.dialect, form, open_values=open_values)

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write a header, then one line per fact (long) or per key (wide)."""
        require_no_name(database, "", "in delimited text an empty field is a missing entry")
        require_no_name(database, "\0", "delimited text has no NUL character")
        table = spelled_table(database, [self._quoted] * 3, wide=wide)
        stream.write((self.dialect.delimiter.join(map(self._quoted, table.column_names)) + "\n").encode())
        write_rows(stream, table, self._line)

    def _long(self, source: SourceFile, names: list[str], form: TableForm) -> CodedFacts:
        chosen = long_columns(names, form, str(source))
        table = read_blocks(source, self.dialect, len(names), chosen.indices).slice(int(form.headed))
        facts = coded_facts(table, TableForm(long=(1, 2, 3), missing=form.missing), str(source))
        if form.header is None and not chosen.named:
            for below, index in zip(facts.names, chosen.indices, strict=True):
                if pc.index(below, pa.scalar(names[index], TEXT)).as_py() >= 0:
                    raise InputError(f"{source}: the first line looks like a fact")
        return facts

    def _wide(self, source: SourceFile, names: list[str], form: TableForm) -> CodedFacts:
        table = read_blocks(source, self.dialect, len(names), range(len(names))).slice(1)
        return coded_facts(table.rename_columns(names), form, str(source))

    def _line(self, cells: list[pa.Array]) -> list[Piece]:
        return [*chain.from_iterable((cell, self.dialect.delimiter) for cell in cells[:-1]), cells[-1], "\n"]

    def _quoted(self, name: str) -> str:
        special = any(mark in name for mark in (self.dialect.delimiter, '"', "\n", "\r"))
        return '"' + name.replace('"', '""') + '"' if special else name
