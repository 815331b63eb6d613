"""Checkpoints of lanes: the state of a bundle on disk, from which it resumes bit for bit.

Each bundle has one sealed safetensors file, `lanes-<hash of its trials and width>.safetensors`. It contains the trained
weights and the optimiser state of running lanes, the weights of lanes that ended and were removed, and `notes`, a JSON
string with the epoch, the order of the lanes, curves, and the metrics of lanes that ended. Everything that is constant
during training is recreated from the trials; batches are determined by seed and epoch. The metadata contain the hash of
the bundle, the device type and the versions of factrank and JAX, because the last bits depend on them.

A damaged file, or one with other metadata, is an error that names the file; it is never deleted.
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
"""Fields of a record that change during training."""
NUMBERS = dict[str, float]
Arrays = list[Shaped[np.ndarray, "..."]]


@dataclass(frozen=True, eq=False)
class Dropped:
    """A lane that ended before its bundle, with its model and metrics."""

    record: Record
    numbers: NUMBERS
    model: Any
    width: int
    epoch: int


@dataclass(frozen=True, eq=False)
class BundleState:
    """Everything needed to resume a bundle."""

    lanes: Lanes
    records: list[Record]
    dropped: list[Dropped]
    epoch: int
    chunk: int


def lane_marks() -> dict[str, str]:
    """Return what the last bits depend on, in addition to the trials and the width."""
    return {"device": _device(), "factrank": __version__, "jax": jax.__version__}


@cache
def _device() -> str:
    """Type of accelerator or CPU that code is compiled for."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped] # noqa: PLC0415 - heavy

    return str(get_host_cpu_name())


@dataclass(frozen=True)
class BundleFile:
    """Checkpoint file of one bundle."""

    path: Path
    bundle: str

    @classmethod
    def of(cls, folder: Path, trials: Sequence[Trial], width: int) -> BundleFile:
        """Return the checkpoint file of these trials, in this order, at this width."""
        text = json.dumps([FORMAT, width, [trial.hash for trial in trials]])
        name = hashlib.sha256(text.encode()).hexdigest()
        return cls(folder / f"lanes-{name}{SUFFIX}", name)

    def save(self, state: BundleState, records: Sequence[Record]) -> None:
        """Write a state atomically. If writing fails, emit a warning and continue training.

        `records` are the records of the whole bundle in order, before lanes were removed.
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
        """Return the stored state, or None without a file; `first` and `records` are the bundle before training."""
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
        """Delete the checkpoint of a bundle that has ended."""
        self.path.unlink(missing_ok=True)


def _changing(lanes: Lanes) -> tuple[Any, Any]:
    return lanes.trained, lanes.optimiser


def _noted(record: Record, index: dict[int, int]) -> dict[str, Any]:
    return {"at": index[id(record)], **{name: getattr(record, name) for name in NOTED}}


def _bytes(leaf: Shaped[np.ndarray, "..."]) -> UInt8[np.ndarray, " n"]:
    return np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)


def _state(sealed: Sealed, first: Lanes, records: list[Record]) -> BundleState:
    """Rebuild the state from a file with the right marks; raises various Python errors if it is invalid."""
    notes = json.loads(sealed.tensors["notes"].tobytes())
    running, ended = notes["lanes"], notes["dropped"]
    if sorted(one["at"] for one in [*running, *ended]) != list(range(len(records))):
        raise ValueError("it has other lanes")
    for one in [*running, *ended]:
        for name in NOTED:
            setattr(records[one["at"]], name, one[name])
    places = [one["at"] for one in running]
    leaf = sealed.tensors["lanes.0"]
    one_lane = jax.tree.map(lambda array: array[0], first)
    width = leaf.size // max(1, _bytes(np.asarray(jax.tree.leaves(_changing(one_lane))[0])).size)
    if width < len(places) or width & (width - 1):
        raise ValueError("its width is not a power of two")
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
    """Unpack arrays from a file, with the types and shapes of `like`."""
    arrays = []
    for at, leaf in enumerate(like):
        kind, packed = np.dtype(leaf.dtype), sealed.tensors[f"{name}.{at}"]
        if packed.size != leaf.size * kind.itemsize:
            raise ValueError(f"the array {name}.{at} has {packed.size} bytes, not {leaf.size * kind.itemsize}")
        arrays.append(packed.view(kind).reshape(leaf.shape))
    return arrays
