"""Recode a database to the vocabularies of another, matching names.

The codes of a layer's database are rows of its embedding. A table that is read later may list the same names in another
order, so it must be recoded before the layer can be evaluated on it.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

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
    recoded = np.empty_like(database.triples)
    complaints = []
    for axis, (mine, theirs) in enumerate(zip(database.vocabularies, onto.vocabularies, strict=True)):
        new_codes = pc.fill_null(pc.index_in(mine.names, value_set=theirs.names), -1).to_numpy(zero_copy_only=False)
        recoded[:, axis] = new_codes[database.triples[:, axis]]
        used = np.bincount(database.triples[:, axis], minlength=len(mine)) > 0
        unknown = np.flatnonzero(used & (new_codes < 0))
        if len(unknown):
            complaints.append(
                f"{len(unknown)} of {used.sum()} {_plural(axis)} ({few([mine[int(code)] for code in unknown[:4]])})"
            )
    if complaints:
        sizes = ", ".join(f"{size} {_plural(axis)}" for axis, size in enumerate(onto.shape))
        raise InputError(f"unknown names: {'; '.join(complaints)}; there are {sizes}")
    return Database(recoded, *onto.vocabularies, database.duplicates)


def _plural(axis: int) -> str:
    return {"key": "keys", "query": "queries", "value": "values"}[COLUMNS[axis]]
