"""JSON Lines: one JSON object per line, its fields the columns.

Numbers keep the text they have in the file, true and false are "true" and "false", null is an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Never

import pyarrow as pa

from factrank.databases.columns import Form, long_columns, require_wide
from factrank.databases.conflicts import PlacedFact, collect
from factrank.databases.database import Database
from factrank.databases.rows import Piece, prefixed, require_no_name, spelled_table, write_rows
from factrank.databases.streams import numbered_lines
from factrank.errors import InputError

Object = dict[str, Any]
NumberedObjects = Iterator[tuple[int, Object]]


@dataclass(frozen=True)
class JsonLines:
    """Objects on lines. The fields of the first object name the columns; in the wide form its first field is the key.

    A long object must have the three columns and may have others; in the wide form a field that is not there is no
    fact.
    """

    place: ClassVar[str] = "line"

    def read(self, path: Path, form: Form) -> Database:
        """The facts of a file; errors name its lines."""
        return collect(path, self.placed(path, form))

    def placed(self, path: Path, form: Form) -> Iterator[PlacedFact]:
        """Each fact with its line."""
        objects = _objects(path)
        first = next(objects, None)
        if first is None:
            raise InputError(f"{path}: the file is empty")
        names, objects = list(first[1]), chain([first], objects)
        return _wide_facts(path, names, objects) if form.wide else _long_facts(path, names, objects, form)

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write one object per fact (long) or per key (wide)."""
        require_no_name(database, "", "an empty text is no fact")
        table = spelled_table(database, [_json_text] * 3, wide=wide)
        fields = [_json_text(name) + ": " for name in table.column_names]

        def line(cells: list[pa.Array]) -> list[Piece]:
            rest = [prefixed(", " + field, cell) for field, cell in zip(fields[1:], cells[1:], strict=True)]
            return ["{" + fields[0], cells[0], *rest, "}\n"]

        write_rows(stream, table, line)


def _long_facts(path: Path, names: list[str], objects: NumberedObjects, form: Form) -> Iterator[PlacedFact]:
    key, query, value = (names[index] for index in long_columns(names, form, str(path)).indices)
    for line, cells in objects:
        where = f"{path}, line {line}"
        yield line, (_filled(cells, key, where), _filled(cells, query, where), _filled(cells, value, where))


def _wide_facts(path: Path, names: list[str], objects: NumberedObjects) -> Iterator[PlacedFact]:
    require_wide(names, str(path))
    for line, cells in objects:
        where = f"{path}, line {line}"
        key = _filled(cells, names[0], where)
        for query in cells:
            if query != names[0] and (value := _text(cells, query, where)):
                yield line, (key, query, value)


def _objects(path: Path) -> NumberedObjects:
    """The objects of a file with their lines; blank lines are left out."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, _parsed(line, f"{path}, line {number}")


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


def _filled(cells: Object, field: str, where: str) -> str:
    if field not in cells:
        raise InputError(f"{where}: no field {field!r}; the fields are {', '.join(map(repr, cells))}")
    text = _text(cells, field, where)
    if not text:
        raise InputError(f"{where}: empty cell in column {field!r}")
    return text


def _text(cells: Object, field: str, where: str) -> str:
    """The text of a cell, empty for null."""
    cell = cells[field]
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if cell is None:
        return ""
    raise InputError(f"{where}: the cell in column {field!r} is nested: expected text, a number, true, false or null")


def _json_text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
