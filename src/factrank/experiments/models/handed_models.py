"""Handed models: a model of any family, in whatever it comes: bare, trained, constructed, or loaded from a file."""

from __future__ import annotations

from typing import Any, NamedTuple

from factrank.errors import InputError
from factrank.experiments.family import Family
from factrank.experiments.registry import family_of_model


class HandedModel(NamedTuple):
    """A model with its family, and the data that it should recall."""

    model: Any
    data: Any
    family: Family


def handed_model(given: Any, data: Any = None) -> HandedModel:
    """The model in what was handed in, with the data that are given or, if none are, those that it came with."""
    model = getattr(given, "model", given)
    family = family_of_model(model)
    if data is None and model is not given:
        data = next((own for name in ("data", "database") if (own := getattr(given, name, None)) is not None), None)
    if data is None:
        raise InputError(f"a {type(given).__name__} comes without data: hand in what it should recall too")
    return HandedModel(model, data, family)
