r"""Statistics of the attention weights of each head on the facts of a database.

If A is the weight on the key and $1 - A$ the weight on the query, these are the entropy
$-A \log_2 A - (1 - A) \log_2 (1 - A)$ (1 bit if the head attends equally to both, 0 if it attends to one), whether the
weight is saturated, and A itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from scipy.special import entr

from factrank.databases import Database
from factrank.errors import InputError
from factrank.readouts.evaluation_blocks import ReadsFacts, full_precision, require_match

SATURATED = 0.99
"""Weight from which a head counts as attending to a single position."""


@runtime_checkable
class AttentionParts(Protocol):
    """Intermediate results of a forward pass, including attention weights."""

    @property
    def attention(self) -> Float[Array, "heads keys queries 2"]:
        """Weights of every head on the key and the query of every pair."""


@runtime_checkable
class Attends(ReadsFacts, Protocol):
    """A model with attention over keys and queries; `parts` may raise `InputError` if it has no such parts."""

    @property
    def shape(self) -> object:
        """Sizes of the model. If they have an `attention` other than softmax, weights do not sum to 1."""

    def parts(self) -> AttentionParts:
        """Return the intermediate results for every pair."""


@dataclass(frozen=True)
class HeadStatistics:
    """Means over the facts: entropy in bits, fraction of facts with a saturated weight, weight on the key."""

    entropy: float
    saturation: float
    weight_on_key: float


def attention_statistics(model: ReadsFacts, database: Database) -> tuple[HeadStatistics, ...] | None:
    """Return the statistics of each head; None if the model has no softmax attention or there are no facts."""
    require_match(model, database)
    shares = attention_shares(model) if len(database) else None
    if shares is None:
        return None
    keys, queries = database.triples[:, 0], database.triples[:, 1]
    statistics = []
    for head in shares:
        weights = head[keys, queries].astype(np.float64)
        entropy = entr(weights).sum(axis=1).mean() / np.log(2)
        saturation = (weights.max(axis=1) >= SATURATED).mean()
        statistics.append(HeadStatistics(float(entropy), float(saturation), float(weights[:, 0].mean())))
    return tuple(statistics)


def attention_shares(model: ReadsFacts) -> Float[np.ndarray, "heads keys queries 2"] | None:
    """Return the attention weights of every head on both positions.

    None if the model has no attention parts, or if its weights are not in [0, 1] with sum 1, as in linear attention.
    """
    if not isinstance(model, Attends) or getattr(model.shape, "attention", "softmax") != "softmax":
        return None
    try:
        with full_precision(model):
            return np.asarray(_attention(model))
    except InputError:
        return None


@eqx.filter_jit
def _attention(model: Attends) -> Float[Array, "heads keys queries 2"]:
    return model.parts().attention
