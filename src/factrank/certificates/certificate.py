"""Certificate: that a model recalls every fact of its data, what was checked and how it was proved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isclose, isfinite
from typing import Any, Literal, get_args

from factrank.errors import InputError
from factrank.nn import Precision
from factrank.readouts import finite_data

ArithmeticUsed = Literal["exact integers", "running error bound", "none"]

CERTIFICATE_NOTE = "certificate"
"""The name of the note of a file that holds the certificate."""

LARGEST_INTEGER = 2**63
"""No whole number of a certificate is larger; one of hundreds of digits is no number of anything."""

TOLERANCE = 1e-3
"""Proved margins that were not computed in exact arithmetic may differ so much between machines, relatively."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is known of a model's recall of its data, whichever family it belongs to.

    It holds for the weights and the facts with these fingerprints, evaluated in `precision` without shortened products;
    the module `arithmetic` lists what is assumed of a machine. The facts of a memoriser are its examples.

    Arguments:
        certified: every fact is recalled by the model's own forward pass, and by every other order of evaluation.
        facts: number of facts, all of which were checked.
        recalled: facts that the forward pass gets right; ties are wrong.
        margin: the least margin in the forward pass; infinite without facts or competing values.
        proved_margin: lower bound of the margin in every evaluation; minus infinity if nothing was proved.
        worst: the fact with the least margin in the forward pass: its names, or the number of an example.
        details: what only the family has, such as the `length` of the sequences of factual recall;
            `certificate["length"]` reads it.
        arithmetic: how the proof goes; "none" if there is none.
        precision: of the evaluation.
        reason: why it is not certified; empty if it is.
        weights: SHA-256 of the weights.
        database: the fingerprint of the facts.
        fixed: the details that are the same on every machine, so that `differences` compares them.
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
    fixed: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """A detail."""
        if name not in self.details:
            raise KeyError(f"no detail {name!r}; there are {', '.join(self.details) or 'none'}")
        return self.details[name]

    @property
    def recall(self) -> float:
        """Fraction of facts that the forward pass gets right."""
        return self.recalled / self.facts if self.facts else 1.0

    def plain(self) -> dict[str, Any]:
        """All numbers by name, the details among them."""
        found: dict[str, Any] = {}
        for name in _names():
            found |= self.details if name == "details" else {name: getattr(self, name)}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins and those that are not a number become null."""
        plain: dict[str, Any] = finite_data(self.plain())
        return plain

    def to_json(self) -> str:
        """The text of the note in a file."""
        return json.dumps(self.to_dict(), ensure_ascii=True)

    def differences(self, other: Certificate) -> tuple[str, ...]:
        """In which respects another certificate of the same model and data says something else, in words.

        The weights are always compared; the rest if the facts are the same. Margins may differ by rounding unless the
        arithmetic is exact.
        """
        found = ["weights"] if self.weights != other.weights else []
        if self.database != other.database:
            return tuple(found)
        counts = ("certified", "facts", "recalled", "arithmetic", "precision")
        found += [name for name in counts if getattr(self, name) != getattr(other, name)]
        found += [name for name in self.fixed if self.details[name] != other.details.get(name)]
        exact = self.arithmetic == other.arithmetic == "exact integers"
        proved = min(self.proved_margin, other.proved_margin)
        for name in ("margin", "proved_margin"):
            mine, theirs = getattr(self, name), getattr(other, name)
            agree = mine == theirs if exact else isclose(mine, theirs, rel_tol=TOLERANCE)
            # Forward passes of two machines may differ by all that the proof allows for.
            allowed = name == "margin" and not exact and min(mine, theirs) >= proved
            if not (agree or allowed):
                found.append(name)
        return tuple(found)


def storage(parameters: int, bits: float | None, recall: float) -> dict[str, Any]:
    """The details that say how well a model stores: its scalars, the bits of its facts, bits recalled per scalar."""
    per_parameter = None if bits is None else recall * bits / parameters
    return {"parameters": parameters, "bits": bits, "bits_per_parameter": per_parameter}


def certificate_from_json(text: str, like: Certificate) -> Certificate:
    """The certificate of a note, or an `InputError` that says what is wrong with it.

    Arguments:
        text: the note.
        like: a certificate of the same model, which has the same details.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the certificate must be JSON: {error}") from None
    names = list(like.plain())
    if not isinstance(data, dict) or set(data) != set(names):
        raise InputError(f"a certificate holds {', '.join(names)} and nothing else")
    for name, sound in _sound(data, like).items():
        if not sound:
            raise InputError(f"{name} in the certificate is not what it should be: {str(data[name])[:60]!r}")
    worst = data["worst"]
    # JSON has no infinite numbers: a margin without competitors is infinite, one that is not proved is minus that.
    absent = {"margin": inf, "proved_margin": inf if data["certified"] else -inf}
    margins = {name: absent[name] if data[name] is None else float(data[name]) for name in absent}
    own = {name: data[name] for name in _names() if name != "details"} | margins
    details = {name: data[name] for name in like.details}
    return Certificate(
        **{**own, "worst": tuple(worst) if isinstance(worst, list) else worst}, details=details, fixed=like.fixed
    )


def _names() -> list[str]:
    return [one.name for one in fields(Certificate) if one.name != "fixed"]


def _sound(data: Mapping[str, Any], like: Certificate) -> dict[str, bool]:
    """Whether each field is of the right type."""
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
    """Whether a detail is of the type of a known one; it may be unknown, null, in either."""
    if value is None or known is None:
        return value is None or _is_number(value)
    return _is_count(value) if _is_count(known) else _is_number(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_INTEGER
