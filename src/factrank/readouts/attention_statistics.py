r"""What each head attends to on the facts of a database, for models whose tensor has attention weights as parts.

With A the weight on the key, $1 - A$ on the query: the entropy $-A \log_2 A - (1 - A) \log_2 (1 - A)$, 1 bit where the
head looks at both and 0 where it looks at one; whether the weight is saturated; and A itself.
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
"""A weight from which a head counts as looking at one position alone."""


@runtime_checkable
class AttentionParts(Protocol):
    """Parts of a tensor with the attention weights among them."""

    @property
    def attention(self) -> Float[Array, "heads keys queries 2"]:
        """What every head gives to the key and to the query of every pair."""


@runtime_checkable
class Attends(ReadsFacts, Protocol):
    """A model that attends to keys and queries; `parts` may raise an `InputError`, for one without such parts."""

    @property
    def shape(self) -> object:
        """The sizes; where they name a kind of `attention` other than softmax, weights are no shares."""

    def parts(self) -> AttentionParts:
        """The parts of the tensor."""


@dataclass(frozen=True)
class HeadStatistics:
    """Means over the facts: entropy in bits, share of facts with a saturated weight, weight on the key."""

    entropy: float
    saturation: float
    weight_on_key: float


def attention_statistics(model: ReadsFacts, database: Database) -> tuple[HeadStatistics, ...] | None:
    """The statistics of each head; None for models without circuits or shares, and without facts."""
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
    """The weights that every head gives to both positions, without computing the circuits.

    None for models without such parts, and where weights are not in [0, 1] with sum 1, as in linear attention.
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
