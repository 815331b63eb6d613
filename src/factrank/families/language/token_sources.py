"""Sources of token sequences: what a language model is trained and examined on, one class per kind of data.

A source has a range of tokens of its own, from `first_token` on. Token 0 is common to all of them: it begins a record
and fills gaps. `arrays` are passed to the compiled functions, which otherwise only use what `signature` determines.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from factrank.families.language.language_model import LanguageModel
from factrank.families.language.vocabulary_loss import total_cross_entropy

BLANK = 0
"""Token that begins a record and fills gaps."""

Numbers = dict[str, Float[Array, ""]]
SourceArrays = Mapping[str, Any]


class TokenBatch(NamedTuple):
    """Sequences of tokens, and the weight of each token after the first in the loss."""

    tokens: Int[Array, "*batch length"]
    weights: Float[Array, "*batch predicted"]


@runtime_checkable
class TokenSource(Protocol):
    """Sequences of one kind."""

    @property
    def signature(self) -> Hashable:
        """Everything that determines shapes and computations."""

    @property
    def n_tokens(self) -> int:
        """Number of tokens of its own."""

    @property
    def length(self) -> int:
        """Number of tokens in a sequence."""

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays that sampling and examination read."""

    def sample(self, data: SourceArrays, key: PRNGKeyArray, n_sequences: int) -> TokenBatch:
        """Sample sequences for a step. Traced."""

    def examine(self, model: LanguageModel, data: SourceArrays, key: PRNGKeyArray, *, whole: bool) -> Numbers:
        """Return the measures, `loss` among them; those that curves leave out only if `whole`. Traced."""

    def counts(self) -> dict[str, int]:
        """Return the denominators of its measures that are fractions."""


def mean_loss(model: LanguageModel, batch: TokenBatch) -> Float[Array, ""]:
    """Return the mean cross-entropy of the tokens that count, in nats."""
    states = model.states(batch.tokens[:, :-1])
    flat, weights = states.reshape(-1, states.shape[-1]), batch.weights.reshape(-1)
    total = total_cross_entropy(flat, model.outputs, batch.tokens[:, 1:].reshape(-1), weights)
    return total / jnp.maximum(weights.sum(), 1)
