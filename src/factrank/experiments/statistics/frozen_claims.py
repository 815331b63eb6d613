"""Claims that were fixed before a run: their hashes, recorded when the run starts.

A claim that is written or changed after its results were seen is exploratory: it is reported, but not counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal

from factrank.experiments.specs import canonical_json, to_plain
from factrank.experiments.statistics.claims import Claim

Fixed = Literal["before the run", "changed since", "added since", "unknown"]

TESTED = ("quantity", "published", "tolerance", "extension", "data", "by_construction", "kinds")
"""Fields that decide a verdict; names, quotes and notes may be improved later."""


def claim_hash(claim: Claim) -> str:
    """Return the SHA-256 of the parts of a claim that its verdict depends on."""
    plain = {name: to_plain(getattr(claim, name)) for name in TESTED}
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()


def frozen(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the hash of every claim, by name."""
    return {claim.name: claim_hash(claim) for claim in claims}


def fixed(claim: Claim, before: Mapping[str, str] | None) -> Fixed:
    """Return whether a claim was fixed before the run that recorded `before`; "unknown" without a record."""
    if before is None:
        return "unknown"
    if claim.name not in before:
        return "added since"
    return "before the run" if before[claim.name] == claim_hash(claim) else "changed since"
