"""Task: the interface between a trial and the engine that trains it.

An engine needs nothing else. Any model can be trained in lanes if a task defines its initial weights, batches, loss and
metrics: on facts, associative memories, sequences sampled on the device, or labelled vectors.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Metrics = Mapping[str, Float[Array, ""]]
Reading = dict[str, object]
"""Metrics of a model under one readout; some entries identify the readout."""
Tree = Any
"""A pytree of arrays."""
Epoch = int | Int[Array, ""]
"""Number of an epoch, starting at 0; traced in compiled code."""


@runtime_checkable
class Task(Protocol):
    """A trial as a training problem. Tasks with equal signatures are compiled together and trained side by side.

    `batches`, `loss`, `check` and `measure` are traced. They may only use attributes of the task that its signature
    determines; everything that differs between trials is passed in as model, data and key.
    """

    @property
    def signature(self) -> Hashable:
        """Everything that determines the computation: sizes, options, batch size, measures."""

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of the parts that are not trained, determined by the recipe and the signature."""

    def init(self, rng: np.random.Generator) -> eqx.Module:
        """Return the model before training."""

    def data(self) -> Tree:
        """Return the arrays that the loss reads; their shapes are determined by the signature."""

    def batches(self, data: Tree, key: PRNGKeyArray, epoch: Epoch) -> Tree:
        """Return the batches of an epoch, arrays with one leading entry per step; `key` is the key of this epoch."""

    def loss(self, model: Any, data: Tree, batch: Tree) -> Float[Array, ""]:
        """Return the loss of one step."""

    def check(self, model: Any, data: Tree) -> Metrics:
        """Return the metrics for curves and early stopping: `loss`, and recalls in [0, 1]."""

    def measure(self, model: Any, data: Tree) -> Metrics:
        """Return the metrics after training, including all metrics of `check`."""

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Correct rounding errors in the results of `check` or `measure`; recall, for example, counts whole facts."""

    def finish(self, model: Any, numbers: Mapping[str, float]) -> tuple[Any, dict[str, float], list[Reading]]:
        """Return the final model, additional metrics, and readings. Not compiled.

        `numbers` are the results of `measure` after `exact`.
        """


def tau_recall(tau: float) -> str:
    """Return the name of the fraction of facts whose probability is at least tau.

    >>> tau_recall(0.95)
    'recall_0.95'
    """
    return f"recall_{tau}"
