"""Distribute lanes evenly over several devices."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from factrank.experiments.lanes.ladder import rung_below

Tree = TypeVar("Tree")
LANES = PartitionSpec("lanes")  # type: ignore[no-untyped-call]
EVERYWHERE = PartitionSpec()  # type: ignore[no-untyped-call]


@cache
def mesh_for(width: int) -> Mesh | None:
    """Return a mesh of devices for a bundle of this width, a power of two of them; None if one device is enough."""
    devices = jax.local_devices()
    n_devices = min(rung_below(len(devices)), width)
    return Mesh(np.array(devices[:n_devices]), ("lanes",)) if n_devices > 1 else None


def spread_lanes(lanes: Tree, width: int) -> Tree:
    """Place the arrays of a bundle on its devices, an equal slice of the lanes on each."""
    mesh = mesh_for(width)
    placed: Tree = jax.device_put(lanes, None if mesh is None else NamedSharding(mesh, LANES))
    return placed
