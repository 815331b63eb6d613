"""ReaderCertificate: what certificates of memories and of sequence readers have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from factrank.nn import Precision
from factrank.readouts import finite_data


@dataclass(frozen=True, kw_only=True)
class ReaderCertificate:
    """What is known of a model's recall of a database.

    It holds for the weights and the facts with these fingerprints, evaluated in the model's own precision without
    shortened products; `arithmetic` says what is assumed of a machine.

    Arguments:
        certified: every fact is recalled by the model's own forward pass, and by every other order of evaluation.
        facts: number of facts, all of which were checked.
        recalled: facts that the forward pass gets right under argmax; ties are wrong.
        margin: the least margin in the forward pass; infinite without competing outputs.
        proved_margin: what the margin is at least in every evaluation; minus infinity where nothing was proved.
        worst: the fact with the least margin in the forward pass.
        parameters: the scalars that the paper counts, without embeddings.
        bits: information in the facts, the sum over queries of n_q log2 |V_q| with the values that occur.
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
    worst: tuple[str, str, str]
    parameters: int
    bits: float
    precision: Precision
    reason: str
    weights: str
    database: str

    @property
    def recall(self) -> float:
        """The share of facts that the forward pass gets right."""
        return self.recalled / self.facts

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the facts that are recalled over the parameters."""
        return self.recall * self.bits / self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins become null."""
        plain: dict[str, Any] = finite_data(asdict(self) | {"bits_per_parameter": self.bits_per_parameter})
        return plain
