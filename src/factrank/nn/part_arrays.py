"""Convert models to named NumPy arrays, and validate the names, shapes and types of such arrays.

The name of a part is its path in the model: `w_q` in an attention layer, `blocks.0.mlp.w_in` in a transformer. The
shape of every part follows from the model's shape and vocabulary; `checked_arrays` compares arrays with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from factrank.errors import InputError
from factrank.foreign_text import few

PartArrays = dict[str, Shaped[np.ndarray, "..."]]
PartSizes = dict[str, tuple[int, ...]]

REAL = ("float32", "float64", "bfloat16")
"""Allowed types of weights; JAX registers bfloat16 with NumPy."""
WHOLE = ("int32", "int64")
"""Allowed types of integer parts."""


def to_arrays(model: object) -> PartArrays:
    """Return the parts by name, as NumPy arrays in the model's precision.

    >>> sorted(to_arrays({"w_q": jnp.ones(2), "mlp": {"w_in": jnp.ones(3)}}))
    ['mlp.w_in', 'w_q']
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}


def stored_scalars(model: object) -> int:
    """Return the number of floating-point weights of a model.

    >>> stored_scalars({"w": jnp.ones((2, 3)), "rows": jnp.arange(4)})
    6
    """
    return sum(int(part.size) for part in to_arrays(model).values() if part.dtype.name in REAL)


def to_jax(parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, Array]:
    """Convert the parts to JAX arrays of the same precision.

    JAX computes in 64 bits only inside `with jax.enable_x64(True):`; outside it warns and computes in 32.
    """
    with jax.enable_x64(True):  # otherwise JAX would silently convert 64-bit parts to 32 bits
        return {name: jnp.array(part) for name, part in parts.items()}


def checked_arrays(expected: PartSizes, parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, Array]:
    """Return the parts as JAX arrays if they have the expected names, shapes and types, all of them floats.

    Raises:
        InputError: a part is missing, unknown, or has the wrong shape or type.
    """
    require_same_parts(expected, parts)
    return to_jax(parts)


def require_same_parts(
    expected: Mapping[str, tuple[int, ...]],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
    whole: Collection[str] = (),
) -> None:
    """Raise an `InputError` that names the first part that is missing, unknown, or has the wrong shape or type.

    Arguments:
        expected: Shape of every part.
        parts: The arrays to check.
        whole: Names of the parts that are integers; all others are floats.
    """
    missing, unknown = sorted(expected.keys() - parts.keys()), sorted(parts.keys() - expected.keys())
    if missing or unknown:
        shown = f"missing {few(missing, 5) or 'none'}, unknown {few(unknown, 5) or 'none'}"
        raise InputError(f"the parts do not match the model: {shown}")
    for name, part in parts.items():
        types = WHOLE if name in whole else REAL
        if part.shape != expected[name] or part.dtype.name not in types:
            wanted = f"{', '.join(types[:-1])} or {types[-1]} of shape {list(expected[name])}"
            raise InputError(f"{name} must be {wanted}; got {part.dtype} of shape {list(part.shape)}")
