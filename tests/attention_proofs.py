"""The proof of an attention layer without a forward pass, and the forward pass without a proof."""

from __future__ import annotations

from typing import Any, NamedTuple

from factrank.certificates import certification
from factrank.families.attention.proof.attention_prover import AttentionProver


class Bounds(NamedTuple):
    """The bounds of all facts, and how they were found."""

    margins: Any
    arithmetic: str


def prove(layer, database):
    """What is proved of every evaluation."""
    return certification.prove(AttentionProver(layer, database))


def margin_bounds(layer, database):
    """A lower bound of the margin of each fact."""
    found = prove(layer, database)
    assert found.arithmetic != "none", found.reason
    return Bounds(found.bounds, found.arithmetic)


def forward_margins(layer, database):
    """The margins of the layer's own forward pass."""
    prover = AttentionProver(layer, database)
    with certification.evaluation(prover.precision):
        return certification.computed_margins(prover)
