"""Choose the key, query and value columns of a table.

The *long* form has one fact per row, in three columns. The *wide* form has one key per row: the first column contains
the keys, every other column is a query, and an empty cell is a missing entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from factrank.databases.database import COLUMNS
from factrank.errors import InputError
from factrank.foreign_text import quoted

RECOGNISED: tuple[tuple[str, str, str], ...] = (
    ("key", "query", "value"),
    ("subject", "predicate", "object"),
    ("subject", "relation", "object"),
    ("subject", "relation", "answer"),
    ("head", "relation", "tail"),
    ("s", "p", "o"),
)
"""Recognised column names, in any case and order."""

SHOWN_COLUMNS = 12
OTHER_DELIMITERS = {"\t": "tab", ";": ";", "|": "|", ",": ","}
"""Likely delimiters, with the spelling to pass on the command line."""


@dataclass(frozen=True)
class TableForm:
    """Layout of facts in a table: `long` with three columns (names or 1-based positions), or `wide`."""

    long: Sequence[str | int] | None = None
    wide: bool = False
    header: bool | None = None
    """Whether the first line of a delimited file is a header; if None, it is unless it looks like a fact."""
    missing: tuple[str, ...] = ()
    """Texts that mark an empty cell. If any are given, a long row with an empty value is skipped."""

    def __post_init__(self) -> None:
        if self.long is not None and self.wide:
            raise InputError("a table is read as long or as wide (--long, --wide), not both")
        if self.long is not None and (not isinstance(self.long, list | tuple) or len(self.long) != 3):
            raise InputError(f"long (--long) needs three columns, KEY QUERY VALUE; got {quoted(self.long)}")
        if self.wide and self.header is False:
            raise InputError("the wide form needs a header: its names are the queries")

    @property
    def headed(self) -> bool:
        """Whether the first line of a delimited file is a header."""
        return self.header is not False


@dataclass(frozen=True)
class LongColumns:
    """Positions of the key, query and value columns, and whether the user or the header named them."""

    indices: tuple[int, int, int]
    named: bool


def long_columns(names: Sequence[str], form: TableForm, source: str) -> LongColumns:
    """Choose the three columns: those in `form`, else columns with recognised names, else the only three.

    Raises:
        InputError: If the choice is ambiguous; the message lists the columns.

    >>> long_columns(["year", "Head", "Relation", "Tail"], TableForm(), "facts.csv")
    LongColumns(indices=(1, 2, 3), named=True)
    """
    require_distinct(names, source)
    if form.long is not None:
        return _columns_asked_for(names, form.long, source)
    folded = [name.casefold() for name in names]
    found = [triple for triple in RECOGNISED if all(folded.count(name) == 1 for name in triple)]
    if len(found) == 1:
        key, query, value = (folded.index(name) for name in found[0])
        return LongColumns((key, query, value), named=True)
    if len(names) == 3:
        return LongColumns((0, 1, 2), named=False)
    _require_delimited(names, source)
    raise InputError(
        f"{source}: cannot tell which of the columns {listed(names)} hold key, query and value. Name the three with "
        'long=("KEY", "QUERY", "VALUE") (--long KEY QUERY VALUE), or pass wide=True (--wide) if the first column '
        "contains the keys and every other column is a query"
    )


def require_wide(names: Sequence[str], source: str) -> None:
    """Raise `InputError` unless there are a key column and distinct, named query columns."""
    if len(names) < 2:
        _require_delimited(names, source)
        raise InputError(f"{source}: the wide form needs a key column and at least one query; found {listed(names)}")
    require_distinct(names, source)
    if "" in names[1:]:
        raise InputError(f"{source}: column {names.index('', 1) + 1} has no name; in the wide form it names a query")


def guesses(
    names: Sequence[str], form: TableForm, source: str, *, delimited: bool, only_long: bool = False
) -> list[str]:
    """Return a message for every assumption about an ambiguous table, with the option that makes it explicit."""
    if form.wide or not form.headed:
        return []
    chosen = long_columns(names, form, source)
    if chosen.named:
        return []
    key, query, value = (quoted(names[index]) for index in chosen.indices)
    found = []
    if delimited and form.header is None:
        found.append(
            f"{source}: line 1 is taken as the header ({key}, {query}, {value}), not as a fact. If it is a fact, pass "
            "header=False (--no-header); otherwise pass header=True (--header)"
        )
    if form.long is None:
        or_wide = ", or pass wide=True (--wide) if the first column contains the keys and every other column is a query"
        found.append(
            f"{source}: read as long, one fact per row, with the key in {key}, the query in {query} and the value in "
            f'{value}. Make this explicit with long=("KEY", "QUERY", "VALUE") (--long KEY QUERY VALUE)'
            f"{'' if only_long else or_wide}"
        )
    return found


def require_distinct(names: Sequence[str], source: str) -> None:
    """Raise `InputError` if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"{source}: two columns are named {quoted(twice)}")


def _require_delimited(names: Sequence[str], source: str) -> None:
    """Raise `InputError` if a single column looks like several that use another delimiter."""
    for mark, spelled in OTHER_DELIMITERS.items():
        if len(names) == 1 and mark in names[0]:
            raise InputError(
                f"{source}: only one column, {quoted(names[0])}; if {spelled!r} separates the columns, pass "
                f'delimiter="{spelled}" (--delimiter "{spelled}")'
            )


def key_column_name(queries: Sequence[str]) -> str:
    """Return the header of the key column in the wide form: "key", plus underscores if a query has that name.

    >>> key_column_name(["born_in", "key"])
    'key_'
    """
    name: str = COLUMNS[0]
    taken = set(queries)
    while name in taken:
        name += "_"
    return name


def _columns_asked_for(names: Sequence[str], asked: Sequence[str | int], source: str) -> LongColumns:
    key, query, value = (_index(names, column, source) for column in asked)
    if len({key, query, value}) < 3:
        raise InputError(f"{source}: key, query and value need three different columns; got {listed(asked)}")
    return LongColumns((key, query, value), named=all(column in names for column in asked))


def _index(names: Sequence[str], column: str | int, source: str) -> int:
    """Return the index of a column given by name or, if there is no such name, by 1-based position."""
    if column in names:
        return list(names).index(str(column))
    position = str(column)
    if position.isascii() and position.isdigit() and 1 <= int(position) <= len(names):
        return int(position) - 1
    raise InputError(f"{source}: no column {quoted(column)}; the columns are {listed(names)}")


def listed(names: Sequence[str | int]) -> str:
    """Return the first names as text, followed by the total if some were left out."""
    shown = ", ".join(quoted(name) for name in names[:SHOWN_COLUMNS])
    return shown + (f", ... ({len(names)} in all)" if len(names) > SHOWN_COLUMNS else "")
