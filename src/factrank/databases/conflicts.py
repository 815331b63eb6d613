"""Placed facts: facts with their line or row, collected, and named where one (key, query) has several values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from factrank.databases.database import SHOWN_OFFENDERS, Database, Fact
from factrank.databases.source_files import SourceFile
from factrank.errors import ConflictError, InputError
from factrank.foreign_text import shown_name

PlacedFact = tuple[int, Fact]
"""A fact with its 1-based line or row."""

SHOWN_VALUES = 4


def collect(source: SourceFile, placed: Iterable[PlacedFact]) -> Database:
    """The facts of a file that is read line by line, multi-valued where they are."""
    database = Database.from_facts((fact for _, fact in placed), multi=True)
    if not len(database):
        raise InputError(f"{source}: no facts")
    return database


def require_functional(database: Database, source: str, named: Callable[[], Iterable[tuple[str, Fact]]]) -> Database:
    """This database, or a `ConflictError` that names the lines or rows of the first offenders.

    `named` goes through the source once more, and only when there is an offender; it gives each fact after the name of
    its place, such as "line 3".
    """
    try:
        return database.require_functional(source)
    except ConflictError as error:
        found = _found(set(_offending_facts(database)), named())
        lines = [f"  {place}: ({', '.join(map(shown_name, fact))})" for place, fact in found]
        offenders, _, advice = str(error).rpartition("\n")
        raise ConflictError("\n".join([offenders, "They stand in", *lines, advice])) from None


def _offending_facts(database: Database) -> Iterator[Fact]:
    """Some facts of the first fibers that have several values."""
    pairs = database.triples[:, :2]
    repeated = np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))
    fibers: dict[tuple[int, int], None] = {}
    for row in repeated:
        fibers.setdefault((int(pairs[row, 0]), int(pairs[row, 1])))
        if len(fibers) == SHOWN_OFFENDERS:
            break
    for key, query in fibers:
        names = database.keys[key], database.queries[query]
        yield from ((*names, value) for value in database.fiber(*names)[:SHOWN_VALUES])


def _found(wanted: set[Fact], named: Iterable[tuple[str, Fact]]) -> Iterator[tuple[str, Fact]]:
    for place, fact in named:
        if fact in wanted:
            wanted.remove(fact)
            yield place, fact
        if not wanted:
            return
