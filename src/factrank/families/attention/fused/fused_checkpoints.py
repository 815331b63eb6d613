"""Checkpoints of the fused engine: the state of each run in flight, from which it resumes bit for bit.

There is one file per trial, named after its hash, with the flat arrays `weights`, `first` and `second`, and `records`.
The metadata contain the trial, the epoch, and the marks of the backend.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from factrank.errors import InputError
from factrank.experiments import CheckpointError, Checkpoints, Checks, Marks, read_checkpoint
from factrank.experiments.specs import Trial
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_run import RIGHT, Run, State
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Sealed, write_sealed

FORMAT, VERSION = "factrank.checkpoint", 1
ARRAYS = ("weights", "first", "second", "records")


def load_states(
    checkpoints: Checkpoints, trials: Sequence[Trial], tasks: Sequence[FactsTask], marks: Marks
) -> dict[int, State]:
    """Return the saved states of the given trials, by place."""
    return {place: _read(checkpoints, trials[place], tasks[place], marks) for place in checkpoints.found(trials)}


def save_states(checkpoints: Checkpoints, runs: Iterable[Run], marks: Marks) -> None:
    """Save the newest state of each run that has advanced since it was last saved, atomically.

    If a state cannot be written, a warning is issued and training continues.
    """
    checkpoints.written()
    for run in runs:
        state = run.state
        if state.epoch == (checkpoints.epoch_written(run.trial) or 0) and not state.stopped:
            continue
        metadata = {"trial": run.trial.hash, **marks, "epoch": str(state.epoch), "stopped": str(state.stopped)}
        tensors = {array: getattr(state, array) for array in ARRAYS}
        try:
            write_sealed(checkpoints.path(run.trial), Sealed(tensors, metadata), FORMAT, VERSION)
        except InputError as error:
            warnings.warn(f"a checkpoint was not written: {error}", stacklevel=2)
            return
        checkpoints.note(run.trial, state.epoch)


def _read(checkpoints: Checkpoints, trial: Trial, task: FactsTask, marks: Marks) -> State:
    """Read the state from the file of a trial."""
    path = checkpoints.path(trial)
    sealed = read_checkpoint(path, FORMAT, VERSION, {"trial": trial.hash, **marks})
    state = _state(path, trial, task, sealed)
    checkpoints.note(trial, state.epoch)
    return state


def _state(path: Path, trial: Trial, task: FactsTask, sealed: Sealed) -> State:
    """Return the state of a file with the right marks; sizes are checked, because kernels write to these arrays."""
    epoch, stopped, tensors = sealed.metadata.get("epoch", ""), sealed.metadata.get("stopped", ""), sealed.tensors
    if re.fullmatch("[0-9]{1,18}", epoch) and stopped in ("True", "False") and int(epoch) <= trial.training.epochs:
        real = "float64" if trial.training.precision == "float64" else "float32"
        noted = Checks.of(trial).between(0, int(epoch) + (stopped == "True"))
        shape, n_columns = cast("LayerShape", trial.model), RIGHT + 1 + len(trial.taus)
        n_weights = shape.parameters(*task.database.shape)
        expected: dict[str, tuple[tuple[int, ...], str]] = dict.fromkeys(ARRAYS[:3], ((n_weights,), real))
        expected["records"] = (len(noted), n_columns), "float64"
        kinds = {name: (tensor.shape, tensor.dtype.name) for name, tensor in tensors.items()}
        if kinds == expected and np.array_equal(tensors["records"][:, 0], noted):
            arrays = {name: tensors[name].copy() for name in ARRAYS}
            return State(epoch=int(epoch), stopped=stopped == "True", **arrays)
    raise CheckpointError(f"{path}: not the checkpoint of a trial of {trial.training.epochs} epochs")
