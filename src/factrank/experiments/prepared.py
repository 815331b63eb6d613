"""Prepared trials: a trial with its data, task and engine, each created once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from factrank.errors import InputError
from factrank.experiments.family import LANES, Engine, Family, Work
from factrank.experiments.registry import EVERY_ENGINE, family_of
from factrank.experiments.specs import Data, DataSpec, Given, Trial
from factrank.experiments.task import Task


class DataOfTrials:
    """Maps trials to their data. Data are built once per specification."""

    def __init__(self, given: Iterable[Data]) -> None:
        given = list(given)
        strange = next((one for one in given if not isinstance(one, Data)), None)
        if strange is not None:
            raise InputError(f"expected data with a fingerprint, such as a Database; got {type(strange).__name__}")
        self._found: dict[DataSpec, Data] = {Given(one.fingerprint): one for one in given}
        self._n_given = len(self._found)

    def __call__(self, trial: Trial) -> Data:
        """Return the data of a trial.

        Raises:
            InputError: If the data cannot be built, or the trial refers to data that were not given.
        """
        spec = trial.source
        found = self._found.get(spec)
        if found is None:
            if isinstance(spec, Given):
                raise InputError(f"data {spec.fingerprint[:12]} not found among the {self._n_given} given")
            found = self._found[spec] = spec.build()
        return found


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trial that is ready to train, with its data, task, engine (None for lanes) and platform."""

    trial: Trial
    data: Data
    task: Task
    engine: Engine | None
    platform: str
    padded: bool = False
    """True if the task is padded to the sizes of a group of trials."""

    @property
    def family(self) -> Family:
        """Family of the model."""
        return family_of(self.trial.model)

    @property
    def engine_name(self) -> str:
        """Name of the engine."""
        return LANES if self.engine is None else self.engine.name

    @cached_property
    def work(self) -> Work:
        """Estimated cost of one epoch."""
        return self.family.work(self.trial, self.data)

    @property
    def products(self) -> int:
        """Estimated number of multiplications in all forward passes."""
        return self.trial.training.epochs * self.work.products

    @property
    def weight_bytes(self) -> int:
        """Size of the weights in bytes."""
        return self.work.parameters * (8 if self.trial.training.precision == "float64" else 4)


def task_of(trial: Trial, data: Data) -> Task:
    """Return the task of a trial on its data.

    Raises:
        InputError: If the model cannot be trained on this data.
    """
    family = family_of(trial.model)
    refusal = family.refusal(trial.model, data)
    if refusal is not None:
        raise InputError(refusal)
    return family.task(trial, data)


def engine_for(trial: Trial, data: Data, device: str) -> tuple[Engine | None, str]:
    """Return the engine that trains a trial, or None for lanes, and the platform.

    The first engine of the family that supports the trial is used.

    Raises:
        InputError: If the trial requests an engine that its family does not have.
    """
    wanted, engines = trial.training.engine, family_of(trial.model).engines
    if wanted not in EVERY_ENGINE and wanted not in (engine.name for engine in engines):
        raise InputError(f"a {type(trial.model).__name__} has no training.engine {wanted!r}; use lanes or auto")
    for engine in engines:
        platform = engine.platform_of(trial, data, device)
        if platform is not None:
            return engine, platform
    return None, device


def prepare(trial: Trial, data: Data, device: str) -> Prepared:
    """Return a trial with its task and engine."""
    return Prepared(trial, data, task_of(trial, data), *engine_for(trial, data, device))
