"""Constructed layers: what `construct` chose, its certificate, its score, and the alternatives.

Score. A table of n facts with |V| values holds n log2 |V| bits (`Database.bits`). Bits per parameter compare layers
with language models, which store about 2 bits per parameter of the facts that they are trained on (Allen-Zhu and Li
2024, arXiv 2404.05405) and about 3.6 of random text (Morris et al. 2025, arXiv 2505.24832). A parameter has 16 to 64
bits, and codes such as the parabola use many of them: bits per stored bit, at most 1, say how well memory is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from factrank.certificates import CERTIFICATE_NOTE, Certificate
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.layer_files import SavedLayer, save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import AnyLayer, TransformerShape
from factrank.nn import Precision, dtype_of

AnyShape = LayerShape | TransformerShape

CONSTRUCTION_NOTE = "construction"
"""The name of the note of a layer file that says how the layer was constructed."""

BITS_OF_LANGUAGE_MODELS = (2.0, 3.6)
"""Bits per parameter that trained language models hold, of facts and of random text."""


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


@dataclass(frozen=True, eq=False)
class Constructed:
    """A layer that holds a database, and how it was chosen.

    Arguments:
        layer: NumPy arrays on the host.
        database: what it holds, in whose codes it speaks.
        construction: the name of the closed form.
        reason: why this one.
        editing: what edits need beside the weights; empty where to edit is to rebuild.
        certificate: the proof of recall, or why there is none.
        runners_up: the alternatives, from best to worst, then those that were refused.
    """

    layer: AnyLayer
    database: Database
    construction: str
    reason: str
    editing: Mapping[str, Any]
    certificate: Certificate
    runners_up: tuple[Candidate, ...] = ()

    @property
    def shape(self) -> AnyShape:
        """The sizes of the layer."""
        return self.layer.shape

    @property
    def parameters(self) -> int:
        """All stored scalars."""
        return self.layer.parameters

    @property
    def precision(self) -> Precision:
        """The type of the weights."""
        return self.certificate.precision

    @property
    def certified(self) -> bool:
        """Whether every fact is proved to be recalled."""
        return self.certificate.certified

    @property
    def facts_per_parameter(self) -> float:
        """Facts over parameters."""
        return self.database.n_facts / self.parameters

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the table over parameters."""
        return self.database.bits / self.parameters

    @property
    def bits_per_stored_bit(self) -> float:
        """Bits of the table over bits of the weights."""
        return self.bits_per_parameter / width_in_bits(self.precision)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the numbers of the certificate among them."""
        found = self.certificate
        return {
            "construction": self.construction,
            "reason": self.reason,
            "precision": self.precision,
            "shape": asdict(self.shape),
            "parameters": self.parameters,
            "facts": found.facts,
            "recalled": found.recalled,
            "margin": found.margin,
            "proved_margin": found.proved_margin,
            "certified": found.certified,
            "bits": self.database.bits,
            "facts_per_parameter": self.facts_per_parameter,
            "bits_per_parameter": self.bits_per_parameter,
            "bits_per_stored_bit": self.bits_per_stored_bit,
            "certificate": found.plain(),
            "runners_up": [asdict(candidate) for candidate in self.runners_up],
        }

    def to_saved(self) -> SavedLayer:
        """What a layer file holds: the layer, the database, and the notes that `verify` and `edit` read."""
        return SavedLayer(self.layer, self.database, notes_of(self.construction, self.editing, self.certificate))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a layer file; its name ends in .safetensors."""
        saved = self.to_saved()
        save_layer(path, saved.layer, saved.database, notes=saved.notes)


def width_in_bits(precision: Precision) -> int:
    """The bits that one weight takes.

    >>> width_in_bits("bfloat16"), width_in_bits("float64")
    (16, 64)
    """
    return 8 * dtype_of(precision).itemsize


def notes_of(construction: str, editing: Mapping[str, Any], certificate: Certificate) -> dict[str, str]:
    """The notes of the file of a constructed layer; which values a range has is seen in the weights."""
    places = dict(editing)
    if "groups" in places:
        places["groups"] = [{name: at for name, at in group.items() if name != "values"} for group in places["groups"]]
    described = {"construction": construction, "editing": places}
    return {
        CONSTRUCTION_NOTE: json.dumps(described, ensure_ascii=True),
        CERTIFICATE_NOTE: certificate.to_json(),
    }


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
