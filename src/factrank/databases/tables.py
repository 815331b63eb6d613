"""Convert databases from and to Arrow, polars and pandas tables, long and wide."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Int32

from factrank.databases.cells import EMPTY, TEXT, CodedColumn, code_column, in_order_of_appearance, spell
from factrank.databases.columns import TableForm, guesses, key_column_name, long_columns, require_wide
from factrank.databases.conflicts import PlacedFact, require_functional
from factrank.databases.database import COLUMNS, Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError, InputWarning
from factrank.foreign_text import quoted


def from_table(
    table: Any,
    *,
    long: Sequence[str | int] | None = None,
    wide: bool = False,
    multi: bool = False,
    missing: Sequence[str] = (),
) -> Database:
    """Read facts from an Arrow, polars or pandas table, or anything that exports an Arrow stream.

    Cells become text: 2, 2.0 and "2" are the same value. Null, NaN and "" are empty cells. The index of a pandas frame
    must not contain names (use `reset_index`).

    Arguments:
        table: The table.
        long: The key, query and value columns, as names or 1-based positions. If not given, columns with recognised
            names such as (key, query, value), (subject, predicate, object) or (head, relation, tail), else the only
            three columns.
        wide: The first column contains the keys, every other column is a query, and an empty cell is a missing entry.
        multi: Allow several values for one (key, query).
        missing: Texts that mark an empty cell. If any are given, a long row with an empty value is skipped.

    Raises:
        InputError: If the table cannot be read; the message names the row and column.
        ConflictError: If a (key, query) has two values and `multi` is false.

    >>> import pyarrow as pa
    >>> people = pa.table({"name": ["Astrid", "Colin"], "born": [1990, None], "city": ["Oslo", "Lima"]})
    >>> from_table(people, wide=True)
    Database(3 facts: 2 keys x 2 queries -> 3 values, functional)
      (Astrid, born, 1990)
      (Astrid, city, Oslo)
      (Colin, city, Lima)
    """
    arrow, form = arrow_table(table), TableForm(long, wide, missing=tuple(missing))
    for guess in guesses(arrow.column_names, form, "table", delimited=False):
        warnings.warn(InputWarning(guess), stacklevel=2)
    facts = coded_facts(arrow, form, "table")
    database = facts.database()
    if multi:
        return database
    return require_functional(database, "table", lambda: ((f"row {row}", fact) for row, fact in facts.placed()))


def to_table(database: Database, *, wide: bool = False) -> pa.Table:
    """Return the facts as an Arrow table of strings, for `polars.from_arrow(table)` or `table.to_pandas()`.

    The long form has the columns key, query and value. The wide form has a key column and one column per query, with
    null for missing entries.

    Raises:
        InputError: If `wide` and the database is multi-valued.

    >>> db = Database.from_facts([("Astrid", "born", 1990), ("Astrid", "city", "Oslo"), ("Colin", "city", "Lima")])
    >>> to_table(db, wide=True).to_pylist()[1]
    {'key': 'Colin', 'born': None, 'city': 'Lima'}
    """
    coded = coded_table(database, wide=wide)
    return pa.table([column.cast(column.type.value_type) for column in coded.columns], names=coded.column_names)


@dataclass(frozen=True)
class CodedFacts:
    """Facts in table order, as codes into the names of each axis, with their 1-based rows."""

    rows: Sequence[int] | Int[np.ndarray, " facts"]
    triples: Int32[np.ndarray, "facts 3"]
    names: tuple[pa.Array, ...]

    def database(self) -> Database:
        """Return the facts as a database, which may be multi-valued."""
        keys, queries, values = (Vocabulary(names) for names in self.names)
        return Database(self.triples, keys, queries, values)

    def placed(self) -> Iterator[PlacedFact]:
        """Yield each fact with its row."""
        for row, triple in zip(self.rows, self.triples, strict=True):
            key, query, value = (names[int(code)].as_py() for names, code in zip(self.names, triple, strict=True))
            yield int(row), (key, query, value)


def coded_facts(table: pa.Table, form: TableForm, source: str) -> CodedFacts:
    """Read facts from a table with columns of any type."""
    facts = _wide_facts(table, form, source) if form.wide else _long_facts(table, form, source)
    if not len(facts.rows):
        raise InputError(f"{source}: no facts")
    return facts


def coded_table(database: Database, *, wide: bool) -> pa.Table:
    """Return the facts as a table of dictionary-encoded strings."""
    if not wide:
        arrays = [_dictionary(database.triples[:, axis], v) for axis, v in enumerate(database.vocabularies)]
        return pa.table(arrays, names=list(COLUMNS))
    if not database.functional:
        raise InputError(
            "the wide form has one value per (key, query), but this database has several; use the long form"
        )
    database = database.compact()
    order = np.argsort(database.triples[:, 1], kind="stable")
    bounds = np.cumsum(np.bincount(database.triples[:, 1], minlength=database.n_queries))[:-1]
    columns = [_dictionary(np.arange(database.n_keys, dtype=np.int32), database.keys)]
    for rows in np.split(order, bounds):
        codes = np.full(database.n_keys, EMPTY, dtype=np.int32)
        codes[database.triples[rows, 0]] = database.triples[rows, 2]
        columns.append(_dictionary(codes, database.values))
    return pa.table(columns, names=[key_column_name(database.queries), *database.queries])


def _long_facts(table: pa.Table, form: TableForm, source: str) -> CodedFacts:
    indices = long_columns(table.column_names, form, source).indices
    columns = (_named_column(table, index, form, source) for index in indices)
    facts = _gathered(range(1, len(table) + 1), columns)
    filled = facts.triples[:, :2] if form.missing else facts.triples
    if len(table) and filled.min() == EMPTY:
        row, axis = divmod(int((filled == EMPTY).argmax()), filled.shape[1])
        column = quoted(table.column_names[indices[axis]])
        raise InputError(f"{source}, row {row + 1}: empty cell in column {column}")
    return _with_values(facts) if form.missing else facts


def _with_values(facts: CodedFacts) -> CodedFacts:
    """Drop facts with an empty value, and names that no other fact uses."""
    kept = np.flatnonzero(facts.triples[:, 2] != EMPTY)
    columns = (in_order_of_appearance(facts.triples[kept, axis], names) for axis, names in enumerate(facts.names))
    return _gathered(kept + 1, columns)


def _wide_facts(table: pa.Table, form: TableForm, source: str) -> CodedFacts:
    require_wide(table.column_names, source)
    keys, *cells = (_named_column(table, index, form, source) for index in range(table.num_columns))
    if len(table) and keys.codes.min() == EMPTY:
        row = int((keys.codes == EMPTY).argmax())
        raise InputError(f"{source}, row {row + 1}: empty cell in the key column {quoted(table.column_names[0])}")
    starts = np.cumsum([0] + [len(column.names) for column in cells], dtype=np.int32)
    codes = np.full((len(table), len(cells)), EMPTY, dtype=np.int32)
    for query, column in enumerate(cells):
        np.add(column.codes, starts[query], out=codes[:, query], where=column.codes != EMPTY)
    rows, queries = np.nonzero(codes != EMPTY)
    columns = (
        in_order_of_appearance(keys.codes[rows], keys.names),
        in_order_of_appearance(queries.astype(np.int32), pa.array(table.column_names[1:], TEXT)),
        in_order_of_appearance(codes[rows, queries], pa.concat_arrays([column.names for column in cells])),
    )
    return _gathered(rows + 1, columns)


def _gathered(rows: Sequence[int] | Int[np.ndarray, " facts"], columns: Iterable[CodedColumn]) -> CodedFacts:
    """Collect three columns one at a time, to avoid a second copy of a large table."""
    triples = np.empty((len(rows), 3), dtype=np.int32)
    names = []
    for axis, column in enumerate(columns):
        triples[:, axis] = column.codes
        names.append(column.names)
    return CodedFacts(rows, triples, tuple(names))


def _named_column(table: pa.Table, index: int, form: TableForm, source: str) -> CodedColumn:
    try:
        return code_column(table.column(index), form.missing)
    except InputError as error:
        raise InputError(f"{source}: column {quoted(table.column_names[index])}: {error}") from None


def _dictionary(codes: Int[np.ndarray, " rows"], vocabulary: Vocabulary) -> pa.Array:
    indices = pa.array(codes, mask=codes == EMPTY)
    return pa.DictionaryArray.from_arrays(indices, vocabulary.names)


def arrow_table(table: Any) -> pa.Table:
    """Return an Arrow, polars or pandas table as an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    try:
        if type(table).__module__.partition(".")[0] == "pandas":
            _require_plain_index(table)
            return _pandas_table(table)
        if hasattr(table, "collect"):
            raise TypeError(f"it is a {type(table).__name__}; call its collect()")
        if isinstance(table, dict | list | tuple):
            raise TypeError(f"it is a {type(table).__name__}")
        return pa.table(table)
    except InputError as error:
        raise InputError(f"table: {error}") from None
    except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        reason = " ".join(str(part) for part in error.args)
        raise InputError(f"table: not an Arrow, polars or pandas table of facts: {reason}") from None


def _require_plain_index(frame: Any) -> None:
    """Raise `InputError` if the index of a pandas frame contains names, which would be lost."""
    if frame.index.names != [None] or frame.index.dtype.kind not in "iu":
        raise InputError("the index of the pandas frame contains names; make it a column with reset_index()")


def _pandas_table(frame: Any) -> pa.Table:
    """Convert a pandas frame to Arrow; columns of mixed Python objects, such as 2 and "2", become text."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
        arrays = [
            pa.array([spell(cell) for cell in column], TEXT) if column.dtype == object else pa.array(column)
            for column in columns
        ]
        return pa.table(arrays, names=[str(name) for name in frame.columns])
