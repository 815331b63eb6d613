r"""Margin and probability of a fiber: the two numbers that every readout of the facts rests on, and cross-entropies.

For logits z on a fiber with the values S,

$$\mathrm{margin} = \min_{v \in S} z_v - \max_{v \notin S} z_v, \qquad
  \mathrm{probability} = \min_{v \in S} \mathrm{softmax}(z)_v.$$

Argmax is right when the margin is positive (ties are wrong), softmax>=tau when the probability is at least tau. One
fiber per row; S is a row of value codes, repeated where fibers have different numbers of values. Pure and traceable:
the engines call it inside compiled code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def margins(logits: Float[Array, "n values"], fibers: Int[Array, "n m"]) -> Float[Array, " n"]:
    """The margin of each fiber; infinite where every value belongs to it."""
    own = jnp.take_along_axis(logits, fibers, axis=1).min(axis=1)
    belongs = (fibers[:, :, None] == jnp.arange(logits.shape[1])).any(axis=1)
    return own - jnp.where(belongs, -jnp.inf, logits).max(axis=1)


def probabilities(logits: Float[Array, "n values"], fibers: Int[Array, "n m"]) -> Float[Array, " n"]:
    """The least probability among the values of each fiber, in float32 at least, so that thresholds are not rounded."""
    own = jnp.take_along_axis(logits, fibers, axis=1).min(axis=1)
    found = jnp.exp(own - jax.nn.logsumexp(logits, axis=1))
    return found.astype(jnp.promote_types(found.dtype, jnp.float32))


def cross_entropies(logits: Float[Array, "n values"], values: Int[Array, " n"]) -> Float[Array, " n"]:
    """-log softmax at the values, in float32 at least.

    There is no gather: its backward pass would be a scatter.
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    own = jnp.where(jnp.arange(logits.shape[1]) == values[:, None], logits, 0).sum(axis=1)
    return jax.nn.logsumexp(logits, axis=1) - own
