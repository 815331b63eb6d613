"""Families that the package does not know, as small as can be: a number that is to become 1."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from factrank.experiments.family import Family, Work
from factrank.experiments.specs import ResultColumn


@dataclass(frozen=True)
class Target:
    """Data of their own kind, without a fingerprint."""

    value: float = 1.0

    def build(self):
        return Aim(self.value)


@dataclass(frozen=True)
class Aim:
    value: float

    @property
    def fingerprint(self):
        return f"aim {self.value}"


@dataclass(frozen=True)
class NumberShape:
    start: float = 0.0


class Number(eqx.Module):
    number: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class NumberTask:
    trial: object
    aim: Aim
    signature = "number"
    frozen = ()

    def init(self, rng):
        return Number(np.float32(self.trial.model.start))

    def data(self):
        return {"aim": np.float32(self.aim.value)}

    def batches(self, data, key, epoch):
        return jnp.zeros((1, 0))

    def loss(self, model, data, batch):
        return (model.number - data["aim"]) ** 2

    def check(self, model, data):
        return {
            "loss": self.loss(model, data, None),
            "recall": (self.loss(model, data, None) < 1e-4).astype(jnp.float32),
        }

    measure = check

    def exact(self, numbers):
        return numbers

    def finish(self, model, numbers):
        return model, {}, []


DISTANCE = ResultColumn("distance", "how far off")


class NumberFamily(Family):
    """Options: its engines, its columns, and an error that its tasks raise."""

    def __init__(self, name="number", engines=(), columns=(DISTANCE,), fault=None):
        self.name, self._engines, self.columns, self.fault = name, engines, columns, fault
        self.shape = type("NumberShape", (NumberShape,), {}) if name != "number" else NumberShape
        self.models = {name: self.shape}
        self.data = {"target": Target} if name == "number" else {}

    @property
    def engines(self):
        return self._engines

    def refusal(self, spec, data):
        return None

    def task(self, trial, data):
        if self.fault is not None:
            raise self.fault
        return NumberTask(trial, data)

    def work(self, trial, data):
        return Work(1, 1, 1)


@dataclass(frozen=True, eq=False)
class Halver:
    """An engine that is done at once, and knows whom it trained."""

    name: str
    trained: list

    def platform_of(self, trial, data, device):
        return "cpu" if trial.training.engine in ("auto", self.name) else None

    def run(self, trials, tasks, checkpoints, platform):
        from factrank.experiments.checks import Checks, Record

        for place, (trial, task) in enumerate(zip(trials, tasks, strict=True)):
            self.trained.append(trial)
            record = Record(place, trial, task, Checks.of(trial))
            yield [record.finished(trial.training.epochs, task.init(None), {"loss": 0.0, "recall": 1.0}, 1)], 0

    def marks(self, device):
        return {"engine": self.name}

    def at_once(self):
        return 1
