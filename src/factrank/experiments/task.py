"""Task: what an engine has to know of a trial in order to train it.

The engine asks for nothing else, so whatever can say how a model starts, what its batches and its loss are, and how
it is scored, can be trained in lanes: facts, associative memories, sequences sampled on the device, vectors with
labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Metrics = Mapping[str, Float[Array, ""]]
Reading = dict[str, object]
"""A row of numbers of a model under one readout, which is named by some of them."""
Tree = Any
"""Arrays in dictionaries, tuples or modules."""
Epoch = int | Int[Array, ""]
"""The number of an epoch, from 0; traced in compiled code."""


@runtime_checkable
class Task(Protocol):
    """One trial as something to train. Tasks with equal signatures are compiled together and run side by side.

    `batches`, `loss`, `check` and `measure` are traced: they may use of the task itself only what its signature
    fixes, and get everything that differs between trials through the model, the data and the key.
    """

    @property
    def signature(self) -> Hashable:
        """Everything that shapes the computation: sizes, options, batch size, what is measured."""

    @property
    def frozen(self) -> tuple[str, ...]:
        """The names of the parts that are not trained; the recipe and the signature fix them."""

    def init(self, rng: np.random.Generator) -> eqx.Module:
        """The model before training."""

    def data(self) -> Tree:
        """The arrays that the loss reads, the same shapes for every task of the signature."""

    def batches(self, data: Tree, key: PRNGKeyArray, epoch: Epoch) -> Tree:
        """What this epoch goes through: arrays with one leading entry per step; the key is that of the epoch."""

    def loss(self, model: Any, data: Tree, batch: Tree) -> Float[Array, ""]:
        """The loss of one step."""

    def check(self, model: Any, data: Tree) -> Metrics:
        """The numbers of a curve and of stopping: `loss`, and recalls in [0, 1]."""

    def measure(self, model: Any, data: Tree) -> Metrics:
        """The numbers at the end, those of `check` among them."""

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers of `check` or `measure` freed of the rounding of compiled code where more is known of them."""

    def finish(self, model: Any, numbers: Mapping[str, float]) -> tuple[Any, dict[str, float], list[Reading]]:
        """The model as it is handed out, further numbers of it, and its readings, computed outside the compiled code.

        `numbers` are those of `measure`, exact.
        """


def tau_recall(tau: float) -> str:
    """The name of the share of facts whose probability is at least tau."""
    return f"recall_{tau}"
