"""Accept models in any form: bare, trained, constructed, or loaded from a file.

Every public function that evaluates a model on facts calls `handed_in` or `with_facts`, so all of them accept the same
arguments and raise the same errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from factrank.databases import COLUMNS, Column, Database, close_names, recode
from factrank.errors import InputError
from factrank.foreign_text import few
from factrank.readouts.evaluation_blocks import ReadsFacts, require_code

AnyModel = Any
"""A `ReadsFacts` model, or an object with a `model` attribute: trained, constructed, or loaded from a file."""


SWAPPED: dict[Column, Column] = {"key": "query", "query": "key"}
"""Arguments that are easily swapped."""


class HandedIn(NamedTuple):
    """A model and the database that defines its codes, if it has one."""

    model: ReadsFacts
    database: Database | None


def handed_in(given: AnyModel) -> HandedIn:
    """Return the model and its database, or raise `InputError` if the model does not compute logits of pairs."""
    carried = given if isinstance(given, ReadsFacts) else getattr(given, "model", given)
    if not isinstance(carried, ReadsFacts):
        raise InputError(
            "expected a model that reads facts (a layer, or a trained, constructed or loaded model); "
            f"got {type(carried).__name__}, which does not answer (key, query) pairs"
        )
    came_with = () if carried is given else (getattr(given, name, None) for name in ("database", "data"))
    return HandedIn(carried, next((one for one in came_with if isinstance(one, Database)), None))


def with_facts(given: AnyModel, database: Database | None = None) -> tuple[ReadsFacts, Database]:
    """Return the model and the facts to evaluate it on: `database`, else the model's own facts.

    If the codes of `database` differ from the model's, facts are matched by name.

    Raises:
        InputError: If there are no facts, or a name is unknown to the model.
    """
    model, own = handed_in(given)
    if database is None:
        if own is None:
            raise InputError(f"a {type(given).__name__} has no facts: pass the database too")
        return model, own
    if not isinstance(database, Database):
        raise InputError(f"expected a Database of facts; got {type(database).__name__}")
    if own is not None and own.vocabularies != database.vocabularies:
        return model, recode(database, onto=own)
    return model, database


def reserved_code(given: AnyModel, database: Database) -> int | None:
    """Return the code of the value that a constructed or loaded layer reserves for pairs without a fact, if any."""
    name = None if isinstance(given, ReadsFacts) else getattr(given, "reserved", None)
    return database.values.index(name) if name is not None and name in database.values else None


def code_of(kind: Column, asked: str | int, model: ReadsFacts, database: Database | None) -> int:
    """Return the code of a key, query or value given by code or, if the database is known, by name."""
    sizes = dict(zip(COLUMNS, (model.n_keys, model.n_queries, model.n_values), strict=True))
    if not isinstance(asked, str):
        if isinstance(asked, bool) or not isinstance(asked, int | np.integer):
            raise InputError(f"a {kind} must be a name or an integer code; got {asked!r}")
        return require_code(kind, asked, sizes[kind])
    if database is None:
        raise InputError(f"{asked!r} is a name: pass the database too, or the code of the {kind}")
    vocabularies = dict(zip(COLUMNS, database.vocabularies, strict=True))
    known = vocabularies[kind]
    if asked in known:
        return known.index(asked)
    swapped = SWAPPED.get(kind)
    if swapped is not None and asked in vocabularies[swapped]:
        raise InputError(f"{asked!r} is a {swapped} of this layer, not a {kind}: the order is key, query")
    close = close_names(asked, known)
    shown = few(close or known[:3], longest=62)
    hint = f"did you mean {shown}?" if close else f"there are {len(known):,}, such as {shown}"
    raise InputError(f"{asked!r} is not a {kind} of this layer; {hint}")
