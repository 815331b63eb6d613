"""Placed facts: facts with their line or row, collected, and named where one (key, query) has several values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from factrank.databases.database import SHOWN_OFFENDERS, Database, Fact
from factrank.errors import ConflictError, InputError
from factrank.foreign_text import shown_name

PlacedFact = tuple[int, Fact]
"""A fact with its 1-based line or row."""

SHOWN_VALUES = 4


def collect(path: Path, placed: Iterable[PlacedFact]) -> Database:
    """The facts of a file that is read line by line, multi-valued where they are."""
    database = Database.from_facts((fact for _, fact in placed), multi=True)
    if not len(database):
        raise InputError(f"{path}: no facts")
    return database


def require_functional(
    database: Database, source: str, place: str, placed: Callable[[], Iterable[PlacedFact]]
) -> Database:
    """This database, or a `ConflictError` that names the lines or rows of the first offenders.

    `placed` goes through the source once more, and only when there is an offender.
    """
    try:
        return database.require_functional(source)
    except ConflictError as error:
        found = sorted(_found(set(_offending_facts(database)), placed()))
        lines = [f"  {place} {number}: ({', '.join(map(shown_name, fact))})" for number, fact in found]
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


def _found(wanted: set[Fact], placed: Iterable[PlacedFact]) -> Iterator[PlacedFact]:
    for number, fact in placed:
        if fact in wanted:
            wanted.remove(fact)
            yield number, fact
        if not wanted:
            return
