"""Estimate the memory of a lane from the traced computation, before compiling it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import jax
from jax.extend import core

HOST_BYTES = 2 * 2**30
"""Memory budget of lanes on a CPU. It is constant, so bundle widths do not depend on other processes."""

DEVICE_SHARE = 0.6
"""Fraction of an accelerator's memory that lanes may use."""


def memory_budget(device: jax.Device) -> int:
    """Return the number of bytes that one bundle of lanes may use on this device."""
    statistics = device.memory_stats() if device.platform != "cpu" else None
    limit = (statistics or {}).get("bytes_limit")
    return int(limit * DEVICE_SHARE) if limit else HOST_BYTES


def traced_bytes(function: Callable[..., Any], *arguments: object) -> int:
    """Return the size in bytes of all intermediate results of a function, an upper bound on its peak memory."""
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
    """Return the size in bytes of all arrays in a pytree."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in jax.tree.leaves(tree))
