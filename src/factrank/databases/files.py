"""Files: read and write databases in the usual formats, chosen by the suffix of the file name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Protocol, runtime_checkable

from factrank.databases.columns import Form
from factrank.databases.conflicts import PlacedFact, require_functional
from factrank.databases.database import Database
from factrank.databases.delimited import Delimited
from factrank.databases.jsonlines import JsonLines
from factrank.databases.ntriples import NTriples
from factrank.databases.parquet import Parquet
from factrank.databases.records import placed_facts
from factrank.databases.streams import reading, replacing, require_file
from factrank.errors import InputError


@runtime_checkable
class Format(Protocol):
    """A way to lay facts down in a file."""

    @property
    def place(self) -> str:
        """What its errors count: "line" or "row"."""

    def read(self, path: Path, form: Form) -> Database:
        """The facts of a file, multi-valued where they are."""

    def placed(self, path: Path, form: Form) -> Iterator[PlacedFact]:
        """Each fact with its line or row, in the order of the file."""

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write the facts."""


TEXT_FORMATS: dict[str, Format] = {
    ".csv": Delimited(","),
    ".tsv": Delimited("\t"),
    ".tab": Delimited("\t"),
    ".txt": Delimited("\t"),
    ".jsonl": JsonLines(),
    ".ndjson": JsonLines(),
    ".nt": NTriples(),
}
FORMATS: dict[str, Format] = {
    **TEXT_FORMATS,
    **{f"{suffix}.gz": text_format for suffix, text_format in TEXT_FORMATS.items()},
    ".parquet": Parquet(),
    ".pq": Parquet(),
}
"""The format of each suffix. A new format is one entry."""


def read(
    path: str | os.PathLike[str],
    *,
    long: Sequence[str | int] | None = None,
    wide: bool = False,
    multi: bool = False,
    header: bool = True,
) -> Database:
    r"""Read the facts of a CSV, TSV, JSON Lines, N-Triples or Parquet file; text files also gzipped.

    In the long form each row is a fact. Its three columns are those of `long` (names or 1-based positions), else
    columns named (key, query, value), (subject, predicate, object), (head, relation, tail) and the like, else the only
    three. In the `wide` form the first column holds the keys, every other column is a query, and an empty cell says
    nothing. With `header=False` the first line of a CSV or TSV file is already a fact.

    Every cell is text, just as it is written: `01`, `NA` and ` x` stay so. Repeated facts are dropped and counted; two
    values for one (key, query) raise a `ConflictError` unless `multi`. Whatever is wrong with the file raises an
    `InputError` that names it, the line and the reason.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "births.csv")
    ...     _ = path.write_text("head,relation,tail\nAstrid,born_in,Singapore\nColin,born_in,Malaysia\n")
    ...     read(path)
    Database(2 facts: 2 keys x 1 queries -> 2 values, functional, full)
      (Astrid, born_in, Singapore)
      (Colin, born_in, Malaysia)
    """
    path = Path(path)
    require_file(path)
    file_format = _format_of(path)
    if not (header or isinstance(file_format, Delimited)):
        raise InputError(f"{path}: only CSV and TSV files have a header to do without (header=False, --no-header)")
    form = Form(long, wide, header)
    _require_some_bytes(path)
    database = file_format.read(path, form)
    if multi:
        return database
    return require_functional(database, str(path), file_format.place, lambda: file_format.placed(path, form))


def read_changes(
    path: str | os.PathLike[str], *, long: Sequence[str | int] | None = None, header: bool = True
) -> Iterator[tuple[str, str, str, str | None]]:
    r"""The rows of a long table as changes: where it stands, key, query, and the value or, where it is empty, None.

    Only CSV and TSV files may have empty values; the other formats have none to delete with.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "changes.csv")
    ...     _ = path.write_text("key,query,value\nAstrid,born_in,Oslo\nColin,born_in,\n")
    ...     [(where.rpartition(", ")[2], value) for where, _, _, value in read_changes(path)]
    [('line 2', 'Oslo'), ('line 3', None)]
    """
    path = Path(path)
    require_file(path)
    file_format, form = _format_of(path), Form(long, False, header)
    _require_some_bytes(path)
    if isinstance(file_format, Delimited):
        placed = placed_facts(path, file_format.delimiter, form, open_values=True)
    elif header:
        placed = file_format.placed(path, form)
    else:
        raise InputError(f"{path}: only CSV and TSV files have a header to do without (--no-header)")
    for place, (key, query, value) in placed:
        yield f"{path}, {file_format.place} {place}", key, query, value or None


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
    file_format = _format_of(path)
    with replacing(path) as stream:
        file_format.write(database, stream, wide=wide)


def _format_of(path: Path) -> Format:
    name = path.name.lower()
    for suffix, file_format in FORMATS.items():
        if name.endswith(suffix):
            return file_format
    raise InputError(f"{path}: unknown kind of file; the known suffixes are {' '.join(FORMATS)}")


def _require_some_bytes(path: Path) -> None:
    with reading(path) as stream:
        if not stream.read(1):
            raise InputError(f"{path}: the file is empty")
