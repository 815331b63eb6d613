"""Files: read and write databases in the usual formats, chosen by the suffix of the file name.

Other packages add formats in the entry-point group `factrank.formats`, each under its suffix.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from factrank.databases.columns import TableForm, guesses
from factrank.databases.conflicts import PlacedFact, require_functional
from factrank.databases.database import Database, Fact
from factrank.databases.files.delimited import Delimited
from factrank.databases.files.jsonlines import JsonLines
from factrank.databases.files.parquet import Parquet
from factrank.databases.files.rdf import Rdf
from factrank.databases.files.records import Dialect
from factrank.databases.source_files import STANDARD_INPUT, SourceFile, reading, require_one_standard_input, source_file
from factrank.errors import InputError, InputWarning
from factrank.host import replacing
from factrank.plugins import Registry

AnyPath = str | os.PathLike[str]
SPELLED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@runtime_checkable
class Format(Protocol):
    """A file format for facts."""

    @property
    def place(self) -> str:
        """Unit of locations in error messages: "line" or "row"."""

    def column_names(self, source: SourceFile, form: TableForm) -> list[str]:
        """Return the column names."""

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """Read the facts of a file; the database may be multi-valued."""

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Yield each fact with its line or row, in file order."""

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write the facts."""


def register_format(suffix: str, file_format: Format) -> Format:
    """Read and write files whose names end in `suffix` in this format from now on; returns the format."""
    return FORMATS.register(suffix, file_format)


def registered_format(suffix: str, file_format: Format) -> AbstractContextManager[Format]:
    """Register a format for the duration of a `with` block."""
    return FORMATS.registered(suffix, file_format)


def _built_in() -> Mapping[str, Format]:
    text_formats: dict[str, Format] = {
        ".csv": Delimited(Dialect(",")),
        ".tsv": Delimited(Dialect("\t")),
        ".tab": Delimited(Dialect("\t")),
        ".txt": Delimited(Dialect("\t")),
        ".jsonl": JsonLines(),
        ".ndjson": JsonLines(),
        ".nt": Rdf("N-Triples"),
        ".nq": Rdf("N-Quads"),
        ".ttl": Rdf("Turtle"),
    }
    zipped = {f"{suffix}.gz": text_format for suffix, text_format in text_formats.items()}
    return {**text_formats, **zipped, ".parquet": Parquet(), ".pq": Parquet()}


def _checked(suffix: str, file_format: Any) -> tuple[str, Format]:
    if isinstance(file_format, type) or not isinstance(file_format, Format):
        got = f"the class {file_format.__name__}" if isinstance(file_format, type) else type(file_format).__name__
        raise InputError(f"expected a format with place, column_names, read, placed and write; got {got}")
    if not re.fullmatch(r"(\.[a-z0-9_-]+)+", suffix):
        raise InputError(f"a suffix is a dot and lower-case letters or digits, such as .psv; got {suffix!r}")
    return suffix, file_format


FORMATS: Registry[Format] = Registry("file format", "factrank.formats", _built_in, _checked)
"""The format of each suffix."""


@dataclass(frozen=True)
class FileLayout:
    """How to decode a file, split it into cells and read cells as facts; see `read` for the fields."""

    long: Sequence[str | int] | None = None
    wide: bool = False
    header: bool | None = None
    missing: Sequence[str] = ()
    delimiter: str | None = None
    quotes: bool = True
    encoding: str | None = None
    suffix: str | None = None


def read(  # noqa: PLR0913 - one argument for each ambiguity of a file
    path: AnyPath | Sequence[AnyPath],
    *,
    long: Sequence[str | int] | None = None,
    wide: bool = False,
    multi: bool = False,
    header: bool | None = None,
    missing: Sequence[str] = (),
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str | None = None,
    suffix: str | None = None,
) -> Database:
    r"""Read a CSV, TSV, JSON Lines, N-Triples, N-Quads, Turtle or Parquet file; text files may be gzipped.

    Cells are kept exactly as written: `01`, `NA` and ` x` are not converted. Repeated facts are dropped and counted. If
    the layout of the table is ambiguous, an `InputWarning` reports the assumption.

    Arguments:
        path: A file, "-" for standard input, or several files to combine.
        long: The key, query and value columns, as names or 1-based positions. If not given, columns with recognised
            names such as (key, query, value), (subject, predicate, object) or (head, relation, tail), else the only
            three columns.
        wide: The first column contains the keys, every other column is a query, and an empty cell is a missing entry.
        multi: Allow several values for one (key, query).
        header: Whether the first line of a CSV or TSV file is a header. If not given, it is assumed to be one, and a
            line that looks like a fact is an error.
        missing: Texts that mark an empty cell, such as "NA". If any are given, a long row with an empty value is
            skipped; otherwise it is an error.
        delimiter: Field delimiter of delimited text; by default given by the suffix.
        quotes: Whether fields may be enclosed in quotes. If false, a quote is an ordinary character.
        encoding: Python name of the text encoding; by default UTF-8, or UTF-16 or UTF-32 if the file has a byte order
            mark.
        suffix: Read the file as if it had this suffix. The default for standard input is ".csv", or the suffix of the
            other files if they all have the same format.

    Raises:
        InputError: If the file cannot be read; the message names the file, the line and the reason.
        ConflictError: If a (key, query) has two values and `multi` is false.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "births.csv")
    ...     _ = path.write_text("head,relation,tail\nAstrid,born_in,Singapore\nColin,born_in,Malaysia\n")
    ...     read(path)
    Database(2 facts: 2 keys x 1 queries -> 2 values, functional, full)
      (Astrid, born_in, Singapore)
      (Colin, born_in, Malaysia)
    """
    layout = FileLayout(long, wide, header, missing, delimiter, quotes, encoding, suffix)
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise InputError("no file to read")
    with ExitStack() as files:
        tables = opened_tables(paths, layout, files)
        database = united([table.read() for table in tables])
        if multi:
            return database
        title = ", ".join(str(table.source) for table in tables)
        return require_functional(database, title, lambda: named_facts(tables))


def read_changes(path: AnyPath, layout: FileLayout | None = None) -> Iterator[tuple[str, str, str, str | None]]:
    r"""Yield the rows of a long table as changes: location, key, query, and value (None to delete the fact).

    Only CSV and TSV files can have the empty values that mark a deletion.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "changes.csv")
    ...     _ = path.write_text("key,query,value\nAstrid,born_in,Oslo\nColin,born_in,\n")
    ...     [(where.rpartition(", ")[2], value) for where, _, _, value in read_changes(path)]
    [('line 2', 'Oslo'), ('line 3', None)]
    """
    with opened(path, layout or FileLayout()) as table:
        table.warn_of_guesses(only_long=True)
        file_format, source, form = table.file_format, table.source, table.form
        if isinstance(file_format, Delimited):
            placed = file_format.placed(source, form, open_values=True)
        else:
            placed = file_format.placed(source, form)
        for place, (key, query, value) in placed:
            yield f"{source}, {file_format.place} {place}", key, query, value or None


def write(database: Database, path: str | os.PathLike[str], *, wide: bool = False) -> None:
    """Write a database in the format of the file's suffix, replacing the file atomically.

    Reading the file back returns an equal database, except that names without a fact are dropped.

    Arguments:
        database: The database.
        path: File to write.
        wide: Write one row per key and one column per query; requires a functional database.

    >>> import pathlib, tempfile
    >>> db = Database.from_facts([("Astrid", "born", 1990), ("Astrid", "city", "Oslo"), ("Colin", "city", "Lima")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     write(db, path, wide=True)
    ...     print(path.read_text())
    key,born,city
    Astrid,1990,Oslo
    Colin,,Lima
    """
    path = Path(path)
    file_format = format_of(path.name, str(path), FileLayout())
    with replacing(path) as stream:
        file_format.write(database, stream, wide=wide)


@dataclass(frozen=True)
class OpenedTable:
    """An open file, its format and its layout."""

    source: SourceFile
    file_format: Format
    form: TableForm

    def read(self) -> Database:
        """Read the facts of the file; the database may be multi-valued."""
        return self.file_format.read(self.source, self.form)

    def warn_of_guesses(self, *, only_long: bool = False) -> None:
        """Warn about every assumption made for an ambiguous table."""
        names = self.file_format.column_names(self.source, self.form)
        delimited = isinstance(self.file_format, Delimited)
        for guess in guesses(names, self.form, str(self.source), delimited=delimited, only_long=only_long):
            warnings.warn(InputWarning(guess), stacklevel=3)


def opened_tables(paths: Sequence[AnyPath], layout: FileLayout, files: ExitStack) -> list[OpenedTable]:
    """Open several files until the stack is closed, and warn about assumptions; one may be standard input."""
    require_one_standard_input(paths)
    beside = replace(layout, suffix=layout.suffix or _common_suffix([one for one in paths if one != STANDARD_INPUT]))
    tables = [files.enter_context(opened(one, beside if one == STANDARD_INPUT else layout)) for one in paths]
    for table in tables:
        table.warn_of_guesses()
    return tables


def _common_suffix(paths: Sequence[AnyPath]) -> str | None:
    """Return a suffix of files that all have the same format; None if there are none, or several formats."""
    suffixes = [next((each for each in FORMATS if str(path).lower().endswith(each)), None) for path in paths]
    formats = [None if suffix is None else FORMATS[suffix] for suffix in suffixes]
    return suffixes[0] if formats and all(each == formats[0] for each in formats) else None


@contextmanager
def opened(path: AnyPath, layout: FileLayout) -> Iterator[OpenedTable]:
    """Check the arguments and open a file, which must not be empty."""
    form = TableForm(layout.long, layout.wide, layout.header, tuple(layout.missing))
    with source_file(path, layout.encoding) as source:
        name = layout.suffix or (".csv" if path == STANDARD_INPUT else source.path.name)
        file_format = format_of(name, str(source), layout)
        if _is_empty(source, file_format):
            raise InputError(f"{source}: the file is empty")
        yield OpenedTable(source, file_format, form)


def _is_empty(source: SourceFile, file_format: Format) -> bool:
    if isinstance(file_format, Parquet):
        return source.path.stat().st_size == 0
    with reading(source) as stream:
        return not stream.read(1)


def format_of(name: str, source: str, layout: FileLayout) -> Format:
    """Return the format for a file name, with the delimiter and quotes of the layout."""
    known = (kind for suffix, kind in FORMATS.items() if name.lower().endswith(suffix))
    found = next(known, None if layout.delimiter is None else Delimited(Dialect(",")))
    if found is None:
        raise InputError(f"{source}: unknown file format; the known suffixes are {' '.join(FORMATS)}")
    if isinstance(found, Delimited):
        delimiter = found.dialect.delimiter if layout.delimiter is None else layout.delimiter
        return Delimited(Dialect(SPELLED_DELIMITERS.get(delimiter, delimiter), layout.quotes))
    if layout.header is not None:
        raise InputError(f"{source}: only CSV and TSV files have a header (header=, --header, --no-header)")
    if layout.delimiter is not None or not layout.quotes:
        raise InputError(f"{source}: only CSV and TSV files have a delimiter and quotes (--delimiter, --no-quotes)")
    if layout.encoding is not None and isinstance(found, Parquet):
        raise InputError(f"{source}: only text files have an encoding (--encoding)")
    return found


def united(databases: Sequence[Database]) -> Database:
    """Combine databases, counting duplicates within and between them."""
    united = databases[0]
    for database in databases[1:]:
        n_facts = sum(len(each) + each.duplicates for each in (united, database))
        joined = united.union(database, multi=True)
        united = Database(joined.triples, *joined.vocabularies, duplicates=n_facts - len(joined))
    return united


def named_facts(tables: Sequence[OpenedTable]) -> Iterator[tuple[str, Fact]]:
    """Yield each fact with its location, which includes the file if there are several."""
    for table in tables:
        file = f"{table.source}, " if len(tables) > 1 else ""
        for place, fact in table.file_format.placed(table.source, table.form):
            yield f"{file}{table.file_format.place} {place}", fact
