"""Checkpoints: the states of runs in flight on disk, from which they go on to the same bits.

Sealed safetensors files whose metadata have the marks of an engine: the kind of device and of kernel, on which the last
bits depend. A checkpoint with other marks is an error, as is a damaged file; neither is deleted. What is in a file is
the business of the engine that wrote it.
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
"""How often the states in flight are written."""

Marks = Mapping[str, str]


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

    def found(self, trials: Sequence[Trial]) -> list[int]:
        """The places of those trials that have a file here."""
        names = {name.removesuffix(SUFFIX) for name in os.listdir(self.folder) if name.endswith(SUFFIX)}
        return [place for place, trial in enumerate(trials) if trial.hash in names] if names else []

    def due(self) -> bool:
        """Whether it is time to write."""
        return perf_counter() - self._since >= self.seconds

    def written(self) -> None:
        """Wait for the next time from now on."""
        self._since = perf_counter()

    def path(self, trial: Trial) -> Path:
        """The file of a trial."""
        return self.folder / f"{trial.hash}{SUFFIX}"

    def epoch_written(self, trial: Trial) -> int | None:
        """The epoch of the state in the file of a trial, where it was read or written here."""
        return self._written.get(trial.hash)

    def note(self, trial: Trial, epoch: int) -> None:
        """Remember that the file of a trial has the state of this epoch."""
        self._written[trial.hash] = epoch

    def remove(self, trial: Trial) -> None:
        """Forget the checkpoint of a trial that has ended."""
        if self._written.pop(trial.hash, None) is not None:
            self.path(trial).unlink(missing_ok=True)
