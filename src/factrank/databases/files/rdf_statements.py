"""Statements: the triples of an RDF file, each as three names with the line on which it ends.

The parser is that of Oxigraph. It asks for more text only when it cannot go on, so handed one line after the other it
tells on which line a triple ends. The blank nodes that Turtle leaves without a label, as in `[ ]`, get a new label at
random in each pass; here they are called `_:anonymous1`, `_:anonymous2` and so on, the same in every pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, cast

from pyoxigraph import BlankNode, RdfFormat, parse

from factrank.databases.database import Fact
from factrank.databases.files.rdf import Syntax
from factrank.databases.files.rdf_terms import Term, name_of
from factrank.databases.source_files import SourceFile, numbered_lines
from factrank.errors import InputError
from factrank.foreign_text import quoted, shown_name

ANONYMOUS = "_:anonymous"
FORMATS = {"N-Triples": RdfFormat.N_TRIPLES, "Turtle": RdfFormat.TURTLE}
LONGEST_WAIT = 1 << 15
"""Bytes without a triple after which lines are handed out many at a time.

A text of many lines is read from its beginning each time that more of it arrives."""

Terms = tuple[Term, Term, Term]


def statements(source: SourceFile, syntax: Syntax) -> Iterator[tuple[int, Fact]]:
    """The names of each triple with its line; an `InputError` names the first line that is wrong."""
    labels = _Labels(source)
    for place, (line, terms) in enumerate(_triples(source, syntax)):
        try:
            subject, predicate, object_ = map(name_of, terms)
            if syntax == "Turtle" and BlankNode in map(type, terms):
                subject, predicate, object_ = labels.names(place, terms)
        except InputError as error:
            raise InputError(f"{source}, line {line}: {error}") from None
        yield line, (subject, predicate, object_)


class _Labels:
    """Labels of blank nodes, the same in every pass: what has another label in a second pass has none in the file."""

    def __init__(self, source: SourceFile) -> None:
        self._again = enumerate(_triples(source, "Turtle"))
        self._given: dict[str, str] = {}
        self._written = ""

    def names(self, place: int, terms: Terms) -> list[str]:
        """The names of the terms of the triple with this number."""
        twins = next(twins for at, (_, twins) in self._again if at == place)
        names = [self._name(name_of(term), term == twin) for term, twin in zip(terms, twins, strict=True)]
        if self._written and self._given:
            raise InputError(f"the label {self._written} may be that of a blank node without a label; choose another")
        return names

    def _name(self, name: str, lasting: bool) -> str:
        if not lasting:
            return self._given.setdefault(name, f"{ANONYMOUS}{len(self._given) + 1}")
        if name.startswith(ANONYMOUS):
            self._written = name
        return name


def _triples(source: SourceFile, syntax: Syntax) -> Iterator[tuple[int, Terms]]:
    lines = _Lines(source)
    try:
        for triple in parse(cast("IO[bytes]", lines), FORMATS[syntax]):
            yield lines.number, (triple.subject, triple.predicate, triple.object)
            lines.waited = 0
    except SyntaxError as error:
        raise InputError(f"{source}, line {error.lineno}: not {syntax}: {lines.complaint(error)}") from None
    except MemoryError:
        raise InputError(f"{source}, line {lines.number}: more than 16 MiB in one term; this is no table") from None


class _Lines:
    """The lines of a file as a stream for the parser.

    Arguments:
        number: of the last line that was handed out.
        waited: bytes handed out since the last triple.
    """

    def __init__(self, source: SourceFile) -> None:
        self._lines = numbered_lines(source)
        self._left = memoryview(b"")
        self._last = ""
        self.number, self.waited = 0, 0

    def read(self, size: int) -> bytes:
        """At most so many bytes, and none of the next line unless all of this one is read."""
        if not self._left:
            self._left = memoryview(self._next_lines())
        piece, self._left = self._left[:size], self._left[size:]
        return bytes(piece)

    def _next_lines(self) -> bytes:
        least = self.waited // 8 if self.waited > LONGEST_WAIT else 1
        found = bytearray()
        while len(found) < least and (numbered := next(self._lines, None)):
            self.number, self._last = numbered
            found += self._last.encode()
        self.waited += len(found)
        return bytes(found)

    def complaint(self, error: SyntaxError) -> str:
        """What is wrong, the column, and what stands there."""
        reason = shown_name(error.msg.partition(": ")[2] or error.msg, longest=200)
        column = error.offset or 1
        found = self._last[column - 1 :].strip() if error.lineno == self.number else ""
        return f"{reason}, at column {column}" + (f", found {quoted(found, 42)}" if found else "")
