"""Weights on the host and on devices; random ones are drawn on the host, so that they are the same for every device."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

if TYPE_CHECKING:
    AnyArray = Array
else:
    AnyArray = Array | np.ndarray
"""Weights on a device or, in NumPy, on the host, where they can be stored and moved; computing is done on devices."""

Model = TypeVar("Model")

RandomKey = int | np.random.Generator | PRNGKeyArray
"""Where randomness comes from: a seed, a NumPy generator (which moves on), or a JAX key."""


def generator_of(key: RandomKey) -> np.random.Generator:
    """The NumPy generator that a key stands for."""
    if isinstance(key, int | np.random.Generator):
        return np.random.default_rng(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())


def draw(rng: np.random.Generator, size: tuple[int, ...], fan_in: int, dtype: str) -> Float[AnyArray, "..."]:
    """Normal weights of variance 1 / fan_in, drawn in float64 and rounded to `dtype`."""
    drawn: AnyArray = cast("Any", (rng.standard_normal(size) * fan_in**-0.5).astype(dtype))
    return drawn


def constant(value: float, size: int, dtype: str) -> Float[AnyArray, " n"]:
    """Weights that start equal."""
    filled: AnyArray = cast("Any", np.full(size, value, dtype))
    return filled


def on_device(model: Model) -> Model:
    """The same model with JAX arrays; what is one already is not touched. float64 stays float64."""
    wide = any(isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    with jax.enable_x64(True) if wide else nullcontext():
        moved: Model = jax.tree.map(jnp.asarray, model)
    return moved
