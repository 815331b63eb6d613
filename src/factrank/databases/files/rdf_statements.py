"""Parse an RDF file into triples of names, each with the line on which it ends and the name of its graph.

Oxigraph's parser requests more text only when it cannot continue, so feeding it one line at a time reveals the line on
which a triple ends. Oxigraph gives unlabelled blank nodes, such as Turtle's `[ ]`, a new random label in each pass;
they are renamed to `_:anonymous1`, `_:anonymous2`, ..., which are the same in every pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, cast

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, RdfFormat, parse

from factrank.databases.database import Fact
from factrank.databases.files.rdf import Syntax
from factrank.databases.files.rdf_terms import Term, name_of
from factrank.databases.source_files import SourceFile, numbered_lines
from factrank.errors import InputError
from factrank.foreign_text import quoted, shown_name

ANONYMOUS = "_:anonymous"
FORMATS = {"N-Triples": RdfFormat.N_TRIPLES, "N-Quads": RdfFormat.N_QUADS, "Turtle": RdfFormat.TURTLE}
LONGEST_WAIT = 1 << 15
"""Bytes without a triple after which the parser gets many lines at a time.

The parser restarts a multi-line literal from its beginning whenever more text arrives."""

Terms = tuple[Term, Term, Term]


def statements(source: SourceFile, syntax: Syntax) -> Iterator[tuple[int, Fact, str]]:
    """Yield the line of each triple, its names, and the name of its graph, which is "" for the default graph.

    Raises:
        InputError: At the first invalid line, which the message names.
    """
    labels = _Labels(source)
    for place, (line, terms, graph) in enumerate(_triples(source, syntax)):
        try:
            subject, predicate, object_ = map(name_of, terms)
            in_graph = "" if graph is None else name_of(graph)
            if syntax == "Turtle" and BlankNode in map(type, terms):
                subject, predicate, object_ = labels.names(place, terms)
        except InputError as error:
            raise InputError(f"{source}, line {line}: {error}") from None
        yield line, (subject, predicate, object_), in_graph


class _Labels:
    """Stable labels for blank nodes: a node whose label differs in a second pass has no label in the file."""

    def __init__(self, source: SourceFile) -> None:
        self._again = enumerate(_triples(source, "Turtle"))
        self._given: dict[str, str] = {}
        self._written = ""

    def names(self, place: int, terms: Terms) -> list[str]:
        """Return the names of the terms of a triple, given its position."""
        twins = next(twins for at, (_, twins, _) in self._again if at == place)
        names = [self._name(name_of(term), term == twin) for term, twin in zip(terms, twins, strict=True)]
        if self._written and self._given:
            raise InputError(f"the label {self._written} is reserved for blank nodes without a label; rename it")
        return names

    def _name(self, name: str, lasting: bool) -> str:
        if not lasting:
            return self._given.setdefault(name, f"{ANONYMOUS}{len(self._given) + 1}")
        if name.startswith(ANONYMOUS):
            self._written = name
        return name


def _triples(source: SourceFile, syntax: Syntax) -> Iterator[tuple[int, Terms, NamedNode | BlankNode | None]]:
    lines = _Lines(source)
    try:
        for triple in parse(cast("IO[bytes]", lines), FORMATS[syntax]):
            graph = None if isinstance(triple.graph_name, DefaultGraph) else triple.graph_name
            yield lines.number, (triple.subject, triple.predicate, triple.object), graph
            lines.waited = 0
    except SyntaxError as error:
        raise InputError(f"{source}, line {error.lineno}: not {syntax}: {lines.complaint(error)}") from None
    except MemoryError:
        raise InputError(f"{source}, line {lines.number}: more than 16 MiB in one term; this is not a table") from None


class _Lines:
    """A stream that feeds the lines of a file to the parser.

    Attributes:
        number: Number of the last line that was read.
        waited: Number of bytes read since the last triple.
    """

    def __init__(self, source: SourceFile) -> None:
        self._lines = numbered_lines(source)
        self._left = memoryview(b"")
        self._last = ""
        self.number, self.waited = 0, 0

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, all of the same line."""
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
        """Return the reason, the column and the text found there."""
        reason = shown_name(error.msg.partition(": ")[2] or error.msg, longest=200)
        column = error.offset or 1
        found = self._last[column - 1 :].strip() if error.lineno == self.number else ""
        return f"{reason}, at column {column}" + (f", found {quoted(found, 42)}" if found else "")
