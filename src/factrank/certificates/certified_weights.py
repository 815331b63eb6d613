"""What a certificate says of the weights that it holds for: their precision and their fingerprint."""

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
    """The precision of the weights, one for all."""
    names = {leaf.dtype.name for leaf in jax.tree.leaves(model) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(names) != 1 or not names <= ARITHMETIC.keys():
        raise InputError(f"all weights must be of one precision among {', '.join(ARITHMETIC)}; got {sorted(names)}")
    return cast("Precision", names.pop())


def fingerprint_of(model: object) -> str:
    """SHA-256 of the names, types, sizes and bytes of all weights."""
    digest = hashlib.sha256(b"factrank weights 1")
    for name, part in sorted(to_arrays(model).items()):
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
