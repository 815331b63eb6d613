"""Recoding: the facts of one database in the codes of another, matched by name.

A layer knows the names it was trained on and their codes. A table read later has the same names in another order:
recoded onto the layer's database, its codes are rows of the layer's embedding.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Int

from factrank.databases.database import COLUMNS, Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError

SHOWN_NAMES, SHOWN_LETTERS = 3, 40


def recode(database: Database, onto: Database) -> Database:
    """The facts of `database` with the vocabularies of `onto`; an `InputError` lists the names that those lack.

    Names without a fact need not be known.

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
            complaints.append(f"{len(unknown)} of {used.sum()} {_plural(axis)} ({_few(mine, unknown)})")
    if complaints:
        sizes = ", ".join(f"{size} {_plural(axis)}" for axis, size in enumerate(onto.shape))
        raise InputError(f"names that are not among the {sizes} that are known: {'; '.join(complaints)}")
    return Database(recoded, *onto.vocabularies, database.duplicates)


def _plural(axis: int) -> str:
    return {"key": "keys", "query": "queries", "value": "values"}[COLUMNS[axis]]


def _few(vocabulary: Vocabulary, codes: Int[np.ndarray, " names"]) -> str:
    """The first few names, long ones cut short."""
    names = [vocabulary[int(code)] for code in codes[:SHOWN_NAMES]]
    shown = [repr(name if len(name) <= SHOWN_LETTERS else name[:SHOWN_LETTERS] + "...") for name in names]
    return ", ".join(shown + (["..."] if len(codes) > SHOWN_NAMES else []))
