"""The kinds of input, with how many of each the quick and the long form try."""

from __future__ import annotations

from typing import NamedTuple

from fuzz import checkpoints, layers, models, studies, tables, vectors
from fuzz.runner import Maker


class Kind(NamedTuple):
    """How inputs of a kind are made, and how many."""

    make: Maker
    quick: int
    share: float
    """Of the inputs of the long form."""


KINDS = {
    "tables": Kind(tables.make, 200, 0.5),
    "layers": Kind(layers.make, 12, 0.1),
    "models": Kind(models.make, 8, 0.05),
    "studies": Kind(studies.make, 16, 0.15),
    "vectors": Kind(vectors.make, 20, 0.1),
    "checkpoints": Kind(checkpoints.make, 40, 0.1),
}
