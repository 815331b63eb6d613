"""N-Triples: one RDF triple per line, `subject predicate object .` (RDF 1.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from typing import ClassVar, get_args

import pyarrow as pa

from factrank.databases.columns import TableForm, long_columns
from factrank.databases.conflicts import PlacedFact, collect
from factrank.databases.database import Database
from factrank.databases.files.rdf_terms import BLANK_NODE, IRI, LITERAL, Position, spell_term, term_text
from factrank.databases.files.rows import Piece, spelled_table, write_rows
from factrank.databases.source_files import SourceFile, numbered_lines
from factrank.errors import InputError

POSITIONS: tuple[Position, ...] = get_args(Position)

_PARTS = {
    "a subject (<iri> or _:blank)": rf"({IRI}|{BLANK_NODE})",
    "a predicate (<iri>)": rf"({IRI})",
    'an object (<iri>, _:blank or "literal")': rf"({IRI}|{BLANK_NODE}|{LITERAL})",
    "a final dot": r"\.",
    "the end of the line": r"(?:#[^\r\n]*)?[\r\n]*$",
}
_STATEMENT = re.compile("".join(rf"[ \t]*{part}" for part in _PARTS.values()))
_NO_STATEMENT = re.compile(r"[ \t]*(?:#[^\r\n]*)?[\r\n]*$")


@dataclass(frozen=True)
class NTriples:
    """Statements on lines; comments and blank lines are left out. `terms` says how terms and names correspond."""

    place: ClassVar[str] = "line"

    def column_names(self, _source: SourceFile, _form: TableForm) -> list[str]:
        """Subject, predicate and object."""
        return list(POSITIONS)

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """The facts of a file; errors name its lines."""
        return collect(source, self.placed(source, form))

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Each fact with its line."""
        _require_long(form.wide)
        key, query, value = long_columns(POSITIONS, form, str(source)).indices
        for number, line in numbered_lines(source):
            statement = _STATEMENT.match(line)
            if statement:
                terms = _texts(statement, f"{source}, line {number}")
                if terms[value] not in form.missing:
                    yield number, (terms[key], terms[query], terms[value])
            elif not _NO_STATEMENT.match(line):
                raise InputError(f"{source}, line {number}: not an N-Triples statement: {_complaint(line)}")

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write one statement per fact."""
        _require_long(wide)
        table = spelled_table(database, [partial(spell_term, position=p) for p in POSITIONS], wide=False)
        write_rows(stream, table, _line)


def _line(cells: list[pa.Array]) -> list[Piece]:
    subject, predicate, object_ = cells
    return [subject, " ", predicate, " ", object_, " .\n"]


def _texts(statement: re.Match[str], where: str) -> list[str]:
    try:
        return [term_text(token) for token in statement.groups()]
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _complaint(line: str) -> str:
    """What is missing first, and where."""
    place, missing = 0, ""
    for expected, part in _PARTS.items():
        matched = re.compile(rf"[ \t]*{part}").match(line, place)
        if matched is None:
            missing = expected
            break
        place = matched.end()
    return f"expected {missing} at column {place + 1}, found {line[place:].strip()[:40]!r}"


def _require_long(wide: bool) -> None:
    if wide:
        raise InputError("N-Triples hold one fact per line: there is no wide form")
