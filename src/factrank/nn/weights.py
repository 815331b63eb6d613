"""Initialise weights on the host, for identical values on every device, and move models to a device."""

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
"""Weights on a device (JAX) or on the host (NumPy), where they are stored; models compute on devices."""

Model = TypeVar("Model")

RandomKey = int | np.random.Generator | PRNGKeyArray
"""Source of randomness: a seed, a NumPy generator (which is advanced), or a JAX key."""


def generator_of(key: RandomKey) -> np.random.Generator:
    """Return the NumPy generator for a seed, generator or JAX key."""
    if isinstance(key, int | np.random.Generator):
        return np.random.default_rng(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())


def draw(rng: np.random.Generator, size: tuple[int, ...], fan_in: int, dtype: str) -> Float[AnyArray, "..."]:
    """Draw normal weights of variance 1 / fan_in in float64, rounded to `dtype`."""
    drawn: AnyArray = cast("Any", (rng.standard_normal(size) * fan_in**-0.5).astype(dtype))
    return drawn


def constant(value: float, size: int, dtype: str) -> Float[AnyArray, " n"]:
    """Return `size` weights that are all equal to `value`."""
    filled: AnyArray = cast("Any", np.full(size, value, dtype))
    return filled


def on_device(model: Model) -> Model:
    """Convert NumPy arrays in a model to JAX arrays, keeping float64."""
    wide = any(isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    with jax.enable_x64(True) if wide else nullcontext():
        moved: Model = jax.tree.map(jnp.asarray, model)
    return moved
