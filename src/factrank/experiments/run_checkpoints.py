"""Checkpoints of unfinished runs, from which training resumes bit for bit.

A checkpoint is a sealed safetensors file. Its metadata record the device and kernel that wrote it, because the last
bits of the result depend on them. Reading a checkpoint with other marks, or a damaged file, is an error; such files are
never deleted. Each engine defines the contents of its checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from factrank.errors import InputError
from factrank.experiments.specs import Trial
from factrank.nn import SUFFIX, Sealed, read_sealed

SECONDS = 60.0
"""Seconds between checkpoints."""

Marks = Mapping[str, str]


class CheckpointError(InputError):
    """A file is not a checkpoint of the run to resume. Without the file, the run starts over."""


def read_checkpoint(path: Path, form: str, version: int, marks: Marks) -> Sealed:
    """Read a checkpoint.

    Raises:
        CheckpointError: If the file is damaged or has other marks.
    """
    try:
        sealed = read_sealed(path, form, version)
    except InputError as error:
        raise CheckpointError(str(error)) from None
    for name, wanted in marks.items():
        found = sealed.metadata.get(name, "")
        if found != wanted:
            raise CheckpointError(
                f"{path}: the checkpoint was written with {name} {found[:80]!r}; resuming "
                f"bit for bit requires {wanted!r}; resume there, use another folder, or delete the file to start over"
            )
    return sealed


class Checkpoints:
    """Folder with checkpoints of unfinished trials."""

    def __init__(self, folder: str | os.PathLike[str], seconds: float = SECONDS) -> None:
        self.folder, self.seconds = Path(folder), seconds
        self._since, self._written = perf_counter(), dict[str, int]()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot create a folder for checkpoints: {error.strerror or error}") from None
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder}: no permission to write checkpoints there")

    def found(self, trials: Sequence[Trial]) -> list[int]:
        """Return the indices of the trials that have a checkpoint."""
        names = {name.removesuffix(SUFFIX) for name in os.listdir(self.folder) if name.endswith(SUFFIX)}
        return [place for place, trial in enumerate(trials) if trial.hash in names] if names else []

    def due(self) -> bool:
        """Return whether it is time to write checkpoints."""
        return perf_counter() - self._since >= self.seconds

    def written(self) -> None:
        """Restart the timer of `due`."""
        self._since = perf_counter()

    def path(self, trial: Trial) -> Path:
        """Return the path of a trial's checkpoint."""
        return self.folder / f"{trial.hash}{SUFFIX}"

    def epoch_written(self, trial: Trial) -> int | None:
        """Return the epoch of a trial's checkpoint, or None if this object has neither read nor written it."""
        return self._written.get(trial.hash)

    def note(self, trial: Trial, epoch: int) -> None:
        """Remember the epoch of a trial's checkpoint."""
        self._written[trial.hash] = epoch

    def remove(self, trial: Trial) -> None:
        """Delete the checkpoint of a trial that has ended."""
        if self._written.pop(trial.hash, None) is not None:
            self.path(trial).unlink(missing_ok=True)
