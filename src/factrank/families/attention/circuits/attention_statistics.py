r"""What each head attends to on the facts of a database.

With A the weight on the key, $1 - A$ on the query: the entropy $-A \log_2 A - (1 - A) \log_2 (1 - A)$, 1 bit where the
head looks at both and 0 where it looks at one; whether the weight is saturated; and A itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from factrank.databases.database import Database
from factrank.families.attention.circuits.layer_parts import attention_of, has_shares
from factrank.readouts.evaluation_blocks import Model, require_match

SATURATED = 0.99
"""A weight from which a head counts as looking at one position alone."""


@dataclass(frozen=True)
class HeadStatistics:
    """Means over the facts: entropy in bits, share of facts with a saturated weight, weight on the key."""

    entropy: float
    saturation: float
    weight_on_key: float


def attention_statistics(layer: Model, database: Database) -> tuple[HeadStatistics, ...] | None:
    """The statistics of each head; None for models without circuits or shares, and without facts."""
    require_match(layer, database)
    if not has_shares(layer) or not len(database):
        return None
    keys, queries = database.triples[:, 0], database.triples[:, 1]
    statistics = []
    for head in attention_of(layer):
        weights = head[keys, queries].astype(np.float64)
        entropy = entr(weights).sum(axis=1).mean() / np.log(2)
        saturation = (weights.max(axis=1) >= SATURATED).mean()
        statistics.append(HeadStatistics(float(entropy), float(saturation), float(weights[:, 0].mean())))
    return tuple(statistics)
