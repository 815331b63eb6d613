"""N-Triples, N-Quads and Turtle files: each (subject, predicate, object) triple is a fact.

In N-Quads a triple may be in a named graph. A table of facts is the union of all graphs; `read_splits` makes each graph
a split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from typing import ClassVar, Literal, get_args

from factrank.databases.columns import TableForm, long_columns
from factrank.databases.conflicts import PlacedFact, collect
from factrank.databases.database import Database
from factrank.databases.files.rows import spelled_table, write_rows
from factrank.databases.source_files import SourceFile
from factrank.errors import InputError

Syntax = Literal["N-Triples", "N-Quads", "Turtle"]
Position = Literal["subject", "predicate", "object"]
POSITIONS: tuple[Position, ...] = get_args(Position)


@dataclass(frozen=True)
class Rdf:
    """Triples in an RDF syntax; `rdf_terms` converts between terms and names.

    N-Triples is a subset of Turtle and of N-Quads, so all are written as one triple per line.
    """

    syntax: Syntax
    place: ClassVar[str] = "line"

    def column_names(self, _source: SourceFile, _form: TableForm) -> list[str]:
        """Return subject, predicate and object."""
        return list(POSITIONS)

    def read(self, source: SourceFile, form: TableForm) -> Database:
        """Read the facts of a file; errors name the line."""
        return collect(source, self.placed(source, form))

    def placed(self, source: SourceFile, form: TableForm) -> Iterator[PlacedFact]:
        """Yield each fact with the line on which it ends."""
        return (placed for placed, _ in self.placed_in_graphs(source, form))

    def placed_in_graphs(self, source: SourceFile, form: TableForm) -> Iterator[tuple[PlacedFact, str]]:
        """Yield each fact with its line, and the name of its graph; the default graph has the name ""."""
        from factrank.databases.files.rdf_statements import statements  # noqa: PLC0415 - only RDF needs pyoxigraph

        self._require_long(form.wide)
        key, query, value = long_columns(POSITIONS, form, str(source)).indices
        for line, names, graph in statements(source, self.syntax):
            if names[value] not in form.missing:
                yield (line, (names[key], names[query], names[value])), graph

    def write(self, database: Database, stream: BufferedIOBase, *, wide: bool) -> None:
        """Write one triple per line."""
        self._require_long(wide)
        self.write_graph(database, stream, "")

    def write_graph(self, database: Database, stream: BufferedIOBase, graph: str) -> None:
        """Write one triple per line, in a named graph unless the name is empty; only N-Quads has named graphs."""
        from factrank.databases.files.rdf_terms import spelled  # noqa: PLC0415 - only RDF needs pyoxigraph

        table = spelled_table(database, [partial(spelled, position=p) for p in POSITIONS], wide=False)
        end = f" {spelled(graph, 'subject')} .\n" if graph else " .\n"
        write_rows(stream, table, lambda cells: [cells[0], " ", cells[1], " ", cells[2], end])

    def _require_long(self, wide: bool) -> None:
        if wide:
            raise InputError(f"{self.syntax} has no wide form, only one fact per triple")
