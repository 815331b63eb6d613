"""Saturation: how many heads put almost all of their attention on one token of the context.

A head is saturated on an example when the largest of its weights exceeds a threshold (Mahdavi, Liao and Thrampoulidis
2024: 0.99). In their proof saturation is what lets each head serve its own examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from factrank.families.memoriser.examples import Examples, stored
from factrank.families.memoriser.memoriser import Memoriser
from factrank.nn import on_device

BLOCK = 1024
"""Examples that are read at once."""


@dataclass(frozen=True, eq=False)
class Saturation:
    """The largest attention weight of every head on every example, and what exceeds the threshold."""

    largest: Float[np.ndarray, "examples heads"]
    threshold: float

    @property
    def saturated(self) -> Bool[np.ndarray, "examples heads"]:
        """Which heads are saturated on which examples."""
        return self.largest > self.threshold

    @property
    def share(self) -> float:
        """The share of all (example, head)."""
        return float(self.saturated.mean())

    @property
    def by_head(self) -> Float[np.ndarray, " heads"]:
        """Of each head the share of examples on which it is saturated."""
        return np.asarray(self.saturated.mean(axis=0))

    @property
    def by_example(self) -> Float[np.ndarray, " examples"]:
        """Of each example the share of heads that are saturated on it."""
        return np.asarray(self.saturated.mean(axis=1))


def saturation_of(model: Memoriser, examples: Examples, threshold: float = 0.99) -> Saturation:
    """The saturation of a model on all examples, computed in the precision of its weights."""
    known, reader = stored(examples), on_device(model)
    wide = reader.w_q.dtype == jnp.float64
    shared, parts = known.number_of_contexts == 1, []
    with jax.enable_x64(wide), jax.default_matmul_precision("highest"):
        largest = jax.jit(lambda queries, contexts: reader.attention(queries, contexts).max(axis=-1))
        for start in range(0, known.n_examples, BLOCK):
            rows = slice(start, start + BLOCK)
            contexts = known.contexts[0] if shared else known.contexts[known.context_of[rows]]
            parts.append(_host(largest(jnp.asarray(known.queries[rows]), jnp.asarray(contexts))))
    return Saturation(np.concatenate(parts), threshold)


def _host(weights: Float[Array, "batch heads"]) -> Float[np.ndarray, "batch heads"]:
    """On the host, where there is no bfloat16."""
    return np.asarray(weights.astype(jnp.promote_types(weights.dtype, jnp.float32)))
