"""FactualRecallLayout: which numbers stand for which tokens and outputs in a model that reads sequences.

    tokens    keys, queries, noise, the end, and, where a model also copies, cues and payloads
    outputs   values, payloads

Without positions a sequence is what it holds: how often each token occurs in it, its *counts*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape


@dataclass(frozen=True)
class FactualRecallLayout:
    """The sizes of the ranges of tokens and outputs, in their order.

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
        """The layout of a model of this shape for a database of these sizes."""
        layout = cls(n_keys, n_queries, n_values, shape.noise_tokens(n_keys, n_queries))
        if isinstance(shape, FactualRecallOneHotShape):
            return layout
        return replace(layout, copy_groups=shape.copy_groups, copy_size=shape.copy_size)

    @property
    def first_query(self) -> int:
        """The token of the first query."""
        return self.n_keys

    @property
    def first_noise(self) -> int:
        """The first noise token."""
        return self.n_keys + self.n_queries

    @property
    def end(self) -> int:
        """The end token, from which the answer to a fact is read."""
        return self.first_noise + self.n_noise

    @property
    def first_cue(self) -> int:
        """The cue of the first group."""
        return self.end + 1

    @property
    def first_payload(self) -> int:
        """The first payload of the first group; those of group g begin at `first_payload` + g `copy_size`."""
        return self.first_cue + self.copy_groups

    @property
    def n_payloads(self) -> int:
        """The payloads of all groups, which are outputs too: from `n_values` on."""
        return self.copy_groups * self.copy_size

    @property
    def n_tokens(self) -> int:
        """All tokens."""
        return self.first_payload + self.n_payloads

    @property
    def n_outputs(self) -> int:
        """All outputs."""
        return self.n_values + self.n_payloads

    def token_places(self, wider: FactualRecallLayout) -> Int[np.ndarray, " tokens"]:
        """Where each of these tokens stands in a layout whose ranges are at least as wide."""
        starts = wider.first_query, wider.first_noise, wider.end
        lengths = self.n_queries, self.n_noise, 1 + self.copy_groups + self.n_payloads
        later = (np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True))
        return np.concatenate([np.arange(self.n_keys), *later])

    def output_places(self, wider: FactualRecallLayout) -> Int[np.ndarray, " outputs"]:
        """Where each of these outputs stands in a layout whose ranges are at least as wide."""
        return np.concatenate([np.arange(self.n_values), wider.n_values + np.arange(self.n_payloads)])


def count_tokens(sequences: Int[Array, "*batch length"], n_tokens: int) -> Float[Array, "*batch {n_tokens}"]:
    """How often each token occurs in each sequence: one scatter."""
    rows = sequences.reshape(-1, sequences.shape[-1])
    at = jnp.arange(rows.shape[0])[:, None], rows
    counts = jnp.zeros((rows.shape[0], n_tokens), jnp.float32).at[at].add(1.0, mode="promise_in_bounds")
    return counts.reshape(*sequences.shape[:-1], n_tokens)
