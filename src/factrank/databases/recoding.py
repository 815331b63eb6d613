"""Recode a database to the vocabularies of another, matching names.

The codes of a layer's database are rows of its embedding. A table that is read later may list the same names in another
order, so it must be recoded before the layer can be evaluated on it.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Int

from factrank.databases.database import COLUMNS, Database
from factrank.errors import InputError
from factrank.foreign_text import few


def recode(database: Database, onto: Database) -> Database:
    """Return the facts of `database` with the vocabularies of `onto`.

    Raises:
        InputError: If a fact of `database` uses a name that `onto` does not have; the message lists them.

    >>> known = Database.from_facts([("Lima", "country", "Peru"), ("Oslo", "country", "Norway")])
    >>> recode(Database.from_facts([("Oslo", "country", "Norway")]), onto=known)
    Database(1 facts: 2 keys x 1 queries -> 2 values, functional)
      (Oslo, country, Norway)
    """
    recoded, unknown = _recoded(database, onto)
    complaints = [
        f"{len(codes)} of {len(np.unique(database.triples[:, axis]))} {_plural(axis)} "
        f"({few([database.vocabularies[axis][int(code)] for code in codes[:4]])})"
        for axis, codes in enumerate(unknown)
        if len(codes)
    ]
    if complaints:
        sizes = ", ".join(f"{size} {_plural(axis)}" for axis, size in enumerate(onto.shape))
        raise InputError(f"unknown names: {'; '.join(complaints)}; there are {sizes}")
    return Database(recoded, *onto.vocabularies, database.duplicates)


def known_facts(database: Database, onto: Database) -> Database:
    """Return the facts of `database` whose names `onto` has, with the vocabularies of `onto`; drop the others.

    >>> known = Database.from_facts([("Lima", "country", "Peru"), ("Oslo", "country", "Norway")])
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Oslo", "country", "Sweden")], multi=True)
    >>> list(known_facts(facts, onto=known))
    [('Oslo', 'country', 'Norway')]
    """
    recoded, _ = _recoded(database, onto)
    return Database(recoded[(recoded >= 0).all(axis=1)], *onto.vocabularies)


def _recoded(database: Database, onto: Database) -> tuple[Int[np.ndarray, "facts 3"], list[Int[np.ndarray, " names"]]]:
    """Return the facts in the codes of `onto`, -1 for unknown names, and the codes of these names on each axis."""
    recoded = np.empty_like(database.triples)
    unknown = []
    for axis, (mine, theirs) in enumerate(zip(database.vocabularies, onto.vocabularies, strict=True)):
        new_codes = pc.fill_null(pc.index_in(mine.names, value_set=theirs.names), -1).to_numpy(zero_copy_only=False)
        recoded[:, axis] = new_codes[database.triples[:, axis]]
        unknown.append(np.unique(database.triples[recoded[:, axis] < 0, axis]))
    return recoded, unknown


def _plural(axis: int) -> str:
    return {"key": "keys", "query": "queries", "value": "values"}[COLUMNS[axis]]
