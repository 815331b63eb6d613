"""JSON Lines: one JSON object per line, with one field per column.

Numbers are kept as written, true and false become "true" and "false", and null is an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from typing import Any, ClassVar, Never

import pyarrow as pa

from factrank.databases.columns import TableForm, listed, long_columns, require_wide
from factrank.databases.conflicts import PlacedFact, collect
from factrank.databases.database import Database
from factrank.databases.files.rows import Piece, prefixed, require_no_name, spelled_table, write_rows
from factrank.databases.source_files import SourceFile, numbered_lines
from factrank.errors import InputError
from factrank.foreign_text import quoted

Object = dict[str, Any]
NumberedObjects = Iterator[tuple[int, Object]]


@dataclass(frozen=True)
class JsonLines:
    """One JSON object per line. The fields of the first object are the columns; in the wide form the first is the key.

    In the long form every object must have the three columns and may have others; in the wide form an absent field is a
    missing entry.
    """

    place: ClassVar[str] = "line"

    def column_names(self, source: SourceFile, _form: TableForm) -> list[str]:
        """Return the fields of the first object."""
        return _opened(source)[0]

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """Read the facts of a file; errors name the line."""
        return collect(source, self.placed(source, form))

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Yield each fact with its line."""
        names, objects = _opened(source)
        return _wide_facts(source, names, objects, form) if form.wide else _long_facts(source, names, objects, form)

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write one object per fact (long) or per key (wide)."""
        require_no_name(database, "", "an empty string is a missing entry")
        table = spelled_table(database, [_json_text] * 3, wide=wide)
        fields = [_json_text(name) + ": " for name in table.column_names]

        def line(cells: list[pa.Array]) -> list[Piece]:
            rest = [prefixed(", " + field, cell) for field, cell in zip(fields[1:], cells[1:], strict=True)]
            return ["{" + fields[0], cells[0], *rest, "}\n"]

        write_rows(stream, table, line)


def _opened(source: SourceFile) -> tuple[list[str], NumberedObjects]:
    """Return the fields of the first object, and all objects."""
    objects = _objects(source)
    first = next(objects, None)
    if first is None:
        raise InputError(f"{source}: the file is empty")
    return list(first[1]), chain([first], objects)


def _long_facts(
    source: SourceFile, names: list[str], objects: NumberedObjects, form: TableForm
) -> Iterator[PlacedFact]:
    key, query, value = (names[index] for index in long_columns(names, form, str(source)).indices)
    for line, cells in objects:
        where = f"{source}, line {line}"
        pair = _filled(cells, key, where, form), _filled(cells, query, where, form)
        if form.missing and not _text(cells, value, where, form):
            continue
        yield line, (*pair, _filled(cells, value, where, form))


def _wide_facts(
    source: SourceFile, names: list[str], objects: NumberedObjects, form: TableForm
) -> Iterator[PlacedFact]:
    require_wide(names, str(source))
    for line, cells in objects:
        where = f"{source}, line {line}"
        key = _filled(cells, names[0], where, form)
        for query in cells:
            if query != names[0] and (value := _text(cells, query, where, form)):
                yield line, (key, query, value)


def _objects(source: SourceFile) -> NumberedObjects:
    """Yield the objects of a file with their lines, skipping blank lines."""
    for number, line in numbered_lines(source):
        if line.strip():
            yield number, _parsed(line, f"{source}, line {number}")


def _parsed(line: str, where: str) -> Object:
    try:
        parsed = json.loads(
            line, parse_int=str, parse_float=str, parse_constant=_no_constant, object_pairs_hook=_distinct_fields
        )
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if not isinstance(parsed, dict):
        raise InputError(f"{where}: expected a JSON object, found {line.strip()[:40]!r}")
    if "\\u" in line and not _is_unicode(parsed):
        raise InputError(f"{where}: half of a surrogate pair (such as \\ud800), which is not text")
    return parsed


def _distinct_fields(pairs: list[tuple[str, Any]]) -> Object:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError("two fields of the object have the same name")
    return fields


def _no_constant(name: str) -> Never:
    raise InputError(f"not JSON: {name}")


def _is_unicode(parsed: Object) -> bool:
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _filled(cells: Object, field: str, where: str, form: TableForm) -> str:
    text = _text(cells, field, where, form)
    if not text:
        raise InputError(f"{where}: empty cell in column {quoted(field)}")
    return text


def _text(cells: Object, field: str, where: str, form: TableForm) -> str:
    """Return the text of a cell; empty for null and for missing values."""
    if field not in cells:
        raise InputError(f"{where}: no field {quoted(field)}; the fields are {listed(list(cells))}")
    cell = cells[field]
    if isinstance(cell, str):
        return "" if cell in form.missing else cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if cell is None:
        return ""
    expected = "expected text, a number, true, false or null"
    raise InputError(f"{where}: the cell in column {quoted(field)} is nested: {expected}")


def _json_text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
