"""Files: read and write databases in the usual formats, chosen by the suffix of the file name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Protocol, runtime_checkable

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

AnyPath = str | os.PathLike[str]
SPELLED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@runtime_checkable
class Format(Protocol):
    """A way to lay facts down in a file."""

    @property
    def place(self) -> str:
        """What its errors count: "line" or "row"."""

    def column_names(self, source: SourceFile, form: TableForm) -> list[str]:
        """The names of the columns."""

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """The facts of a file, multi-valued where they are."""

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Each fact with its line or row, in the order of the file."""

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write the facts."""


TEXT_FORMATS: dict[str, Format] = {
    ".csv": Delimited(Dialect(",")),
    ".tsv": Delimited(Dialect("\t")),
    ".tab": Delimited(Dialect("\t")),
    ".txt": Delimited(Dialect("\t")),
    ".jsonl": JsonLines(),
    ".ndjson": JsonLines(),
    ".nt": Rdf("N-Triples"),
    ".ttl": Rdf("Turtle"),
}
FORMATS: dict[str, Format] = {
    **TEXT_FORMATS,
    **{f"{suffix}.gz": text_format for suffix, text_format in TEXT_FORMATS.items()},
    ".parquet": Parquet(),
    ".pq": Parquet(),
}
"""The format of each suffix. A new format is one entry."""


@dataclass(frozen=True)
class FileLayout:
    """What a file does not say about itself: how its bytes become text, its text cells, and its cells facts."""

    long: Sequence[str | int] | None = None
    wide: bool = False
    header: bool | None = None
    missing: Sequence[str] = ()
    delimiter: str | None = None
    quotes: bool = True
    encoding: str | None = None
    suffix: str | None = None


def read(  # noqa: PLR0913 - one argument for each thing that a file may leave open
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
    r"""Read the facts of a CSV, TSV, JSON Lines, N-Triples, Turtle or Parquet file; text files also gzipped.

    In the long form each row is a fact. Its three columns are those of `long` (names or 1-based positions), else
    columns named (key, query, value), (subject, predicate, object), (head, relation, tail) and the like, else the only
    three. In the `wide` form the first column holds the keys, every other column is a query, and an empty cell says
    nothing. If neither the header nor an argument says how to read the table, an `InputWarning` reports the choice.

    Every cell is text, just as it is written: `01`, `NA` and ` x` stay so. Repeated facts are dropped and counted; two
    values for one (key, query) raise a `ConflictError` unless `multi`. Whatever is wrong with the file raises an
    `InputError` that names it, the line and the reason.

    Arguments:
        path: A file, "-" for standard input, or several files whose facts are taken together.
        long: The columns of key, query and value, by name or by position from 1.
        wide: One key per row, one query per column.
        multi: Allow several values for one (key, query).
        header: Whether the first line of a CSV or TSV file names the columns; if not given, it does unless it looks
            like a fact, which is an error.
        missing: Texts that stand for an empty cell, such as "NA". If there are any, a long row with an empty value
            holds no fact; otherwise it is an error.
        delimiter: What separates the fields of delimited text; by the suffix if not given.
        quotes: Whether a quote at the start of a field encloses it; if not, it is a letter like any other.
        encoding: Of text files, by its name in Python; UTF-8 if not given, or UTF-16 or UTF-32 by the byte order mark.
        suffix: Read the file as if its name ended so; standard input is ".csv" if not given.

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
        raise InputError("there is no file to read")
    require_one_standard_input(paths)
    with ExitStack() as files:
        tables = [files.enter_context(_opened(one, layout)) for one in paths]
        for table in tables:
            table.warn_of_guesses()
        database = _united([table.file_format.read(table.source, table.form) for table in tables])
        if multi:
            return database
        title = ", ".join(str(table.source) for table in tables)
        return require_functional(database, title, lambda: _named_facts(tables))


def read_changes(path: AnyPath, layout: FileLayout | None = None) -> Iterator[tuple[str, str, str, str | None]]:
    r"""The rows of a long table as changes: where it stands, key, query, and the value or, where it is empty, None.

    Only CSV and TSV files may have empty values; the other formats have none to delete with.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "changes.csv")
    ...     _ = path.write_text("key,query,value\nAstrid,born_in,Oslo\nColin,born_in,\n")
    ...     [(where.rpartition(", ")[2], value) for where, _, _, value in read_changes(path)]
    [('line 2', 'Oslo'), ('line 3', None)]
    """
    with _opened(path, layout or FileLayout()) as table:
        table.warn_of_guesses(only_long=True)
        file_format, source, form = table.file_format, table.source, table.form
        if isinstance(file_format, Delimited):
            placed = file_format.placed(source, form, open_values=True)
        else:
            placed = file_format.placed(source, form)
        for place, (key, query, value) in placed:
            yield f"{source}, {file_format.place} {place}", key, query, value or None


def write(database: Database, path: str | os.PathLike[str], *, wide: bool = False) -> None:
    """Write the facts in the format of the file's suffix, replacing the file in one step.

    Reading the file gives an equal database, up to names without a fact: files hold facts. The `wide` form has one row
    per key and one column per query, for functional databases.

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
    file_format = _format_of(path.name, str(path), FileLayout())
    with replacing(path) as stream:
        file_format.write(database, stream, wide=wide)


@dataclass(frozen=True)
class _Table:
    """A file, its format, and how facts lie in it."""

    source: SourceFile
    file_format: Format
    form: TableForm

    def warn_of_guesses(self, *, only_long: bool = False) -> None:
        """Report what was chosen because neither the file nor the user says it."""
        names = self.file_format.column_names(self.source, self.form)
        delimited = isinstance(self.file_format, Delimited)
        for guess in guesses(names, self.form, str(self.source), delimited=delimited, only_long=only_long):
            warnings.warn(InputWarning(guess), stacklevel=3)


@contextmanager
def _opened(path: AnyPath, layout: FileLayout) -> Iterator[_Table]:
    """A file with some bytes in it, after the arguments are checked."""
    form = TableForm(layout.long, layout.wide, layout.header, tuple(layout.missing))
    with source_file(path, layout.encoding) as source:
        name = layout.suffix or (".csv" if path == STANDARD_INPUT else source.path.name)
        file_format = _format_of(name, str(source), layout)
        if _is_empty(source, file_format):
            raise InputError(f"{source}: the file is empty")
        yield _Table(source, file_format, form)


def _is_empty(source: SourceFile, file_format: Format) -> bool:
    if isinstance(file_format, Parquet):
        return source.path.stat().st_size == 0
    with reading(source) as stream:
        return not stream.read(1)


def _format_of(name: str, source: str, layout: FileLayout) -> Format:
    """The format for a file name, with what is said about text and about delimited text."""
    known = (kind for suffix, kind in FORMATS.items() if name.lower().endswith(suffix))
    found = next(known, None if layout.delimiter is None else Delimited(Dialect(",")))
    if found is None:
        raise InputError(f"{source}: unknown kind of file; the known suffixes are {' '.join(FORMATS)}")
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


def _united(databases: Sequence[Database]) -> Database:
    """The facts of all, with the repetitions within and between them counted."""
    united = databases[0]
    for database in databases[1:]:
        n_facts = sum(len(each) + each.duplicates for each in (united, database))
        joined = united.union(database, multi=True)
        united = Database(joined.triples, *joined.vocabularies, duplicates=n_facts - len(joined))
    return united


def _named_facts(tables: Sequence[_Table]) -> Iterator[tuple[str, Fact]]:
    """Each fact after its place, which names the file if there are several."""
    for table in tables:
        file = f"{table.source}, " if len(tables) > 1 else ""
        for place, fact in table.file_format.placed(table.source, table.form):
            yield f"{file}{table.file_format.place} {place}", fact
