"""Extract the model, data and specification from a model, a training result, a constructed model or a loaded file."""

from __future__ import annotations

from typing import Any, NamedTuple

from factrank.databases import Database, recode
from factrank.errors import InputError
from factrank.experiments.family import Family
from factrank.experiments.registry import families, family_of_model
from factrank.experiments.specs import DataSpec, Given, has_role
from factrank.readouts import ReadsFacts


class HandedModel(NamedTuple):
    """A model with its data, family and specification."""

    model: Any
    data: Any
    family: Family
    spec: Any


def handed_model(given: Any, data: Any = None) -> HandedModel:
    """Return the model in an object, with the given data or, if None, the data of the object.

    If the object has a database, the model uses its codes: facts of another database are matched by name. An object
    that is itself a model is never searched for another one.

    Raises:
        InputError: If the object contains no model of a registered family, or no data.
    """
    is_model = any(family.spec_of(given) is not None for family in families().values())
    if not is_model and isinstance(given, ReadsFacts):
        raise InputError(f"a {type(given).__name__} is not a model of the families {', '.join(families())}")
    model = given if is_model else getattr(given, "model", given)
    family = family_of_model(model)
    own = None if is_model else _first(given, "data", "database")
    data = own if data is None else data
    if data is None:
        raise InputError(f"a {type(given).__name__} has no data; also pass the data that it should recall")
    if isinstance(data, Given):
        raise InputError("expected data; a fingerprint only identifies them")
    data = data.build() if has_role(data, DataSpec) else data
    if isinstance(own, Database) and isinstance(data, Database) and own.vocabularies != data.vocabularies:
        data = recode(data, onto=own)
    return HandedModel(model, data, family, _spec(given, model, family))


def _spec(given: Any, model: Any, family: Family) -> Any:
    """Look up the specification in the object, in the trial that trained the model, or in the model itself."""
    if given is model:
        return family.spec_of(model)
    by_trial = getattr(getattr(given, "trial", None), "model", None)
    return next(spec for spec in (getattr(given, "spec", None), by_trial, family.spec_of(model)) if spec is not None)


def _first(given: Any, *names: str) -> Any:
    return next((own for name in names if (own := getattr(given, name, None)) is not None), None)
