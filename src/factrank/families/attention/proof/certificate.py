"""Certificate: that a layer recalls every fact of a database, what was checked and how it was proved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isclose
from typing import Any, get_args

from factrank.errors import InputError
from factrank.families.attention.proof.recall_proofs import ArithmeticUsed
from factrank.nn import Precision
from factrank.readouts import finite_data

CERTIFICATE_NOTE = "certificate"
"""The name of the note of a layer file that holds the certificate."""

TOLERANCE = 1e-3
"""Proved margins that were not computed in exact arithmetic may differ so much between machines, relatively."""


@dataclass(frozen=True)
class Certificate:
    """What is known of a layer's recall of a database.

    It holds for the weights and the facts with these fingerprints, evaluated in the layer's own precision without
    shortened products; `arithmetic` of the module of that name says what is assumed of a machine.

    Arguments:
        certified: every fact is recalled by the layer's own forward pass, and by every other order of evaluation.
        facts: number of facts, all of which were checked.
        recalled: facts that the forward pass gets right under argmax; ties are wrong.
        margin: the least margin in the forward pass; infinite without facts or competing values.
        proved_margin: what the margin is at least in every evaluation; minus infinity where nothing was proved.
        worst: the fact with the least margin in the forward pass.
        silent_fibers: (key, query) pairs without a fact.
        answered: silent fibers where one value has a larger logit than all others, so that argmax answers; None where
            they are too many to be counted.
        artifacts: silent fibers where one value has a probability of at least 0.95; None likewise.
        arithmetic: how the proof goes; "none" where there is none.
        precision: of the weights and of the forward pass.
        reason: why it is not certified; empty where it is.
        weights: SHA-256 of the weights.
        database: the fingerprint of the facts.
    """

    certified: bool
    facts: int
    recalled: int
    margin: float
    proved_margin: float
    worst: tuple[str, str, str] | None
    silent_fibers: int
    answered: int | None
    artifacts: int | None
    arithmetic: ArithmeticUsed
    precision: Precision
    reason: str
    weights: str
    database: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins and those that are not a number become null."""
        plain: dict[str, Any] = finite_data(asdict(self))
        return plain

    def to_json(self) -> str:
        """The text of the note that a layer file holds."""
        return json.dumps(self.to_dict(), ensure_ascii=True)

    def differences(self, other: Certificate) -> tuple[str, ...]:
        """In which respects another certificate of the same layer and database says something else, in words.

        The weights are always compared; the rest where the facts are the same. Margins may differ by rounding unless
        the arithmetic is exact.
        """
        found = ["weights"] if self.weights != other.weights else []
        if self.database != other.database:
            return tuple(found)
        counts = ("certified", "facts", "recalled", "arithmetic", "precision", "silent_fibers")
        found += [name for name in counts if getattr(self, name) != getattr(other, name)]
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


def certificate_from_json(text: str) -> Certificate:
    """The certificate of a note, or an `InputError` that says what is wrong with it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the certificate must be JSON: {error}") from None
    names = [field.name for field in fields(Certificate)]
    if not isinstance(data, dict) or set(data) != set(names):
        raise InputError(f"a certificate holds {', '.join(names)} and nothing else")
    return _checked(data)


def _checked(data: Mapping[str, Any]) -> Certificate:
    worst = data["worst"]
    certified = data["certified"]
    sound = {
        "certified": isinstance(certified, bool),
        "worst": worst is None
        or (isinstance(worst, list) and len(worst) == 3 and all(isinstance(name, str) for name in worst)),
        "arithmetic": data["arithmetic"] in get_args(ArithmeticUsed),
        "precision": data["precision"] in get_args(Precision),
        **{name: isinstance(data[name], str) for name in ("reason", "weights", "database")},
        **{name: _is_count(data[name]) for name in ("facts", "recalled", "silent_fibers")},
        **{name: data[name] is None or _is_count(data[name]) for name in ("answered", "artifacts")},
        **{name: data[name] is None or _is_number(data[name]) for name in ("margin", "proved_margin")},
    }
    for name, holds in sound.items():
        if not holds:
            raise InputError(f"{name} in the certificate is not what it should be: {str(data[name])[:60]!r}")
    # JSON has no infinite numbers: a margin without competitors is infinite, one that is not proved is minus that.
    absent = {"margin": inf, "proved_margin": inf if certified else -inf}
    margins = {name: absent[name] if data[name] is None else float(data[name]) for name in absent}
    return Certificate(**{**data, **margins, "worst": None if worst is None else tuple(worst)})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
