"""Forms that `construct` considered, and the construction note of a layer file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from factrank.errors import InputError
from factrank.experiments.models import CONSTRUCTION_NOTE, Constructed
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.nn import Precision


@dataclass(frozen=True)
class Candidate:
    """A form that `construct` considered, in one precision.

    Arguments:
        construction: the name of the form.
        precision: type of the weights.
        shape: the actual or expected size; None if the form is refused.
        parameters: number of stored scalars; None if the form is refused.
        margin: the least margin, if the layer was built.
        reason: why it was not chosen; empty if it is merely larger.
    """

    construction: str
    precision: Precision
    shape: LayerShape | TransformerShape | None = None
    parameters: int | None = None
    margin: float | None = None
    reason: str = ""


def refused_forms(found: Constructed) -> dict[str, tuple[Precision, ...]]:
    """Return the precisions in which each form was refused, without the chosen form.

    The chosen form may itself be refused in another precision if several were tried (`minimise="bits"`).

    >>> from factrank.databases import Database
    >>> from factrank import construct
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> refused_forms(construct(facts, "bfloat16", only=["binary", "linear-solve"]))
    {'linear-solve': ('bfloat16',)}
    """
    refused = [one for one in found.runners_up if one.shape is None and one.construction != found.form]
    return {
        name: tuple(one.precision for one in refused if one.construction == name)
        for name in dict.fromkeys(one.construction for one in refused)
    }


def places_of(editing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the editing data that a file records; the values of a range are read from the weights instead."""
    places = dict(editing)
    if "groups" in places:
        places["groups"] = [{name: at for name, at in group.items() if name != "values"} for group in places["groups"]]
    return places


def construction_of(saved: SavedLayer) -> tuple[str, dict[str, Any]]:
    """Return the form and the editing data of a saved layer.

    Raises:
        InputError: the layer was not made by `construct`, or its note is malformed.
    """
    if CONSTRUCTION_NOTE not in saved.notes:
        raise InputError("the layer was not made by factrank construct, so its facts cannot be edited one by one")
    try:
        note = json.loads(saved.notes[CONSTRUCTION_NOTE])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the construction note is not valid JSON: {error}") from None
    types = {"construction": str, "editing": dict}
    if not isinstance(note, dict) or {name: type(item) for name, item in note.items()} != types:
        raise InputError("the construction note must contain exactly a name (construction) and an object (editing)")
    return note["construction"], note["editing"]
