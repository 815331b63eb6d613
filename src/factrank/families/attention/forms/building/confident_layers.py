r"""Layers that are confident of their facts, and that abstain on pairs without one.

*Confidence.* Multiplying the unembedding by $2^j$ multiplies every logit by $2^j$ exactly, in every evaluation. If all
margins are at least m, a fiber among n values has at least the probability $1 / (1 + (n - 1) e^{-m 2^j})$, so the
exponent j with $m 2^j \ge \log((n - 1) \tau / (1 - \tau))$ is enough. The certificate proves it from the weights.

*Abstention.* A table is completed by a reserved value for every (key, query) without a fact. Any layer that recalls the
completed table answers with the reserved value there.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, log, log2
from typing import Any

import numpy as np

from factrank.certificates import Abstention, Certificate, ConfidenceClaim, certify, prove
from factrank.databases import Database, Vocabulary
from factrank.errors import InputError
from factrank.families.attention.proof import AttentionProver, silent_pairs
from factrank.host import memory_room
from factrank.nn import to_arrays
from factrank.readouts import DEFAULT_TAU

UNKNOWN = "unknown"
"""Name of the reserved value, unless the table has a value of that name."""

SPARE = 0.01
"""Excess of the margin over the one that is enough in exact arithmetic."""

LARGEST_EXPONENT = 1100
"""No power of two in a supported precision has a larger exponent."""

BYTES_PER_FACT = 100
"""Memory that a fact takes while a layer is made."""


def claim_for(database: Database, tau: float | None, abstain: Abstention | None) -> ConfidenceClaim | None:
    """Return the claim that a user asks for; abstention without a threshold is at 0.95."""
    if tau is None and abstain is None:
        return None
    unknown = unused_name(database.values) if abstain == "unknown" else None
    return ConfidenceClaim(DEFAULT_TAU if tau is None else tau, abstain, unknown)


def unused_name(values: Vocabulary) -> str:
    """Return a name for the reserved value that no value has.

    >>> unused_name(Vocabulary(["Oslo"])), unused_name(Vocabulary(["unknown", "Oslo"]))
    ('unknown', 'unknown (no fact)')
    """
    name, number = UNKNOWN, 1
    while name in values:
        name = f"{UNKNOWN} (no fact{'' if number == 1 else f' {number}'})"
        number += 1
    return name


def with_reserved(database: Database, claim: ConfidenceClaim | None) -> Database:
    """Return the same facts, with the reserved value of a claim as the last value of the vocabulary."""
    if claim is None or claim.unknown is None or claim.unknown in database.values:
        return database
    return replace(database, values=Vocabulary([*database.values, claim.unknown]))


def completed(database: Database, claim: ConfidenceClaim | None) -> Database:
    """Return the table that a layer has to recall: with the reserved value for every (key, query) without a fact."""
    if claim is None or claim.unknown is None:
        return database
    n_silent = database.n_keys * database.n_queries - database.n_fibers
    if BYTES_PER_FACT * n_silent > memory_room():
        raise InputError(f"{n_silent:,} pairs without a fact are too many to reserve a value for")
    database = with_reserved(database, claim)
    keys, queries = np.divmod(silent_pairs(database), database.n_queries)
    more = np.column_stack([keys, queries, np.full(len(keys), database.values.index(claim.unknown))])
    return replace(database, triples=np.concatenate([database.triples, more.astype(database.triples.dtype)]))


def without_reserved(database: Database, claim: ConfidenceClaim | None) -> Database:
    """Return the table without the entries of the reserved value; its name stays in the vocabulary."""
    if claim is None or claim.unknown is None:
        return database
    return replace(database, triples=database.triples[database.triples[:, 2] != database.values.index(claim.unknown)])


def scaled(layer: Any, exponent: int) -> Any:
    """Return the layer with all logits multiplied by a power of two, exactly.

    Raises:
        InputError: If a weight is too large or too small for that.
    """
    if not exponent:
        return layer
    before = to_arrays(layer)["unembedding"]
    with np.errstate(over="ignore", under="ignore"):
        wide = np.ldexp(before.astype(np.float64), exponent)
        after = wide.astype(before.dtype)
    if not (after.astype(np.float64) == wide).all() or not np.isfinite(wide).all():
        raise InputError(f"the logits cannot be multiplied by 2^{exponent} in {before.dtype.name}")
    return replace(layer, unembedding=after)


def exponent_for(margin: float, n_values: int, tau: float) -> int:
    """Return the power of two by which margins of this size give every fact the probability tau.

    >>> exponent_for(1.0, 100, 0.95), exponent_for(10.0, 100, 0.95)
    (3, 0)
    """
    needed = log(max(n_values - 1, 1) * tau / (1 - tau)) + SPARE
    if not margin > 0 or margin == inf or needed <= margin:
        return 0
    return min(ceil(log2(needed / margin)), LARGEST_EXPONENT)


def certified_claim(layer: Any, database: Database, claim: ConfidenceClaim | None) -> tuple[Any, int, Certificate]:
    """Certify a layer for facts and a claim, after scaling its logits as far as the claim needs.

    Returns:
        The layer, the exponent of the power of two by which its logits were multiplied, and the certificate.
    """
    if claim is None:
        return layer, 0, certify(AttentionProver(layer, database))
    proof = prove(AttentionProver(layer, completed(database, claim)))
    exponent = exponent_for(proof.margin, database.n_values, claim.tau)
    try:
        layer = scaled(layer, exponent)
    except InputError:
        exponent = 0
    return layer, exponent, certify(AttentionProver(layer, database, claim))
