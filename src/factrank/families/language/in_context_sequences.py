"""Sequences of in-context recall, sampled on the device: associative recall of several queries, and induction.

    mqar        k1 v1 k2 v2 ... then the keys in random order at random places, each followed by its value
    induction   x1 x2 ... xn x1 x2 ... xn

Only what can be known counts in the loss: the second value of each key, and the repetition from its second token on.
Gaps are blanks. Keys of a sequence are different; its number of pairs is drawn from `pairs`.

    in_context      fraction of these tokens with the largest logit, averaged over the numbers of pairs
    in_context_<n>  the same in sequences with n pairs
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from factrank.families.language.language_data import InContextRecall
from factrank.families.language.language_model import LanguageModel
from factrank.families.language.token_sources import BLANK, Numbers, SourceArrays, TokenBatch
from factrank.families.language.vocabulary_loss import next_tokens


@dataclass(frozen=True)
class InContextSource:
    """Sequences of one specification, with tokens from `first_token` on: keys, then values."""

    spec: InContextRecall
    first_token: int = 1

    @property
    def signature(self) -> Hashable:
        """Specification and tokens."""
        return "in_context", self.spec, self.first_token

    @property
    def n_tokens(self) -> int:
        """Number of keys and values."""
        return self.spec.n_keys + (self.spec.n_values if self.spec.task == "mqar" else 0)

    @property
    def length(self) -> int:
        """Number of tokens of a sequence."""
        return self.spec.tokens_per_sequence

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the numbers of pairs; sequences are sampled afresh."""
        return {"pairs": np.array(self.spec.pairs, np.int32)}

    # ---------------------------------------------------------------- traced

    def sample(self, data: SourceArrays, key: PRNGKeyArray, n_sequences: int) -> TokenBatch:
        """Sample sequences with different numbers of pairs."""
        how_many, rest = jax.random.split(key)
        return self.sequences(jax.random.choice(how_many, data["pairs"], (n_sequences,)), rest)

    def sequences(self, pairs: Int[Array, " batch"], key: PRNGKeyArray) -> TokenBatch:
        """Sample one sequence for each given number of pairs."""
        keys = jax.random.split(key, len(pairs))
        return jax.vmap(self._mqar if self.spec.task == "mqar" else self._induction)(pairs, keys)

    def _keys(self, key: PRNGKeyArray) -> Int[Array, " most"]:
        """Draw different keys."""
        drawn = jax.random.permutation(key, self.spec.n_keys)[: self.spec.most_pairs]
        return self.first_token + drawn.astype(jnp.int32)

    def _mqar(self, n_pairs: Int[Array, ""], key: PRNGKeyArray) -> TokenBatch:
        most, n_places = self.spec.most_pairs, (self.length - 2 * self.spec.most_pairs) // 2
        for_keys, for_values, for_places = jax.random.split(key, 3)
        used = jnp.arange(most) < n_pairs
        values = self.first_token + self.spec.n_keys + jax.random.randint(for_values, (most,), 0, self.spec.n_values)
        pairs = jnp.where(used[:, None], jnp.stack([self._keys(for_keys), values], axis=1), BLANK).astype(jnp.int32)
        places = jax.random.permutation(for_places, n_places)[:most]
        asked = jnp.full((n_places, 2), BLANK, jnp.int32).at[places].set(pairs)
        answers = jnp.zeros((n_places, 2)).at[places, 1].set(used)
        tokens = jnp.concatenate([pairs.reshape(-1), asked.reshape(-1)])
        weights = jnp.concatenate([jnp.zeros(2 * most), answers.reshape(-1)])
        return TokenBatch(tokens.astype(jnp.int32), weights[1:].astype(jnp.float32))

    def _induction(self, n_pairs: Int[Array, ""], key: PRNGKeyArray) -> TokenBatch:
        drawn, place = self._keys(key), jnp.arange(self.length)
        tokens = jnp.where(place < 2 * n_pairs, drawn[jnp.minimum(place % n_pairs, len(drawn) - 1)], BLANK)
        weights = (place > n_pairs) & (place < 2 * n_pairs)
        return TokenBatch(tokens.astype(jnp.int32), weights[1:].astype(jnp.float32))

    def examine(self, model: LanguageModel, data: SourceArrays, key: PRNGKeyArray, *, whole: bool) -> Numbers:  # noqa: ARG002
        """Return the accuracy for each number of pairs on sequences that stay the same."""
        found, losses = {}, []
        for n_pairs in self.spec.pairs:
            asked = jnp.full(self.spec.sequences, n_pairs)
            batch = self.sequences(asked, jax.random.fold_in(key, n_pairs))
            states = model.states(batch.tokens[:, :-1])
            flat = states.reshape(-1, states.shape[-1])
            predicted = next_tokens(flat, model.outputs, batch.tokens[:, 1:].reshape(-1))
            weights = batch.weights.reshape(-1)
            found[f"in_context_{n_pairs}"] = (weights * predicted.right).sum() / weights.sum()
            losses.append((weights * predicted.losses).sum() / weights.sum())
        accuracies = jnp.stack(list(found.values()))
        return {"loss": jnp.stack(losses).mean(), "in_context": accuracies.mean(), **found}

    def counts(self) -> dict[str, int]:
        """Return the number of predicted tokens for each number of pairs."""
        known = 0 if self.spec.task == "mqar" else 1
        return {f"in_context_{n}": self.spec.sequences * (n - known) for n in self.spec.pairs}
