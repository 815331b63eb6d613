"""Constructed models: weights of a closed form, with their certificate, score and alternatives.

Score. A table of n facts with |V| values contains n log2 |V| bits (`Database.bits`). Bits per parameter allow a
comparison with language models, which store about 2 bits per parameter of facts that they are trained on (Allen-Zhu and
Li 2024, arXiv 2404.05405) and about 3.6 of random text (Morris et al. 2025, arXiv 2505.24832). A parameter has 16 to 64
bits, and codes such as the parabola use many of them; bits per stored bit, at most 1, measure how well memory is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from factrank.certificates import CERTIFICATE_NOTE, Certificate
from factrank.display import Drawn
from factrank.nn import Precision, dtype_of, stored_scalars

CONSTRUCTION_NOTE = "construction"
"""Name of the note in a file that describes the construction."""

BITS_OF_LANGUAGE_MODELS = (2.0, 3.6)
"""Bits per parameter that trained language models store, for facts and for random text."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constructed(Drawn):
    """A model of any family in closed form, with its certificate.

    Arguments:
        model: Model with NumPy arrays on the host.
        data: Database or examples that it stores, which also define its codes.
        spec: Sizes and options.
        form: Name of the closed form.
        reason: Why this form was chosen.
        certificate: Proof of recall, or the reason why there is none.
        editing: Data needed for editing in addition to the weights; empty if editing means rebuilding.
        runners_up: Alternatives from best to worst, followed by forms that do not support the data.
        details: Entries specific to the family, accessible as `constructed["reading"]`.
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
        """Return an entry of `details`."""
        return self.details[name]

    def __repr__(self) -> str:
        return (
            f"Constructed({self.form}, {self.spec!r}, {self.parameters:,} parameters in {self.precision}, "
            f"{self.certificate!r})"
        )

    @property
    def notes(self) -> dict[str, str]:
        """Notes in its file: construction and certificate."""
        return notes_of(self.form, self.editing, self.certificate)

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return stored_scalars(self.model)

    @property
    def precision(self) -> Precision:
        """Type of the weights."""
        return self.certificate.precision

    @property
    def certified(self) -> bool:
        """True if every fact is proved to be recalled."""
        return self.certificate.certified

    @property
    def reserved(self) -> str | None:
        """The value that stands for "no fact"; None if there is none."""
        confidence = self.certificate.confidence
        return None if confidence is None else confidence.claim.unknown

    @property
    def facts_per_parameter(self) -> float:
        """Number of facts per parameter."""
        return self.certificate.facts / self.parameters

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the data per parameter."""
        return float(self.data.bits) / self.parameters

    @property
    def bits_per_stored_bit(self) -> float:
        """Bits of the data per bit of the weights."""
        return self.bits_per_parameter / width_in_bits(self.precision)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, including the certificate."""
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
            **({"plain": self.details["plain"]} if "plain" in self.details else {}),
        }

    def to_saved(self) -> Any:
        """Return the contents of its file: the model, the data, and notes for `verify` and `edit`."""
        from factrank.experiments.registry import family_of  # noqa: PLC0415 - not needed for constructing

        return family_of(self.spec).to_saved(self.model, self.data, self.spec, self.notes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file that `factrank verify` can check."""
        from factrank.experiments.models.model_files import write_saved  # noqa: PLC0415

        write_saved(path, self.to_saved())


def notes_of(form: str, editing: Mapping[str, Any], certificate: Certificate) -> dict[str, str]:
    """Return the notes in the file of a constructed model."""
    described = {"construction": form, "editing": dict(editing)}
    return {
        CONSTRUCTION_NOTE: json.dumps(described, ensure_ascii=True),
        CERTIFICATE_NOTE: certificate.to_json(),
    }


def width_in_bits(precision: Precision) -> int:
    """Return the number of bits of one weight.

    >>> width_in_bits("bfloat16"), width_in_bits("float64")
    (16, 64)
    """
    return 8 * dtype_of(precision).itemsize
