"""Handed in: a model that reads facts, in whatever it comes: bare, trained, constructed, or loaded from a file.

Every function that asks a model for facts goes through `handed_in` or `with_facts`, so that all of them accept the same
things and complain in the same words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from factrank.databases import COLUMNS, Column, Database, close_names, recode
from factrank.errors import InputError
from factrank.readouts.evaluation_blocks import ReadsFacts, require_code

AnyModel = Any
"""A model that reads facts, or something that has one as its `model`: trained, constructed, or read from a file."""


SWAPPED: dict[Column, Column] = {"key": "query", "query": "key"}
"""What is easily given in the place of the other."""


class HandedIn(NamedTuple):
    """A model, and the database in whose codes it speaks, where that came with it."""

    model: ReadsFacts
    database: Database | None


def handed_in(given: AnyModel) -> HandedIn:
    """The model in what was handed in; an `InputError` if there is none that reads facts."""
    carried = given if isinstance(given, ReadsFacts) else getattr(given, "model", given)
    if not isinstance(carried, ReadsFacts):
        raise InputError(
            "expected a model that reads facts, or something trained, constructed or loaded that has one; "
            f"got {type(carried).__name__}, which does not answer (key, query) pairs"
        )
    came_with = () if carried is given else (getattr(given, name, None) for name in ("database", "data"))
    return HandedIn(carried, next((one for one in came_with if isinstance(one, Database)), None))


def with_facts(given: AnyModel, database: Database | None = None) -> tuple[ReadsFacts, Database]:
    """The model, and the facts to ask it for in its own codes: those given, else those it came with.

    Facts in other codes than those that the model came with are matched by name.
    """
    model, own = handed_in(given)
    if database is None:
        if own is None:
            raise InputError(f"a {type(given).__name__} comes without facts: hand in the database too")
        return model, own
    if not isinstance(database, Database):
        raise InputError(f"expected a Database of facts; got {type(database).__name__}")
    if own is not None and own.vocabularies != database.vocabularies:
        return model, recode(database, onto=own)
    return model, database


def code_of(kind: Column, asked: str | int, model: ReadsFacts, database: Database | None) -> int:
    """The code of a key, query or value that is asked for by its code or, where the database is known, by its name."""
    sizes = dict(zip(COLUMNS, (model.n_keys, model.n_queries, model.n_values), strict=True))
    if not isinstance(asked, str):
        if isinstance(asked, bool) or not isinstance(asked, int | np.integer):
            raise InputError(f"a {kind} is asked for by its name or its code; got {asked!r}")
        return require_code(kind, asked, sizes[kind])
    if database is None:
        raise InputError(f"{asked!r} is a name: hand in the database too, or ask for the code of the {kind}")
    vocabularies = dict(zip(COLUMNS, database.vocabularies, strict=True))
    known = vocabularies[kind]
    if asked in known:
        return known.index(asked)
    swapped = SWAPPED.get(kind)
    if swapped is not None and asked in vocabularies[swapped]:
        raise InputError(f"{asked!r} is a {swapped} of this layer, not a {kind}: the order is key, query")
    close = close_names(asked, known)
    shown = ", ".join(repr(name if len(name) <= 60 else f"{name[:57]}...") for name in close or list(known[:3]))
    hint = f"did you mean {shown}?" if close else f"it knows {len(known):,}, such as {shown}"
    raise InputError(f"{asked!r} is not a {kind} that this layer knows; {hint}")
