"""Delimited text: CSV and TSV, quoted as in RFC 4180."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from factrank.databases.blocks import read_blocks
from factrank.databases.cells import TEXT
from factrank.databases.columns import Form, long_columns
from factrank.databases.conflicts import PlacedFact
from factrank.databases.database import Database
from factrank.databases.records import column_names, placed_facts
from factrank.databases.rows import Piece, require_no_name, spelled_table, write_rows
from factrank.databases.tables import CodedFacts, coded_facts
from factrank.errors import InputError


@dataclass(frozen=True)
class Delimited:
    """Records of fields with a delimiter between them; a field with a delimiter, quote or line end is quoted.

    A file is read at once. When anything is wrong, it is read again record by record, to say where.
    """

    delimiter: str
    place: ClassVar[str] = "line"

    def read(self, path: Path, form: Form) -> Database:
        """The facts of a file; errors name its lines."""
        names = column_names(path, self.delimiter, form)
        try:
            facts = self._wide(path, names) if form.wide else self._long(path, names, form)
        except (InputError, pa.ArrowException) as error:
            for _ in self.placed(path, form):
                pass
            raise InputError(str(error) if isinstance(error, InputError) else f"{path}: {error}") from None
        return facts.database()

    def placed(self, path: Path, form: Form) -> Iterator[PlacedFact]:
        """Each fact with its line."""
        return placed_facts(path, self.delimiter, form)

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write a header, then one line per fact (long) or per key (wide)."""
        require_no_name(database, "", "in delimited text an empty field is no fact")
        require_no_name(database, "\0", "delimited text has no NUL character")
        table = spelled_table(database, [self._quoted] * 3, wide=wide)
        stream.write((self.delimiter.join(map(self._quoted, table.column_names)) + "\n").encode())
        write_rows(stream, table, self._line)

    def _long(self, path: Path, names: list[str], form: Form) -> CodedFacts:
        chosen = long_columns(names, form, str(path))
        table = read_blocks(path, self.delimiter, len(names), chosen.indices).slice(int(form.header))
        facts = coded_facts(table, Form(long=(1, 2, 3)), str(path))
        query = pa.scalar(names[chosen.indices[1]], TEXT)
        if form.header and not chosen.named and pc.index(facts.names[1], query).as_py() >= 0:
            raise InputError(f"{path}: the first line looks like a fact")
        return facts

    def _wide(self, path: Path, names: list[str]) -> CodedFacts:
        table = read_blocks(path, self.delimiter, len(names), range(len(names))).slice(1)
        return coded_facts(table.rename_columns(names), Form(wide=True), str(path))

    def _line(self, cells: list[pa.Array]) -> list[Piece]:
        return [*chain.from_iterable((cell, self.delimiter) for cell in cells[:-1]), cells[-1], "\n"]

    def _quoted(self, name: str) -> str:
        special = any(mark in name for mark in (self.delimiter, '"', "\n", "\r"))
        return '"' + name.replace('"', '""') + '"' if special else name
