"""How much memory a lane takes, counted from the traced computation before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import jax
from jax.extend import core

HOST_BYTES = 2 * 2**30
"""What lanes may take on a CPU. A constant, so that the width of bundles does not depend on what else runs there."""

DEVICE_SHARE = 0.6
"""The share of an accelerator's memory that lanes may take."""


def memory_budget(device: jax.Device) -> int:
    """Bytes that the lanes of one bundle may take on this device."""
    statistics = device.memory_stats() if device.platform != "cpu" else None
    limit = (statistics or {}).get("bytes_limit")
    return int(limit * DEVICE_SHARE) if limit else HOST_BYTES


def traced_bytes(function: Callable[..., Any], *arguments: object) -> int:
    """The bytes of all intermediate results of a function: an upper estimate of what it holds at once when compiled."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    return sum(_bytes(variable.aval) for variable in _outputs(jaxpr.jaxpr))


def _outputs(jaxpr: core.Jaxpr) -> Iterator[core.Var]:
    for equation in jaxpr.eqns:
        inner = [value for value in equation.params.values() if isinstance(value, core.ClosedJaxpr | core.Jaxpr)]
        for sub in inner:
            yield from _outputs(sub.jaxpr if isinstance(sub, core.ClosedJaxpr) else sub)
        if not inner:
            yield from equation.outvars


def _bytes(aval: Any) -> int:
    return prod(aval.shape) * aval.dtype.itemsize if hasattr(aval, "shape") else 0


def array_bytes(tree: object) -> int:
    """The bytes of all arrays of a tree."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in jax.tree.leaves(tree))
