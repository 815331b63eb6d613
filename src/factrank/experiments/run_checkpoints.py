"""Checkpoints: the states of runs in flight on disk, from which they go on to the same bits.

One sealed safetensors file per trial, named after its hash: `weights`, `first`, `second` (flat), `records`, and in the
metadata the trial, the epoch, and the marks of the backend: the kind of device and of kernel, on which the last bits
depend. A checkpoint with other marks is an error, as is a damaged file; neither is deleted.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import cast

import numpy as np

from factrank.errors import InputError
from factrank.experiments.checks import Checks
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_run import RIGHT, Run, State
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn.sealed_file import SUFFIX, Sealed, read_sealed, write_sealed

FORMAT, VERSION = "factrank.checkpoint", 1
SECONDS = 60.0
"""How often the states in flight are written."""

Marks = Mapping[str, str]
ARRAYS = ("weights", "first", "second", "records")


class CheckpointError(InputError):
    """A file that is no checkpoint of what is to go on: without it, that begins again."""


def read_checkpoint(path: Path, form: str, version: int, marks: Marks) -> Sealed:
    """The content of a checkpoint; an error where it is damaged or has other marks."""
    try:
        sealed = read_sealed(path, form, version)
    except InputError as error:
        raise CheckpointError(str(error)) from None
    for name, wanted in marks.items():
        found = sealed.metadata.get(name, "")
        if found != wanted:
            raise CheckpointError(
                f"{path}: a checkpoint of the {name} {found[:80]!r}, where {wanted!r} is needed to go on to the same "
                "bits; go on there, choose another folder, or remove the file to begin again"
            )
    return sealed


class Checkpoints:
    """A folder with the states of unfinished trials."""

    def __init__(self, folder: str | os.PathLike[str], seconds: float = SECONDS) -> None:
        self.folder, self.seconds = Path(folder), seconds
        self._since, self._written = perf_counter(), dict[str, int]()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be a folder of checkpoints: {error.strerror or error}") from None
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder}: no permission to write checkpoints there")

    def load(self, trials: Sequence[Trial], tasks: Sequence[FactsTask], marks: Marks) -> dict[int, State]:
        """The states found of these trials, by their places."""
        found = {name.removesuffix(SUFFIX) for name in os.listdir(self.folder) if name.endswith(SUFFIX)}
        if not found:
            return {}
        entries = enumerate(zip(trials, tasks, strict=True))
        return {place: self._read(trial, task, marks) for place, (trial, task) in entries if trial.hash in found}

    def due(self) -> bool:
        """Whether it is time to write."""
        return perf_counter() - self._since >= self.seconds

    def written(self) -> None:
        """Wait for the next time from now on."""
        self._since = perf_counter()

    def save(self, runs: Iterable[Run], marks: Marks) -> None:
        """Write the newest state of each run, in one step each, where it has moved since it was last written.

        What cannot be written is a warning: training continues.
        """
        self._since = perf_counter()
        for run in runs:
            state, name = run.state, run.trial.hash
            if state.epoch == self._written.get(name, 0) and not state.stopped:
                continue
            metadata = {"trial": name, **marks, "epoch": str(state.epoch), "stopped": str(state.stopped)}
            tensors = {array: getattr(state, array) for array in ARRAYS}
            try:
                write_sealed(self._path(run.trial), Sealed(tensors, metadata), FORMAT, VERSION)
            except InputError as error:
                warnings.warn(f"a checkpoint was not written: {error}", stacklevel=2)
                return
            self._written[name] = state.epoch

    def remove(self, trial: Trial) -> None:
        """Forget the checkpoint of a trial that has ended."""
        if self._written.pop(trial.hash, None) is not None:
            self._path(trial).unlink(missing_ok=True)

    def _path(self, trial: Trial) -> Path:
        return self.folder / f"{trial.hash}{SUFFIX}"

    def _read(self, trial: Trial, task: FactsTask, marks: Marks) -> State:
        """The state in the file of a trial."""
        path = self._path(trial)
        sealed = read_checkpoint(path, FORMAT, VERSION, {"trial": trial.hash, **marks})
        state = _state(path, trial, task, sealed)
        self._written[trial.hash] = state.epoch
        return state


def _state(path: Path, trial: Trial, task: FactsTask, sealed: Sealed) -> State:
    """The state of a file that has the right marks; kernels write where its sizes say, so they are checked."""
    epoch, stopped, tensors = sealed.metadata.get("epoch", ""), sealed.metadata.get("stopped", ""), sealed.tensors
    if re.fullmatch("[0-9]{1,18}", epoch) and stopped in ("True", "False") and int(epoch) <= trial.training.epochs:
        real = "float64" if trial.training.precision == "float64" else "float32"
        noted = Checks.of(trial).between(0, int(epoch) + (stopped == "True"))
        shape, n_columns = cast("LayerShape", trial.model), RIGHT + 1 + len(trial.measures.taus)
        n_weights = shape.parameters(*task.database.shape)
        expected: dict[str, tuple[tuple[int, ...], str]] = dict.fromkeys(ARRAYS[:3], ((n_weights,), real))
        expected["records"] = (len(noted), n_columns), "float64"
        kinds = {name: (tensor.shape, tensor.dtype.name) for name, tensor in tensors.items()}
        if kinds == expected and np.array_equal(tensors["records"][:, 0], noted):
            arrays = {name: tensors[name].copy() for name in ARRAYS}
            return State(epoch=int(epoch), stopped=stopped == "True", **arrays)
    raise CheckpointError(f"{path}: not the checkpoint of a trial of {trial.training.epochs} epochs")
