"""Handed models: a model of any family, in whatever it comes: bare, trained, constructed, or loaded from a file."""

from __future__ import annotations

from typing import Any, NamedTuple

from factrank.databases import Database, recode
from factrank.errors import InputError
from factrank.experiments.family import Family
from factrank.experiments.registry import families, family_of_model
from factrank.experiments.specs import DataSpec, Given, has_role
from factrank.readouts import ReadsFacts


class HandedModel(NamedTuple):
    """A model with its family and its specification, and the data that it should recall."""

    model: Any
    data: Any
    family: Family
    spec: Any


def handed_model(given: Any, data: Any = None) -> HandedModel:
    """The model in what was handed in, with the data that are given or, if none are, those that it came with.

    A model that came with a database speaks in its codes: the facts of another one are matched by name. What answers by
    itself is never taken for what carries a model.
    """
    is_model = any(family.spec_of(given) is not None for family in families().values())
    if not is_model and isinstance(given, ReadsFacts):
        raise InputError(f"a {type(given).__name__} is no model of the families {', '.join(families())}")
    model = given if is_model else getattr(given, "model", given)
    family = family_of_model(model)
    own = None if is_model else _first(given, "data", "database")
    data = own if data is None else data
    if data is None:
        raise InputError(f"a {type(given).__name__} comes without data: hand in what it should recall too")
    if isinstance(data, Given):
        raise InputError("data are verified themselves; a fingerprint only names them")
    data = data.build() if has_role(data, DataSpec) else data
    if isinstance(own, Database) and isinstance(data, Database) and own.vocabularies != data.vocabularies:
        data = recode(data, onto=own)
    return HandedModel(model, data, family, _spec(given, model, family))


def _spec(given: Any, model: Any, family: Family) -> Any:
    """The specification, from whatever carries the model, the trial that trained it, or the model itself."""
    if given is model:
        return family.spec_of(model)
    by_trial = getattr(getattr(given, "trial", None), "model", None)
    return next(spec for spec in (getattr(given, "spec", None), by_trial, family.spec_of(model)) if spec is not None)


def _first(given: Any, *names: str) -> Any:
    return next((own for name in names if (own := getattr(given, name, None)) is not None), None)
