"""Checkpoints of lanes: the state of a bundle on disk, from which it resumes to the same bits.

One sealed safetensors file per bundle, `lanes-<hash of its trials and width>.safetensors`: the bytes of the trained
weights and of the optimiser of the lanes that still run, the weights of those that ended and were dropped, and `notes`,
a JSON text with the epoch, who is where, curves and what was measured of the ended ones. What does not change while
lanes train is made from the trials again; batches follow from the seed and the epoch. In the metadata stand the
bundle's hash and the marks: the kind of device and the versions of factrank and JAX, on which the last bits depend.

A file with other marks, of another bundle, or damaged is an error that names it, and is not deleted.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped, UInt8

from factrank.errors import InputError
from factrank.experiments.checks import Record
from factrank.experiments.lanes.devices import spread_lanes
from factrank.experiments.lanes.lane_programs import Lanes, mark, take
from factrank.experiments.run_checkpoints import CheckpointError, read_checkpoint
from factrank.experiments.specs import Trial
from factrank.nn import SUFFIX, Sealed, write_sealed
from factrank.version import __version__

FORMAT, VERSION = "factrank.lanes", 1
NOTED = ("end", "stopped", "diverged", "curves", "epochs_to")
"""What a record notes while its lane trains."""
NUMBERS = dict[str, float]
Arrays = list[Shaped[np.ndarray, "..."]]


@dataclass(frozen=True, eq=False)
class Dropped:
    """A lane that ended before its bundle: its model and numbers as they were collected."""

    record: Record
    numbers: NUMBERS
    model: Any
    width: int
    epoch: int


@dataclass(frozen=True, eq=False)
class BundleState:
    """All that a bundle has to know to go on."""

    lanes: Lanes
    records: list[Record]
    dropped: list[Dropped]
    epoch: int
    chunk: int


def lane_marks() -> dict[str, str]:
    """What the last bits depend on in addition to the trials and the width."""
    return {"device": _device(), "factrank": __version__, "jax": jax.__version__}


@cache
def _device() -> str:
    """The kind of accelerator, or of processor: compiled code is made for it."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped] # noqa: PLC0415 - heavy

    return str(get_host_cpu_name())


@dataclass(frozen=True)
class BundleFile:
    """The checkpoint of one bundle."""

    path: Path
    bundle: str

    @classmethod
    def of(cls, folder: Path, trials: Sequence[Trial], width: int) -> BundleFile:
        """That of these trials, in this order, at this width."""
        text = json.dumps([FORMAT, width, [trial.hash for trial in trials]])
        name = hashlib.sha256(text.encode()).hexdigest()
        return cls(folder / f"lanes-{name}{SUFFIX}", name)

    def save(self, state: BundleState, records: Sequence[Record]) -> None:
        """Write a state in one step; what cannot be written is a warning: training continues.

        `records` are those of the whole bundle before anything was dropped, in its order.
        """
        index = {id(record): at for at, record in enumerate(records)}
        notes = {
            "epoch": state.epoch,
            "chunk": state.chunk,
            "lanes": [_noted(record, index) for record in state.records],
            "dropped": [
                _noted(one.record, index) | {"numbers": one.numbers, "width": one.width, "epoch": one.epoch}
                for one in state.dropped
            ],
        }
        leaves = jax.device_get(jax.tree.leaves(_changing(state.lanes)))
        tensors = {"notes": np.frombuffer(json.dumps(notes).encode(), np.uint8)}
        tensors |= {f"lanes.{at}": _bytes(leaf) for at, leaf in enumerate(leaves)}
        for place, one in enumerate(state.dropped):
            tensors |= {f"dropped.{place}.{at}": _bytes(leaf) for at, leaf in enumerate(jax.tree.leaves(one.model))}
        try:
            write_sealed(self.path, Sealed(tensors, {"bundle": self.bundle, **lane_marks()}), FORMAT, VERSION)
        except InputError as error:
            warnings.warn(f"a checkpoint was not written: {error}", stacklevel=2)

    def load(self, first: Lanes, records: Sequence[Record]) -> BundleState | None:
        """The state in the file, None where there is none; `first` and `records` are the bundle before its start."""
        if not self.path.exists():
            return None
        sealed = read_checkpoint(self.path, FORMAT, VERSION, {"bundle": self.bundle, **lane_marks()})
        try:
            return _state(sealed, first, list(records))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise CheckpointError(
                f"{self.path}: not the state of a bundle of {len(records)} trials: {error!r}"
            ) from None

    def remove(self) -> None:
        """Forget a bundle that has ended."""
        self.path.unlink(missing_ok=True)


def _changing(lanes: Lanes) -> tuple[Any, Any]:
    return lanes.trained, lanes.optimiser


def _noted(record: Record, index: dict[int, int]) -> dict[str, Any]:
    return {"at": index[id(record)], **{name: getattr(record, name) for name in NOTED}}


def _bytes(leaf: Shaped[np.ndarray, "..."]) -> UInt8[np.ndarray, " n"]:
    return np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)


def _state(sealed: Sealed, first: Lanes, records: list[Record]) -> BundleState:
    """The state of a file whose marks are right; an error of Python's where it is none."""
    notes = json.loads(sealed.tensors["notes"].tobytes())
    running, ended = notes["lanes"], notes["dropped"]
    if sorted(one["at"] for one in [*running, *ended]) != list(range(len(records))):
        raise ValueError("its lanes are others")
    for one in [*running, *ended]:
        for name in NOTED:
            setattr(records[one["at"]], name, one[name])
    places = [one["at"] for one in running]
    leaf = sealed.tensors["lanes.0"]
    one_lane = jax.tree.map(lambda array: array[0], first)
    width = leaf.size // max(1, _bytes(np.asarray(jax.tree.leaves(_changing(one_lane))[0])).size)
    if width < len(places) or width & (width - 1):
        raise ValueError("its width is no rung")
    lanes = take(first, [*places, *[places[0]] * (width - len(places))], len(places))
    arrays = _filled(sealed, "lanes", jax.tree.leaves(_changing(lanes)))
    changed = jax.tree.unflatten(jax.tree.structure(_changing(lanes)), [jnp.asarray(array) for array in arrays])
    done = np.array([one["end"] is not None for one in running] + [True] * (width - len(places)))
    lanes = spread_lanes(mark(eqx.tree_at(_changing, lanes, changed), done), width)
    models = jax.device_get(eqx.combine(first.trained, first.fixed))
    dropped = []
    for place, one in enumerate(ended):
        model = jax.tree.map(lambda leaf, at=one["at"]: leaf[at], models)
        found = _filled(sealed, f"dropped.{place}", jax.tree.leaves(model))
        model = jax.tree.unflatten(jax.tree.structure(model), found)
        dropped.append(Dropped(records[one["at"]], one["numbers"], model, one["width"], one["epoch"]))
    return BundleState(lanes, [records[at] for at in places], dropped, int(notes["epoch"]), int(notes["chunk"]))


def _filled(sealed: Sealed, name: str, like: Sequence[Any]) -> Arrays:
    """The arrays of a file, of the types and shapes of others."""
    arrays = []
    for at, leaf in enumerate(like):
        kind, packed = np.dtype(leaf.dtype), sealed.tensors[f"{name}.{at}"]
        if packed.size != leaf.size * kind.itemsize:
            raise ValueError(f"the array {name}.{at} has {packed.size} bytes, not {leaf.size * kind.itemsize}")
        arrays.append(packed.view(kind).reshape(leaf.shape))
    return arrays
