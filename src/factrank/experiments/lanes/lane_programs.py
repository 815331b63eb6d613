"""One compiled program for many trials: jit(vmap(loop over epochs)), a lane per trial.

Lanes share a signature and differ in weights, data, learning rate, weight decay and key, and, where the learning rate
follows a schedule, in their length. A lane computes what it would compute alone: nothing crosses between lanes, so one
that diverges touches no other.

In bfloat16 the weights and the optimiser stay in float32, and it is float32 weights that come out and are saved. Every
step rounds the model to bfloat16 and computes the forward and the backward pass with it; checks and measures do too.
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
"""How products of float32 are taken; bfloat16 numbers are multiplied as they are."""

COMPILED_QUICKLY = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""For evaluations, which run seldom: on a GPU most of a compilation is a search for the fastest kernels."""

WARM_UP_FROM = 0.01
"""The share of the learning rate at which a warm-up begins."""


@contextmanager
def arithmetic(precision: TrainingPrecision, *, exact: bool = False) -> Iterator[None]:
    """The number format of a trial; `exact` asks for full products, as every evaluation does."""
    products = "highest" if exact else MATMUL_PRECISION[precision]
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision(products):
        yield


def in_bfloat16(model: Tree) -> Tree:
    """The model with its real weights rounded to bfloat16; gradients come back in the format of the weights."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, model)


class Lanes(eqx.Module):
    """The state of a bundle: every array has a leading axis of lanes; a lane that is `done` changes no more."""

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
    """What a program depends on beside its task; trials of one bundle share it, and the signature of their tasks."""

    signature: Hashable
    training: Training
    curve_epochs: tuple[int, ...]
    decays: bool


def recipe_of(trial: Trial, task: Task) -> Recipe:
    """All of a trial but its seed, learning rate, weight decay, score scale, data and, where it may differ, length."""
    return Recipe(task.signature, _shared(trial.training), trial.curve_epochs, trial.training.weight_decay > 0)


@lru_cache(maxsize=4096)
def _shared(training: Training) -> Training:
    epochs = 0 if differ_in_length(training) else training.epochs
    return replace(training, learning_rate=0.0, weight_decay=0.0, score_scale=1.0, engine="auto", epochs=epochs)


def differ_in_length(training: Training) -> bool:
    """Whether lanes of different length may run side by side: those with a schedule.

    At a constant rate they could too; there the bundles stay as they were cut when their results were published.
    """
    return training.schedule != "constant"


def rate_factor(training: Training, epoch: Epoch, last: Int[Array, ""]) -> Float[Array, ""]:
    """The share of the learning rate at an epoch t of T: the rate rises, then stays or falls as a cosine.

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
    """The compiled functions of a recipe; `trial` and `task` stand for all that share it."""

    trial: Trial
    task: Task
    recipe: Recipe
    _advances: dict[Mesh | None, Callable[[Lanes, int, int], Lanes]] = field(default_factory=dict)

    # ---------------------------------------------------------------- from trials to lanes and back

    def start(self, trials: Sequence[Trial], tasks: Sequence[Task], width: int) -> Lanes:
        """The lanes of these trials before training; copies of the first that are done fill up to the width."""
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
        """The models of some lanes, on the host."""
        arrays = jax.device_get(eqx.combine(lanes.trained, lanes.fixed))
        return [jax.tree.map(lambda leaf, at=at: leaf[at], arrays) for at in places]

    @cached_property
    def lane_bytes(self) -> int:
        """An upper estimate of the memory that one lane takes while it trains."""
        lanes = self.start([self.trial], [self.task], 1)
        one = jax.tree.map(lambda leaf: leaf[0], lanes)
        return 2 * array_bytes(one) + traced_bytes(partial(self._epoch, 0), one)

    # ---------------------------------------------------------------- compiled

    def advance(self, lanes: Lanes, epoch: int, n_epochs: int) -> Lanes:
        """The lanes n epochs after this one."""
        return self._advance_on(mesh_for(len(lanes.done)))(lanes, epoch, n_epochs)

    def _advance_on(self, mesh: Mesh | None) -> Callable[[Lanes, int, int], Lanes]:
        if mesh in self._advances:
            return self._advances[mesh]
        over_lanes = jax.vmap(self._epochs, in_axes=(0, None, None))
        if mesh is not None:  # each device has lanes of its own and hears nothing of the others
            over_lanes = jax.shard_map(over_lanes, mesh=mesh, in_specs=(LANES, EVERYWHERE, EVERYWHERE), out_specs=LANES)
        return self._advances.setdefault(mesh, jax.jit(over_lanes))

    def _epochs(self, lane: Lanes, epoch: Int[Array, ""], n_epochs: Int[Array, ""]) -> Lanes:
        """One lane n epochs after this one, or as it is when it is done."""
        later: Lanes = jax.lax.fori_loop(epoch, epoch + n_epochs, self._epoch, lane)
        if self.recipe.training.stop == "never" and not differ_in_length(self.recipe.training):
            return later
        kept: Lanes = jax.tree.map(partial(jnp.where, lane.done), lane, later)
        return kept

    @cached_property
    def check(self) -> Callable[[Lanes], Metrics]:
        """The numbers of a curve, for every lane."""
        return self._evaluation(self.task.check)

    @cached_property
    def measure(self) -> Callable[[Lanes], Metrics]:
        """The numbers at the end, for every lane."""
        return self._evaluation(self.task.measure)

    def _evaluation(self, score: Callable[[Any, Any], Metrics]) -> Callable[[Lanes], Metrics]:
        def evaluate(lane: Lanes) -> Metrics:
            return score(self._computed(eqx.combine(lane.trained, lane.fixed)), lane.data)

        quickly = None if jax.local_devices()[0].platform == "cpu" else COMPILED_QUICKLY
        return jax.jit(jax.vmap(evaluate), compiler_options=quickly)

    def _epoch(self, epoch: Epoch, lane: Lanes) -> Lanes:
        """One lane after one more pass over its batches."""
        batches = self.task.batches(lane.data, jax.random.fold_in(lane.key, epoch), epoch)
        n_steps, rate = jax.tree.leaves(batches)[0].shape[0], self._rate(lane, epoch)
        if n_steps == 1:
            return self._step(lane, jax.tree.map(lambda rows: rows[0], batches), rate)
        later: Lanes = jax.lax.scan(lambda state, batch: (self._step(state, batch, rate), None), lane, batches)[0]
        return later

    def _rate(self, lane: Lanes, epoch: Epoch) -> Float[Array, ""]:
        """The learning rate of all steps of an epoch."""
        training = self.recipe.training
        if training.schedule == "constant" and not training.warm_up:
            return lane.learning_rate
        return lane.learning_rate * rate_factor(training, epoch, lane.last)

    def _step(self, lane: Lanes, batch: Tree, rate: Float[Array, ""]) -> Lanes:
        """One lane after one step of its optimiser: w + update - learning_rate * weight_decay * w."""

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
        """The model in the format of forward and backward passes."""
        return in_bfloat16(model) if self.recipe.training.precision == "bfloat16" else model

    @cached_property
    def _first_states(self) -> Callable[[Tree, Float[Array, " lanes"]], Tree]:
        def first_state(trained: Tree, learning_rate: Float[Array, ""]) -> Tree:
            return build_optimiser(self.recipe.training.optimiser, learning_rate).init(trained)

        return jax.jit(jax.vmap(first_state))


def take(lanes: Lanes, places: Sequence[int], n_active: int) -> Lanes:
    """The lanes at these places, which may repeat; all but the first `n_active` are done."""
    index = jnp.asarray(places)
    taken = mark(jax.tree.map(lambda leaf: leaf[index], lanes), np.arange(len(places)) >= n_active)
    return spread_lanes(taken, len(places))


def mark(lanes: Lanes, done: Bool[np.ndarray, " lanes"]) -> Lanes:
    """The same lanes, these of them done."""
    marked: Lanes = eqx.tree_at(lambda state: state.done, lanes, jnp.asarray(done))
    return marked


@lru_cache(maxsize=64)
def _compiled(recipe: Recipe, first: _First) -> Program:
    return Program(first.trial, first.task, recipe)


def program_for(trial: Trial, task: Task) -> Program:
    """The program of a trial's recipe; compiled functions are kept for the next bundle and the next call."""
    return _compiled(recipe_of(trial, task), _First(trial, task))


@dataclass(frozen=True)
class _First:
    """The first trial of a recipe; no part of a key, because all trials of a recipe compile to the same program."""

    trial: Trial
    task: Task

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _First)

    def __hash__(self) -> int:
        return 0


def _filled(rows: Sequence[Any], width: int) -> list[Any]:
    return [*rows, *[rows[0]] * (width - len(rows))]
