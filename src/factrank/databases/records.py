"""Records: delimited text read one record at a time, to say on which line something is wrong.

This is the slow and plain way to read what `blocks` reads at once; the two agree on every file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from factrank.databases.columns import Form, LongColumns, long_columns, require_wide
from factrank.databases.conflicts import PlacedFact
from factrank.databases.streams import numbered_lines
from factrank.errors import InputError

LONGEST_FIELD = 2**31 - 1

Record = tuple[int, list[str]]
"""The fields of a record, with the line on which it begins."""


def column_names(path: Path, delimiter: str, form: Form) -> list[str]:
    """The names of the columns: the header's, or else their 1-based positions."""
    return _opened(path, delimiter, form)[0]


def placed_facts(path: Path, delimiter: str, form: Form, *, open_values: bool = False) -> Iterator[PlacedFact]:
    """Each fact with its line; an `InputError` names the first line that is wrong.

    With `open_values` the value of a fact in the long form may be empty.
    """
    names, records = _opened(path, delimiter, form)
    chosen = None if form.wide else long_columns(names, form, str(path))
    for line, fields in records:
        where = f"{path}, line {line}"
        if len(fields) != len(names):
            raise InputError(f"{where}: expected {len(names)} fields, found {len(fields)}")
        if chosen is None:
            yield from ((line, fact) for fact in _wide_facts(names, fields, where))
        else:
            if form.header and not chosen.named:
                _require_header(names, fields, chosen, path, line)
            yield line, _long_fact(names, fields, chosen, where, open_values)


def _opened(path: Path, delimiter: str, form: Form) -> tuple[list[str], Iterator[Record]]:
    """The names of the columns, and the records of facts."""
    records = _records(path, delimiter)
    first = next(records, None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    _, fields = first
    if not form.header:
        return [str(place) for place in range(1, len(fields) + 1)], chain([first], records)
    if form.wide:
        require_wide(fields, str(path))
    return fields, records


def _records(path: Path, delimiter: str) -> Iterator[Record]:
    """The records as Arrow splits them: without blank lines, quotes honoured at the start of a field only."""
    ended = False

    def lines() -> Iterator[str]:
        nonlocal ended
        yield from (line for _, line in numbered_lines(path))
        ended = True

    usual_limit = csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(lines(), delimiter=delimiter)
    line = 1
    try:
        for fields in reader:
            if ended:
                raise InputError(f"{path}, line {line}: a quote is opened in this record and never closed")
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}") from None
    finally:
        csv.field_size_limit(usual_limit)


def _long_fact(
    names: list[str], fields: list[str], chosen: LongColumns, where: str, open_value: bool
) -> tuple[str, str, str]:
    for index in sorted(chosen.indices):
        if not (fields[index] or (open_value and index == chosen.indices[2])):
            raise InputError(f"{where}: empty cell in column {names[index]!r}")
    key, query, value = (fields[index] for index in chosen.indices)
    return key, query, value


def _wide_facts(names: list[str], fields: list[str], where: str) -> Iterator[tuple[str, str, str]]:
    if not fields[0]:
        raise InputError(f"{where}: empty cell in the key column {names[0]!r}")
    return ((fields[0], query, value) for query, value in zip(names[1:], fields[1:], strict=True) if value)


def _require_header(names: list[str], fields: list[str], chosen: LongColumns, path: Path, line: int) -> None:
    """Check that the header does not hold a query of the facts: then it would be a fact, and be lost."""
    query = names[chosen.indices[1]]
    if fields[chosen.indices[1]] == query:
        raise InputError(
            f"{path}: the first line looks like a fact: its query {query!r} occurs again in line {line}. If it is one, "
            "pass header=False (--no-header); if it is a header, name its columns with "
            'long=("KEY", "QUERY", "VALUE") (--long KEY QUERY VALUE)'
        )
