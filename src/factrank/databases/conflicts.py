"""Facts with their line or row, for error messages about a (key, query) with several values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from factrank.databases.database import SHOWN_VALUES, Database, Fact
from factrank.databases.source_files import SourceFile
from factrank.errors import ConflictError, InputError
from factrank.foreign_text import shown_name

PlacedFact = tuple[int, Fact]
"""A fact with its 1-based line or row."""


def collect(source: SourceFile, placed: Iterable[PlacedFact]) -> Database:
    """Return the database of a file that is read line by line; it may be multi-valued."""
    database = Database.from_facts((fact for _, fact in placed), multi=True)
    if not len(database):
        raise InputError(f"{source}: no facts")
    return database


def require_functional(database: Database, source: str, named: Callable[[], Iterable[tuple[str, Fact]]]) -> Database:
    """Return the database if it is functional.

    Arguments:
        database: The database to check.
        source: Name of the file or table for the message.
        named: Returns every fact with its location, such as "line 3". Called only if there is a conflict.

    Raises:
        ConflictError: If a (key, query) has several values; the message lists the lines or rows of the first ones.
    """
    try:
        return database.require_functional(source)
    except ConflictError as error:
        pairs = database.conflicts()
        wanted = {(*pair, value) for pair in pairs for value in database.fiber(*pair)[:SHOWN_VALUES]}
        found = _found(wanted, named())
        lines = [f"  {place}: ({', '.join(map(shown_name, fact))})" for place, fact in found]
        offenders, _, advice = str(error).rpartition("\n")
        raise ConflictError("\n".join([offenders, "Found in", *lines, advice])) from None


def _found(wanted: set[Fact], named: Iterable[tuple[str, Fact]]) -> Iterator[tuple[str, Fact]]:
    for place, fact in named:
        if fact in wanted:
            wanted.remove(fact)
            yield place, fact
        if not wanted:
            return
