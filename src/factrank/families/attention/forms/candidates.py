"""Candidates: closed forms that `construct` considered, and what the file of a layer says of the one it chose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from factrank.errors import InputError
from factrank.experiments.models import CONSTRUCTION_NOTE
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.nn import Precision

AnyShape = LayerShape | TransformerShape


@dataclass(frozen=True)
class Candidate:
    """A construction that was considered.

    Arguments:
        construction: its name.
        precision: of the weights.
        shape: the size it has or would have; None where it is refused.
        parameters: all stored scalars; None likewise.
        margin: the least margin, where it was built.
        reason: why it was not chosen; of the chosen one, why it was.
    """

    construction: str
    precision: Precision
    shape: AnyShape | None = None
    parameters: int | None = None
    margin: float | None = None
    reason: str = ""


def places_of(editing: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of where facts lie; which values a range has is seen in the weights."""
    places = dict(editing)
    if "groups" in places:
        places["groups"] = [{name: at for name, at in group.items() if name != "values"} for group in places["groups"]]
    return places


def construction_of(saved: SavedLayer) -> tuple[str, dict[str, Any]]:
    """The name of the construction of a saved layer, and what its edits need; an `InputError` where it has none."""
    if CONSTRUCTION_NOTE not in saved.notes:
        raise InputError("the layer was not made by factrank construct, so its facts cannot be edited one by one")
    try:
        note = json.loads(saved.notes[CONSTRUCTION_NOTE])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the note on the construction must be JSON: {error}") from None
    if (
        not isinstance(note, dict)
        or set(note) != {"construction", "editing"}
        or not isinstance(note["construction"], str)
        or not isinstance(note["editing"], dict)
    ):
        raise InputError("the note on the construction holds its name and its editing data and nothing else")
    return note["construction"], note["editing"]
