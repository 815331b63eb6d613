r"""Margins, probabilities and cross-entropies of fibers.

For logits z on a fiber with the values S,

$$\mathrm{margin} = \min_{v \in S} z_v - \max_{v \notin S} z_v, \qquad
  \mathrm{probability} = \min_{v \in S} \mathrm{softmax}(z)_v.$$

Argmax is correct if the margin is positive (ties are errors), softmax>=tau if the probability is at least tau. Arrays
have one fiber per row; S is a row of value codes, padded by repetition if fibers have different numbers of values. All
functions are pure and traceable.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def margins(logits: Float[Array, "n values"], fibers: Int[Array, "n m"]) -> Float[Array, " n"]:
    """Return the margin of each fiber; infinite if the fiber contains every value."""
    own = jnp.take_along_axis(logits, fibers, axis=1).min(axis=1)
    belongs = (fibers[:, :, None] == jnp.arange(logits.shape[1])).any(axis=1)
    return own - jnp.where(belongs, -jnp.inf, logits).max(axis=1)


def probabilities(logits: Float[Array, "n values"], fibers: Int[Array, "n m"]) -> Float[Array, " n"]:
    """Return the smallest probability among the values of each fiber, in at least float32."""
    own = jnp.take_along_axis(logits, fibers, axis=1).min(axis=1)
    found = jnp.exp(own - jax.nn.logsumexp(logits, axis=1))
    return found.astype(jnp.promote_types(found.dtype, jnp.float32))


def cross_entropies(logits: Float[Array, "n values"], values: Int[Array, " n"]) -> Float[Array, " n"]:
    """Return -log softmax at the values, in at least float32.

    Avoids a gather, because its backward pass would be a scatter.
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    own = jnp.where(jnp.arange(logits.shape[1]) == values[:, None], logits, 0).sum(axis=1)
    return jax.nn.logsumexp(logits, axis=1) - own
