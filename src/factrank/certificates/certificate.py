"""`Certificate`: whether a model provably recalls every fact of its data, and how it was checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isclose, isfinite
from typing import Any, Literal, get_args

from factrank.certificates.confidence import Confidence, ConfidenceClaim, confidence_from_plain
from factrank.display import Shown
from factrank.errors import InputError
from factrank.nn import Precision
from factrank.readouts import finite_data

ArithmeticUsed = Literal["exact integers", "running error bound", "none"]

CERTIFICATE_NOTE = "certificate"
"""Name of the note in a model file that contains the certificate."""

LARGEST_INTEGER = 2**63
"""Limit of the integers in a certificate, which rejects numbers with hundreds of digits."""

TOLERANCE = 1e-3
"""Relative difference of proved margins that is allowed between machines, unless the arithmetic is exact."""


@dataclass(frozen=True, kw_only=True)
class Certificate(Shown):
    """Result of checking and proving the recall of a model.

    It is valid for the weights and facts with these fingerprints, evaluated in `precision` without reduced-precision
    products; the module `arithmetic` lists the assumptions about floating-point arithmetic. The facts of a memoriser
    are its examples.

    Arguments:
        certified: Whether every fact is recalled by the model's own forward pass and under any floating-point summation
            order.
        facts: Number of facts, all of which were checked.
        recalled: Number of facts that the forward pass recalls; ties are errors.
        margin: Smallest margin in the forward pass; infinite if there are no facts or no competing values.
        proved_margin: Lower bound of the margin in every evaluation; minus infinity if nothing was proved.
        worst: Fact with the smallest margin in the forward pass: its names, or the number of an example.
        details: Entries specific to the family, such as the `length` of sequences in factual recall, also available as
            `certificate["length"]`.
        arithmetic: Arithmetic of the proof; "none" if there is no proof.
        precision: Precision of the evaluation.
        reason: Why the model is not certified; empty if it is.
        weights: SHA-256 of the weights.
        database: Fingerprint of the facts.
        confidence: A claim about probabilities and its proof, which `certified` includes; None if nothing is claimed.
        fixed: Names of the details that are the same on every machine, which `differences` compares.
    """

    certified: bool
    facts: int
    recalled: int
    margin: float
    proved_margin: float
    worst: tuple[str, ...] | int | None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    arithmetic: ArithmeticUsed
    precision: Precision
    reason: str
    weights: str
    database: str
    confidence: Confidence | None = None
    fixed: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Return a detail."""
        if name not in self.details:
            raise KeyError(f"no detail {name!r}; the details are {', '.join(self.details) or 'none'}")
        return self.details[name]

    def __repr__(self) -> str:
        verdict = f"certified by {self.arithmetic}" if self.certified else f"not certified: {self.reason}"
        margins = f"least margin {self.margin:.3g}, proved {self.proved_margin:.3g}"
        return f"Certificate({verdict}; {self.recalled:,} of {self.facts:,} recalled in {self.precision}, {margins})"

    @property
    def recall(self) -> float:
        """Fraction of facts that the forward pass recalls."""
        return self.recalled / self.facts if self.facts else 1.0

    def plain(self) -> dict[str, Any]:
        """Return all fields by name, including the details."""
        found: dict[str, Any] = {}
        for name in _names():
            found |= self.details if name == "details" else {name: getattr(self, name)}
        return found if self.confidence is None else {**found, "confidence": self.confidence.plain()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinite and NaN margins become None."""
        plain: dict[str, Any] = finite_data(self.plain())
        return plain

    def to_json(self) -> str:
        """Return the certificate as JSON, as stored in model files."""
        return json.dumps(self.to_dict(), ensure_ascii=True)

    def differences(self, other: Certificate) -> tuple[str, ...]:
        """Return the names of the fields in which another certificate of the same model and data differs.

        Weights are always compared, other fields only if the facts are the same. Margins may differ by rounding unless
        the arithmetic is exact.
        """
        found = ["weights"] if self.weights != other.weights else []
        if self.database != other.database:
            return tuple(found)
        counts = ("certified", "facts", "recalled", "arithmetic", "precision")
        found += [name for name in counts if getattr(self, name) != getattr(other, name)]
        found += [name for name in self.fixed if self.details[name] != other.details.get(name)]
        if self.confidence is not None:
            found += self.confidence.differences(other.confidence)
        elif other.confidence is not None:
            found.append("confidence")
        exact = self.arithmetic == other.arithmetic == "exact integers"
        proved = min(self.proved_margin, other.proved_margin)
        for name in ("margin", "proved_margin"):
            mine, theirs = getattr(self, name), getattr(other, name)
            agree = mine == theirs if exact else isclose(mine, theirs, rel_tol=TOLERANCE)
            # Forward passes on two machines may differ by as much as the proof allows.
            allowed = name == "margin" and not exact and min(mine, theirs) >= proved
            if not (agree or allowed):
                found.append(name)
        return tuple(found)


def storage(parameters: int, bits: float | None, recall: float) -> dict[str, Any]:
    """Return storage details: number of parameters, bits of the facts, and bits recalled per parameter."""
    per_parameter = None if bits is None else recall * bits / parameters
    return {"parameters": parameters, "bits": bits, "bits_per_parameter": per_parameter}


def certificate_from_json(text: str, like: Certificate) -> Certificate:
    """Parse a certificate.

    Arguments:
        text: The certificate as JSON.
        like: A certificate of the same model, which has the same details.

    Raises:
        InputError: If the text is not a valid certificate; the message names the field.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the certificate must be JSON: {error}") from None
    names = [name for name in like.plain() if name != "confidence"]
    if isinstance(data, dict) and "artifacts" in data and "hallucinations" in names:
        data["hallucinations"] = data.pop("artifacts")  # its name in files of version 0.1
    claimed = data.pop("confidence", None) if isinstance(data, dict) else None
    confidence = None if claimed is None else confidence_from_plain(claimed)
    if not isinstance(data, dict) or set(data) != set(names):
        raise InputError(f"a certificate must have exactly the fields {', '.join(names)}")
    for name, sound in _sound(data, like).items():
        if not sound:
            raise InputError(f"invalid {name} in the certificate: {str(data[name])[:60]!r}")
    worst = data["worst"]
    # JSON has no infinity: null is a margin without competitors (inf), or without a proof (-inf).
    absent = {"margin": inf, "proved_margin": inf if data["certified"] else -inf}
    margins = {name: absent[name] if data[name] is None else float(data[name]) for name in absent}
    own = {name: data[name] for name in _names() if name != "details"} | margins
    details = {name: data[name] for name in like.details}
    return Certificate(
        **{**own, "worst": tuple(worst) if isinstance(worst, list) else worst},
        details=details,
        confidence=confidence,
        fixed=like.fixed,
    )


def claim_in(notes: Mapping[str, str]) -> ConfidenceClaim | None:
    """Return the claim about probabilities of the certificate in the notes of a file; None if there is none.

    Raises:
        InputError: If the certificate cannot be read.
    """
    if CERTIFICATE_NOTE not in notes:
        return None
    try:
        data = json.loads(notes[CERTIFICATE_NOTE])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the certificate must be JSON: {error}") from None
    claimed = data.get("confidence") if isinstance(data, dict) else None
    return None if claimed is None else confidence_from_plain(claimed).claim


def _names() -> list[str]:
    return [one.name for one in fields(Certificate) if one.name not in {"confidence", "fixed"}]


def _sound(data: Mapping[str, Any], like: Certificate) -> dict[str, bool]:
    """Return whether each field has the right type."""
    worst = data["worst"]
    named = isinstance(worst, list) and len(worst) == 3 and all(isinstance(name, str) for name in worst)
    return {
        "certified": isinstance(data["certified"], bool),
        "worst": worst is None or named or _is_count(worst),
        "arithmetic": data["arithmetic"] in get_args(ArithmeticUsed),
        "precision": data["precision"] in get_args(Precision),
        **{name: isinstance(data[name], str) for name in ("reason", "weights", "database")},
        **{name: _is_count(data[name]) for name in ("facts", "recalled")},
        **{name: data[name] is None or _is_number(data[name]) for name in ("margin", "proved_margin")},
        **{name: _is_like(data[name], value) for name, value in like.details.items()},
    }


def _is_like(value: object, known: object) -> bool:
    """Return whether a detail has the type of a known one; either may be null."""
    if value is None or known is None:
        return value is None or _is_number(value)
    return _is_count(value) if _is_count(known) else _is_number(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_INTEGER
