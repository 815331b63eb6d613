"""Parts: the weights of a model as plain arrays by name, and what is said of arrays that are not its parts.

The name of a part is its path in the model: `w_q` of an attention layer, `blocks.0.mlp.w_in` of a transformer. Every
family has a module with `part_sizes(shape, sizes)` and, back from the arrays, `model_from_arrays(shape, sizes, parts)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from factrank.errors import InputError

PartArrays = dict[str, Shaped[np.ndarray, "..."]]
PartSizes = dict[str, tuple[int, ...]]

REAL = ("float32", "float64", "bfloat16")
"""The precisions that weights may have; JAX brings bfloat16 to NumPy."""
WHOLE = ("int32", "int64")
"""The types of parts that are whole numbers."""

SHOWN_PARTS, SHOWN_LETTERS = 5, 60


def to_arrays(model: object) -> PartArrays:
    """The parts by name, as NumPy arrays of the model's own precision.

    >>> sorted(to_arrays({"w_q": jnp.ones(2), "mlp": {"w_in": jnp.ones(3)}}))
    ['mlp.w_in', 'w_q']
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}


def stored_scalars(model: object) -> int:
    """The real numbers that a model stores.

    >>> stored_scalars({"w": jnp.ones((2, 3)), "rows": jnp.arange(4)})
    6
    """
    return sum(int(part.size) for part in to_arrays(model).values() if part.dtype.name in REAL)


def to_jax(parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, Array]:
    """The parts as JAX arrays of the same precision.

    JAX computes with float64 parts in 64 bits only inside `with jax.enable_x64(True):`; outside it warns and computes
    in 32.
    """
    with jax.enable_x64(True):  # else 64-bit parts would silently become 32-bit ones
        return {name: jnp.array(part) for name, part in parts.items()}


def require_same_parts(
    expected: Mapping[str, tuple[int, ...]],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
    whole: Collection[str] = (),
) -> None:
    """Raise an `InputError` that names the first part that is missing, unknown, or of the wrong size or type.

    Parts named in `whole` are whole numbers.
    """
    missing, unknown = sorted(expected.keys() - parts.keys()), sorted(parts.keys() - expected.keys())
    if missing or unknown:
        raise InputError(f"expected other parts: missing {_few(missing)}, unknown {_few(unknown)}")
    for name, part in parts.items():
        types = WHOLE if name in whole else REAL
        if part.shape != expected[name] or part.dtype.name not in types:
            wanted = f"{', '.join(types[:-1])} or {types[-1]} of shape {list(expected[name])}"
            raise InputError(f"{name} must be {wanted}; got {part.dtype} of shape {list(part.shape)}")


def _few(names: list[str]) -> str:
    """The first few names, long ones cut short: they may come from anybody's file."""
    shown = [repr(name[:SHOWN_LETTERS]) for name in names[:SHOWN_PARTS]]
    return ", ".join(shown + (["..."] if len(names) > SHOWN_PARTS else [])) or "none"
