"""Constructed models: weights that a closed form gave, their certificate, their score, and the alternatives.

Score. A table of n facts with |V| values holds n log2 |V| bits (`Database.bits`). Bits per parameter compare models
with language models, which store about 2 bits per parameter of the facts that they are trained on (Allen-Zhu and Li
2024, arXiv 2404.05405) and about 3.6 of random text (Morris et al. 2025, arXiv 2505.24832). A parameter has 16 to 64
bits, and codes such as the parabola use many of them: bits per stored bit, at most 1, say how well memory is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from factrank.certificates import CERTIFICATE_NOTE, Certificate
from factrank.nn import Precision, dtype_of, stored_scalars

CONSTRUCTION_NOTE = "construction"
"""The name of the note of a file that says how the model was constructed."""

BITS_OF_LANGUAGE_MODELS = (2.0, 3.6)
"""Bits per parameter that trained language models hold, of facts and of random text."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constructed:
    """A model of any family in closed form, and what is proved of it.

    Arguments:
        model: NumPy arrays on the host.
        data: what it holds, in whose codes it speaks: a database, or the examples of a memoriser.
        spec: its sizes and options.
        form: the name of the closed form.
        reason: why this one.
        certificate: the proof of recall, or why there is none.
        editing: what edits need in addition to the weights; empty if to edit is to rebuild.
        runners_up: the alternatives, from best to worst, then those that were refused.
        details: what only the family has; `constructed["reading"]` reads it.
    """

    model: Any
    data: Any
    spec: Any
    form: str
    certificate: Certificate
    reason: str = "the one asked for"
    editing: Mapping[str, Any] = field(default_factory=dict)
    runners_up: tuple[Any, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """A detail."""
        return self.details[name]

    @property
    def notes(self) -> dict[str, str]:
        """What its file says of it: how it was made, and its certificate."""
        return notes_of(self.form, self.editing, self.certificate)

    @property
    def parameters(self) -> int:
        """All stored scalars."""
        return stored_scalars(self.model)

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
        return self.certificate.facts / self.parameters

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the data over parameters."""
        return float(self.data.bits) / self.parameters

    @property
    def bits_per_stored_bit(self) -> float:
        """Bits of the data over bits of the weights."""
        return self.bits_per_parameter / width_in_bits(self.precision)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the numbers of the certificate among them."""
        found = self.certificate
        return {
            "construction": self.form,
            "reason": self.reason,
            "precision": self.precision,
            "shape": asdict(self.spec),
            "parameters": self.parameters,
            "facts": found.facts,
            "recalled": found.recalled,
            "margin": found.margin,
            "proved_margin": found.proved_margin,
            "certified": found.certified,
            "bits": self.data.bits,
            "facts_per_parameter": self.facts_per_parameter,
            "bits_per_parameter": self.bits_per_parameter,
            "bits_per_stored_bit": self.bits_per_stored_bit,
            "certificate": found.plain(),
            "runners_up": [asdict(candidate) for candidate in self.runners_up],
        }

    def to_saved(self) -> Any:
        """What its file holds: the model, the data, and the notes that `verify` and `edit` read."""
        from factrank.experiments.registry import family_of  # noqa: PLC0415 - constructing alone needs no registry

        return family_of(self.spec).to_saved(self.model, self.data, self.spec, self.notes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `factrank verify` checks; its name ends in .safetensors."""
        from factrank.experiments.models.model_files import write_saved  # noqa: PLC0415

        write_saved(path, self.to_saved())


def notes_of(form: str, editing: Mapping[str, Any], certificate: Certificate) -> dict[str, str]:
    """The notes of the file of a constructed model."""
    described = {"construction": form, "editing": dict(editing)}
    return {
        CONSTRUCTION_NOTE: json.dumps(described, ensure_ascii=True),
        CERTIFICATE_NOTE: certificate.to_json(),
    }


def width_in_bits(precision: Precision) -> int:
    """The bits that one weight takes.

    >>> width_in_bits("bfloat16"), width_in_bits("float64")
    (16, 64)
    """
    return 8 * dtype_of(precision).itemsize
