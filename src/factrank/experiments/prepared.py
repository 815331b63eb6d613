"""Prepared trials: a trial with its data, its task and its engine, each made once and passed on."""

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
    """The data that trials describe or name, each built once."""

    def __init__(self, given: Iterable[Data]) -> None:
        given = list(given)
        strange = next((one for one in given if not isinstance(one, Data)), None)
        if strange is not None:
            raise InputError(f"expected data with a fingerprint, such as a Database; got {type(strange).__name__}")
        self._found: dict[DataSpec, Data] = {Given(one.fingerprint): one for one in given}
        self._n_given = len(self._found)

    def __call__(self, trial: Trial) -> Data:
        """The data of a trial; an error if they cannot be built or were not given."""
        spec = trial.database
        found = self._found.get(spec)
        if found is None:
            if isinstance(spec, Given):
                raise InputError(f"its database {spec.fingerprint[:12]} is not among the {self._n_given} given")
            found = self._found[spec] = spec.build()
        return found


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trial, ready to train: on which data, as which task, by which engine (None: lanes), on which platform."""

    trial: Trial
    data: Data
    task: Task
    engine: Engine | None
    platform: str
    padded: bool = False
    """Whether its task is padded to sizes that it shares with others."""

    @property
    def family(self) -> Family:
        """The family of its model."""
        return family_of(self.trial.model)

    @property
    def engine_name(self) -> str:
        """The engine by its name."""
        return LANES if self.engine is None else self.engine.name

    @cached_property
    def work(self) -> Work:
        """How much work one epoch is."""
        return self.family.work(self.trial, self.data)

    @property
    def products(self) -> int:
        """About how many multiplications its forward passes take in all."""
        return self.trial.training.epochs * self.work.products

    @property
    def weight_bytes(self) -> int:
        """The bytes of its weights."""
        return self.work.parameters * (8 if self.trial.training.precision == "float64" else 4)


def task_of(trial: Trial, data: Data) -> Task:
    """The task of a trial on its data."""
    family = family_of(trial.model)
    refusal = family.refusal(trial.model, data)
    if refusal is not None:
        raise InputError(refusal)
    return family.task(trial, data)


def engine_for(trial: Trial, data: Data, device: str) -> tuple[Engine | None, str]:
    """The engine that trains a trial, and on which platform: one of its family's if that applies, else lanes (None)."""
    wanted, engines = trial.training.engine, family_of(trial.model).engines
    if wanted not in EVERY_ENGINE and wanted not in (engine.name for engine in engines):
        raise InputError(f"a {type(trial.model).__name__} has no training.engine {wanted!r}; use lanes or auto")
    for engine in engines:
        platform = engine.platform_of(trial, data, device)
        if platform is not None:
            return engine, platform
    return None, device


def prepare(trial: Trial, data: Data, device: str) -> Prepared:
    """A trial with its task and the engine that trains it."""
    return Prepared(trial, data, task_of(trial, data), *engine_for(trial, data, device))
