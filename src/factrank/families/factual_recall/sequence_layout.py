"""FactualRecallLayout: the numbering of tokens and outputs of a model that reads sequences.

    tokens    keys, queries, noise, the end and, if a model also copies, cues and payloads
    outputs   values, payloads

Without positions, a sequence is determined by its *counts*: how often each token occurs in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape


@dataclass(frozen=True)
class FactualRecallLayout:
    """Sizes of the ranges of tokens and outputs, in order.

    >>> FactualRecallLayout(n_keys=16, n_queries=4, n_values=32, n_noise=20).end
    40
    """

    n_keys: int
    n_queries: int
    n_values: int
    n_noise: int
    copy_groups: int = 0
    copy_size: int = 0

    @classmethod
    def of(
        cls, shape: FactualRecallShape | FactualRecallOneHotShape, n_keys: int, n_queries: int, n_values: int
    ) -> FactualRecallLayout:
        """Return the layout of a model of this shape for a database of these sizes."""
        layout = cls(n_keys, n_queries, n_values, shape.noise_tokens(n_keys, n_queries))
        if isinstance(shape, FactualRecallOneHotShape):
            return layout
        return replace(layout, copy_groups=shape.copy_groups, copy_size=shape.copy_size)

    @property
    def first_query(self) -> int:
        """Token of the first query."""
        return self.n_keys

    @property
    def first_noise(self) -> int:
        """First noise token."""
        return self.n_keys + self.n_queries

    @property
    def end(self) -> int:
        """End token, at which the answer to a fact is predicted."""
        return self.first_noise + self.n_noise

    @property
    def first_cue(self) -> int:
        """Cue of the first group."""
        return self.end + 1

    @property
    def first_payload(self) -> int:
        """First payload of the first group; the payloads of group g start at `first_payload` + g `copy_size`."""
        return self.first_cue + self.copy_groups

    @property
    def n_payloads(self) -> int:
        """Number of payloads; they are also outputs, starting at `n_values`."""
        return self.copy_groups * self.copy_size

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return self.first_payload + self.n_payloads

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.n_values + self.n_payloads

    def token_places(self, wider: FactualRecallLayout) -> Int[np.ndarray, " tokens"]:
        """Return the index of each token in a layout with larger ranges."""
        starts = wider.first_query, wider.first_noise, wider.end
        lengths = self.n_queries, self.n_noise, 1 + self.copy_groups + self.n_payloads
        later = (np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True))
        return np.concatenate([np.arange(self.n_keys), *later])

    def output_places(self, wider: FactualRecallLayout) -> Int[np.ndarray, " outputs"]:
        """Return the index of each output in a layout with larger ranges."""
        return np.concatenate([np.arange(self.n_values), wider.n_values + np.arange(self.n_payloads)])


def count_tokens(sequences: Int[Array, "*batch length"], n_tokens: int) -> Float[Array, "*batch {n_tokens}"]:
    """Count the tokens of each sequence, by one scatter."""
    rows = sequences.reshape(-1, sequences.shape[-1])
    at = jnp.arange(rows.shape[0])[:, None], rows
    counts = jnp.zeros((rows.shape[0], n_tokens), jnp.float32).at[at].add(1.0, mode="promise_in_bounds")
    return counts.reshape(*sequences.shape[:-1], n_tokens)
