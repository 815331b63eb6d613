"""Precision and fingerprint of the weights of a certified model."""

from __future__ import annotations

import hashlib
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.errors import InputError
from factrank.nn import Precision, to_arrays


def precision_of(model: object) -> Precision:
    """Return the precision of the weights, or raise `InputError` if it is not unique."""
    names = {leaf.dtype.name for leaf in jax.tree.leaves(model) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(names) != 1 or not names <= ARITHMETIC.keys():
        raise InputError(
            f"all weights must have the same precision, one of {', '.join(ARITHMETIC)}; got {sorted(names)}"
        )
    return cast("Precision", names.pop())


def fingerprint_of(model: object) -> str:
    """Return the SHA-256 of the names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256(b"factrank weights 1")
    for name, part in sorted(to_arrays(model).items()):
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
