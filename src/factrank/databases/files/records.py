"""Read delimited text one record at a time, to locate the line of an error.

This is the slow, simple counterpart of `text_blocks`; both return the same facts for every file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from factrank.databases.columns import LongColumns, TableForm, long_columns, require_wide
from factrank.databases.conflicts import PlacedFact
from factrank.databases.database import COLUMNS, Fact
from factrank.databases.source_files import LONGEST_LINE, SourceFile, numbered_lines
from factrank.errors import InputError
from factrank.foreign_text import quoted

LONGEST_FIELD = 2**31 - 1
MOST_COLUMNS = 1 << 15
"""Arrow needs about 16 KiB per column, even if there are few rows."""

PLAIN_QUOTES = "if quotes are ordinary characters in this file, pass quotes=False (--no-quotes)"

Record = tuple[int, list[str]]
"""Line on which a record starts, and its fields."""


@dataclass(frozen=True)
class Dialect:
    """Field delimiter, and whether fields may be quoted."""

    delimiter: str
    quotes: bool = True

    def __post_init__(self) -> None:
        fits = len(self.delimiter) == 1 and self.delimiter.isascii() and self.delimiter not in '"\r\n\0'
        if not fits:
            raise InputError(
                f"delimiter (--delimiter): expected one ASCII character, such as ; or tab, not a quote or line end; "
                f"got {quoted(self.delimiter)}"
            )


def column_names(source: SourceFile, dialect: Dialect, form: TableForm) -> list[str]:
    """Return the header, or 1-based positions if there is no header."""
    return _opened(source, dialect, form)[0]


def placed_facts(
    source: SourceFile, dialect: Dialect, form: TableForm, *, open_values: bool = False
) -> Iterator[PlacedFact]:
    """Yield each fact with its line; raise an `InputError` that names the first invalid line.

    If `open_values`, the value of a fact in the long form may be empty.
    """
    names, records = _opened(source, dialect, form)
    chosen = None if form.wide else long_columns(names, form, str(source))
    for line, written in records:
        where = f"{source}, line {line}"
        if len(written) != len(names):
            raise InputError(f"{where}: expected {len(names)} fields, found {len(written)}")
        fields = ["" if field in form.missing else field for field in written] if form.missing else written
        if chosen is None:
            yield from ((line, fact) for fact in _wide_facts(names, fields, where))
            continue
        fact = _long_fact(names, fields, chosen, where, open_values or bool(form.missing))
        if not (fact[2] or open_values):
            continue
        if form.header is None and not chosen.named:
            _require_header([names[index] for index in chosen.indices], fact, source, line)
        yield line, fact


def _opened(source: SourceFile, dialect: Dialect, form: TableForm) -> tuple[list[str], Iterator[Record]]:
    """Return the column names and the records after the header."""
    records = _records(source, dialect)
    first = next(records, None)
    if first is None:
        raise InputError(f"{source}: the file is empty")
    _, fields = first
    if len(fields) > MOST_COLUMNS:
        raise InputError(
            f"{source}: {len(fields):,} columns, but at most {MOST_COLUMNS:,} are supported; use the long form"
        )
    if not form.headed:
        return [str(place) for place in range(1, len(fields) + 1)], chain([first], records)
    if form.wide:
        require_wide(fields, str(source))
    return fields, records


def _records(source: SourceFile, dialect: Dialect) -> Iterator[Record]:
    """Yield records as Arrow splits them: blank lines are skipped, and quotes count only at the start of a field."""
    ended, letters, line = False, 0, 1

    def lines() -> Iterator[str]:
        nonlocal ended, letters
        for _, text in numbered_lines(source):
            letters += len(text)
            if letters > LONGEST_LINE + len(text):
                limit = f"{LONGEST_LINE >> 20} MiB"
                raise InputError(f"{source}, line {line}: a quote is open for more than {limit}; {PLAIN_QUOTES}")
            yield text
        ended = True

    usual_limit = csv.field_size_limit(LONGEST_FIELD)
    plain: dict[str, Any] = {} if dialect.quotes else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader(lines(), delimiter=dialect.delimiter, **plain)
    try:
        for fields in reader:
            if ended:
                complaint = "a quote in this record is never closed"
                raise InputError(f"{source}, line {line}: {complaint}; {PLAIN_QUOTES}")
            if fields:
                yield line, fields
            line, letters = reader.line_num + 1, 0
    except csv.Error as error:
        raise InputError(f"{source}, line {line}: {error}") from None
    finally:
        csv.field_size_limit(usual_limit)


def _long_fact(
    names: list[str], fields: list[str], chosen: LongColumns, where: str, open_value: bool
) -> tuple[str, str, str]:
    for index in sorted(chosen.indices):
        if not (fields[index] or (open_value and index == chosen.indices[2])):
            raise InputError(f"{where}: empty cell in column {quoted(names[index])}")
    key, query, value = (fields[index] for index in chosen.indices)
    return key, query, value


def _wide_facts(names: list[str], fields: list[str], where: str) -> Iterator[tuple[str, str, str]]:
    if not fields[0]:
        raise InputError(f"{where}: empty cell in the key column {quoted(names[0])}")
    return ((fields[0], query, value) for query, value in zip(names[1:], fields[1:], strict=True) if value)


def _require_header(names: list[str], fact: Fact, source: SourceFile, line: int) -> None:
    """Raise `InputError` if a name in the header occurs again below it: it may be a fact, which would be lost."""
    for column, name, text in zip(COLUMNS, names, fact, strict=True):
        if name == text:
            raise InputError(
                f"{source}: the first line looks like a fact: its {column} {quoted(name)} occurs again in line "
                f"{line}. If it is one, pass header=False (--no-header); if it names the columns, pass header=True "
                "(--header)"
            )
