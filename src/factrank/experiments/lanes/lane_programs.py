"""Compiled programs for many trials: jit(vmap(loop over epochs)), with one lane per trial.

Lanes have the same signature and differ in weights, data, learning rate, weight decay and key; with a learning rate
schedule, also in length. A lane computes the same as it would alone: lanes are independent, so a lane that diverges
does not affect the others.

In bfloat16, weights and optimiser state are stored in float32, and float32 weights are returned and saved. Every step
rounds the model to bfloat16 for the forward and backward pass; so do checks and measures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key

from factrank.experiments.frozen_parts import split
from factrank.experiments.lanes.device_memory import array_bytes, traced_bytes
from factrank.experiments.lanes.devices import EVERYWHERE, LANES, mesh_for, spread_lanes
from factrank.experiments.lanes.optimisers import build_optimiser
from factrank.experiments.specs import Training, TrainingPrecision, Trial
from factrank.experiments.task import Epoch, Metrics, Task, Tree

MATMUL_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "float64": "highest", "bfloat16": "highest"}
"""Precision of float32 products; bfloat16 numbers are multiplied in bfloat16."""

COMPILED_QUICKLY = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Options for evaluations, which run rarely: on a GPU, searching for the fastest kernels dominates compilation."""

WARM_UP_FROM = 0.01
"""Fraction of the learning rate at the start of a warm-up."""


@contextmanager
def arithmetic(precision: TrainingPrecision, *, exact: bool = False) -> Iterator[None]:
    """Context with the number format of a trial; `exact` selects full-precision products, for evaluations."""
    products = "highest" if exact else MATMUL_PRECISION[precision]
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision(products):
        yield


def in_bfloat16(model: Tree) -> Tree:
    """Return the model with its real weights rounded to bfloat16; gradients have the dtype of the original weights."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, model)


class Lanes(eqx.Module):
    """State of a bundle. Every array has a leading axis of lanes; lanes that are `done` do not change."""

    trained: Tree
    fixed: Tree
    optimiser: Tree
    data: Tree
    key: Key[Array, "*lanes"]
    learning_rate: Float[Array, "*lanes"]
    weight_decay: Float[Array, "*lanes"]
    last: Int[Array, "*lanes"]
    done: Bool[Array, "*lanes"]


@dataclass(frozen=True)
class Recipe:
    """Everything that a program depends on. Trials of one bundle have equal recipes."""

    signature: Hashable
    training: Training
    curve_epochs: tuple[int, ...]
    decays: bool


def recipe_of(trial: Trial, task: Task) -> Recipe:
    """Return the recipe of a trial: all settings except seed, learning rate, weight decay, score scale and data.

    The number of epochs is also excluded if lanes of different length may run together.
    """
    return Recipe(task.signature, _shared(trial.training), trial.curve_epochs, trial.training.weight_decay > 0)


@lru_cache(maxsize=4096)
def _shared(training: Training) -> Training:
    epochs = 0 if differ_in_length(training) else training.epochs
    return replace(training, learning_rate=0.0, weight_decay=0.0, score_scale=1.0, engine="auto", epochs=epochs)


def differ_in_length(training: Training) -> bool:
    """Return whether lanes of different length may run side by side, which requires a schedule.

    They could with a constant learning rate too, but published results were computed with other bundles.
    """
    return training.schedule != "constant"


def rate_factor(training: Training, epoch: Epoch, last: Int[Array, ""]) -> Float[Array, ""]:
    """Return the factor of the learning rate at epoch t of T: warm-up, then constant or cosine decay.

    With w = warm_up T: 1/100 + 99/100 t / w for t < w, then 1 or (1 + cos(pi (t - w) / (T - w))) / 2.
    """
    real = jnp.float64 if training.precision == "float64" else jnp.float32
    t, length = jnp.asarray(epoch, real), jnp.asarray(last, real)
    rising = training.warm_up * length
    factor = jnp.ones((), real)
    if training.schedule == "cosine":
        factor = (1 + jnp.cos(jnp.pi * (t - rising) / jnp.maximum(length - rising, 1))) / 2
    if training.warm_up:
        factor = jnp.where(t < rising, WARM_UP_FROM + (1 - WARM_UP_FROM) * t / jnp.maximum(rising, 1), factor)
    return factor


@dataclass(frozen=True, eq=False)
class Program:
    """Compiled functions of a recipe; `trial` and `task` are any trial with this recipe."""

    trial: Trial
    task: Task
    recipe: Recipe
    _advances: dict[Mesh | None, Callable[[Lanes, int, int], Lanes]] = field(default_factory=dict)

    # ---------------------------------------------------------------- from trials to lanes and back

    def start(self, trials: Sequence[Trial], tasks: Sequence[Task], width: int) -> Lanes:
        """Return the lanes of these trials before training, padded to the width with inactive copies of the first."""
        rows = [
            (task.init(np.random.default_rng(trial.seed)), task.data())
            for trial, task in zip(trials, tasks, strict=True)
        ]
        models, data = jax.tree.map(lambda *leaves: np.stack(_filled(leaves, width)), *rows)
        trained, fixed = split(models, self.task.frozen)
        real = np.float64 if self.recipe.training.precision == "float64" else np.float32
        rates = jnp.array(_filled([trial.training.learning_rate for trial in trials], width), real)
        decays = jnp.array(_filled([trial.training.weight_decay for trial in trials], width), real)
        seeds = np.array(_filled([trial.seed for trial in trials], width), np.uint32)
        return spread_lanes(
            Lanes(
                trained=trained,
                fixed=fixed,
                optimiser=self._first_states(trained, rates),
                data=data,
                key=jax.vmap(jax.random.key)(seeds),
                learning_rate=rates,
                weight_decay=decays,
                last=jnp.array(_filled([trial.training.epochs for trial in trials], width), jnp.int32),
                done=jnp.arange(width) >= len(trials),
            ),
            width,
        )

    def models(self, lanes: Lanes, places: Sequence[int]) -> list[Any]:
        """Return the models of some lanes, on the host."""
        arrays = jax.device_get(eqx.combine(lanes.trained, lanes.fixed))
        return [jax.tree.map(lambda leaf, at=at: leaf[at], arrays) for at in places]

    @cached_property
    def lane_bytes(self) -> int:
        """Upper bound on the memory of one lane during training, in bytes."""
        lanes = self.start([self.trial], [self.task], 1)
        one = jax.tree.map(lambda leaf: leaf[0], lanes)
        return 2 * array_bytes(one) + traced_bytes(partial(self._epoch, 0), one)

    # ---------------------------------------------------------------- compiled

    def advance(self, lanes: Lanes, epoch: int, n_epochs: int) -> Lanes:
        """Train all lanes for n epochs."""
        return self._advance_on(mesh_for(len(lanes.done)))(lanes, epoch, n_epochs)

    def _advance_on(self, mesh: Mesh | None) -> Callable[[Lanes, int, int], Lanes]:
        if mesh in self._advances:
            return self._advances[mesh]
        over_lanes = jax.vmap(self._epochs, in_axes=(0, None, None))
        if mesh is not None:  # lanes are independent, so devices do not communicate
            over_lanes = jax.shard_map(over_lanes, mesh=mesh, in_specs=(LANES, EVERYWHERE, EVERYWHERE), out_specs=LANES)
        return self._advances.setdefault(mesh, jax.jit(over_lanes))

    def _epochs(self, lane: Lanes, epoch: Int[Array, ""], n_epochs: Int[Array, ""]) -> Lanes:
        """Train one lane for n epochs, unless it is done."""
        later: Lanes = jax.lax.fori_loop(epoch, epoch + n_epochs, self._epoch, lane)
        if self.recipe.training.stop == "never" and not differ_in_length(self.recipe.training):
            return later
        kept: Lanes = jax.tree.map(partial(jnp.where, lane.done), lane, later)
        return kept

    @cached_property
    def check(self) -> Callable[[Lanes], Metrics]:
        """Compiled metrics of curves, for every lane."""
        return self._evaluation(self.task.check)

    @cached_property
    def measure(self) -> Callable[[Lanes], Metrics]:
        """Compiled metrics at the end of training, for every lane."""
        return self._evaluation(self.task.measure)

    def _evaluation(self, score: Callable[[Any, Any], Metrics]) -> Callable[[Lanes], Metrics]:
        def evaluate(lane: Lanes) -> Metrics:
            return score(self._computed(eqx.combine(lane.trained, lane.fixed)), lane.data)

        quickly = None if jax.local_devices()[0].platform == "cpu" else COMPILED_QUICKLY
        return jax.jit(jax.vmap(evaluate), compiler_options=quickly)

    def _epoch(self, epoch: Epoch, lane: Lanes) -> Lanes:
        """Train one lane for one pass over its batches."""
        batches = self.task.batches(lane.data, jax.random.fold_in(lane.key, epoch), epoch)
        n_steps, rate = jax.tree.leaves(batches)[0].shape[0], self._rate(lane, epoch)
        if n_steps == 1:
            return self._step(lane, jax.tree.map(lambda rows: rows[0], batches), rate)
        later: Lanes = jax.lax.scan(lambda state, batch: (self._step(state, batch, rate), None), lane, batches)[0]
        return later

    def _rate(self, lane: Lanes, epoch: Epoch) -> Float[Array, ""]:
        training = self.recipe.training
        if training.schedule == "constant" and not training.warm_up:
            return lane.learning_rate
        return lane.learning_rate * rate_factor(training, epoch, lane.last)

    def _step(self, lane: Lanes, batch: Tree, rate: Float[Array, ""]) -> Lanes:
        """Update one lane with one optimiser step: w + update - learning_rate * weight_decay * w."""

        def loss(trained: Tree) -> Float[Array, ""]:
            return self.task.loss(self._computed(eqx.combine(trained, lane.fixed)), lane.data, batch)

        optimiser = build_optimiser(self.recipe.training.optimiser, rate)
        updates, state = optimiser.update(jax.grad(loss)(lane.trained), lane.optimiser, lane.trained)
        if self.recipe.decays:
            shrink = rate * lane.weight_decay
            updates = jax.tree.map(lambda update, weight: update - shrink * weight, updates, lane.trained)
        trained = jax.tree.map(jnp.add, lane.trained, updates)
        after: Lanes = eqx.tree_at(lambda one: (one.trained, one.optimiser), lane, (trained, state))
        return after

    def _computed(self, model: Tree) -> Tree:
        """Convert the model to the format of forward and backward passes."""
        return in_bfloat16(model) if self.recipe.training.precision == "bfloat16" else model

    @cached_property
    def _first_states(self) -> Callable[[Tree, Float[Array, " lanes"]], Tree]:
        def first_state(trained: Tree, learning_rate: Float[Array, ""]) -> Tree:
            return build_optimiser(self.recipe.training.optimiser, learning_rate).init(trained)

        return jax.jit(jax.vmap(first_state))


def take(lanes: Lanes, places: Sequence[int], n_active: int) -> Lanes:
    """Return the lanes with these indices, which may repeat; only the first `n_active` are active."""
    index = jnp.asarray(places)
    taken = mark(jax.tree.map(lambda leaf: leaf[index], lanes), np.arange(len(places)) >= n_active)
    return spread_lanes(taken, len(places))


def mark(lanes: Lanes, done: Bool[np.ndarray, " lanes"]) -> Lanes:
    """Return the lanes with these flags as `done`."""
    marked: Lanes = eqx.tree_at(lambda state: state.done, lanes, jnp.asarray(done))
    return marked


@lru_cache(maxsize=64)
def _compiled(recipe: Recipe, first: _First) -> Program:
    return Program(first.trial, first.task, recipe)


def program_for(trial: Trial, task: Task) -> Program:
    """Return the program of a trial's recipe. Compiled functions are cached."""
    return _compiled(recipe_of(trial, task), _First(trial, task))


@dataclass(frozen=True)
class _First:
    """First trial of a recipe. All instances compare equal, because every trial of a recipe gives the same program."""

    trial: Trial
    task: Task

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _First)

    def __hash__(self) -> int:
        return 0


def _filled(rows: Sequence[Any], width: int) -> list[Any]:
    return [*rows, *[rows[0]] * (width - len(rows))]
