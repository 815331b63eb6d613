"""Write the facts of a database as lines of text, with vectorised joins of whole columns.

A text format defines how to encode names and how to punctuate rows. Each name is encoded once, in the vocabularies;
Arrow then joins the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BufferedIOBase
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from factrank.databases.cells import TEXT
from factrank.databases.database import COLUMNS, Database
from factrank.databases.tables import coded_table
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.foreign_text import quoted

CELLS_AT_ONCE = 1 << 20

Spelling = Callable[[str], str]
Piece: TypeAlias = "pa.Array | str"


def spelled_table(database: Database, spellings: Sequence[Spelling], *, wide: bool) -> pa.Table:
    """Return the table of a database, with an injective encoding applied to its keys, queries and values.

    Column names are not encoded, including the queries of the wide form.
    """
    keys, queries, values = (
        vocabulary if wide and column == "query" else Vocabulary([spell(name) for name in vocabulary])
        for column, spell, vocabulary in zip(COLUMNS, spellings, database.vocabularies, strict=True)
    )
    return coded_table(Database(database.triples, keys, queries, values), wide=wide)


def require_no_name(database: Database, name: str, reason: str) -> None:
    """Raise `InputError` if a name contains text that a format cannot represent, or is empty if `name` is empty."""
    for column, vocabulary in zip(COLUMNS, database.vocabularies, strict=True):
        found = pc.match_substring(vocabulary.names, name) if name else pc.equal(vocabulary.names, pa.scalar("", TEXT))
        place = pc.index(found, pa.scalar(True)).as_py()
        if place >= 0:
            raise InputError(f"the {column} {quoted(vocabulary[place])} cannot be written: {reason}")


def write_rows(stream: BufferedIOBase, table: pa.Table, pieces: Callable[[list[pa.Array]], Sequence[Piece]]) -> None:
    """Write each row of a table of dictionary-encoded text as the concatenation of its pieces.

    Arguments:
        stream: Stream to write to.
        table: The table.
        pieces: Maps the columns of a batch of rows to the parts of their lines; null parts are skipped.
    """
    n_rows = max(1, CELLS_AT_ONCE // table.num_columns)
    for start in range(0, table.num_rows, n_rows):
        batch = table.slice(start, n_rows).combine_chunks()
        cells = [column.chunk(0).dictionary_decode() for column in batch.columns]
        stream.write(_joined(pieces(cells)))


def prefixed(prefix: str, cells: pa.Array) -> pa.Array:
    """Add a prefix to every cell that is not null."""
    return pc.binary_join_element_wise(pa.scalar(prefix, TEXT), cells, pa.scalar("", TEXT))


def _joined(pieces: Sequence[Piece]) -> memoryview:
    parts = [pa.scalar(piece, TEXT) if isinstance(piece, str) else piece for piece in pieces]
    nothing = pa.scalar("", TEXT)
    lines = pc.binary_join_element_wise(*parts, nothing, null_handling="replace", null_replacement="")
    size = pc.sum(pc.binary_length(lines)).as_py()
    return memoryview(lines.buffers()[2])[:size]
