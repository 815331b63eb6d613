"""One run of the fused engine: a trial before, during and after training.

A frozen `State` contains everything that changes, so a run that resumes from one of its states ends with the same bits.
Backends (CPU threads, GPU blocks) advance runs from state to state; everything else is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from math import isnan, prod, sqrt
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Float, Int64

from factrank.databases import Database
from factrank.experiments import Checks, Finished, Record, tau_recall
from factrank.experiments.specs import Trial
from factrank.families.attention.attention_layer import PARTS, AttentionLayer, draw_layer, part_sizes
from factrank.families.attention.attention_work import LayerSizes, sizes_of
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.layer_shape import LayerShape

LOSS, RIGHT = 1, 2
"""Columns of a record: epoch, loss, number of facts correct by argmax, then at each tau."""

ADAM = {"b1": 0.9, "b2": 0.999, "eps": 1e-8}
"""Options of Adam and their defaults in optax."""


@dataclass(frozen=True, eq=False)
class Fibers:
    """Facts of a database by fiber: (keys[f], queries[f]) has values[starts[f] : starts[f + 1]]."""

    starts: Int64[np.ndarray, " ends"]
    keys: Int64[np.ndarray, " fibers"]
    queries: Int64[np.ndarray, " fibers"]
    values: Int64[np.ndarray, " facts"]

    @classmethod
    def of(cls, database: Database) -> Fibers:
        """Return the fibers in the order of the triples, which are sorted by (key, query, value).

        >>> facts = [("Ann", "speaks", "Thai"), ("Ann", "speaks", "Urdu"), ("Bob", "speaks", "Urdu")]
        >>> Fibers.of(Database.from_facts(facts, multi=True)).starts.tolist()
        [0, 2, 3]
        """
        keys, queries, values = np.ascontiguousarray(database.triples.T, dtype=np.int64)  # for the kernels
        begins = np.ones(len(keys), dtype=bool)
        begins[1:] = (keys[1:] != keys[:-1]) | (queries[1:] != queries[:-1])
        starts = np.append(np.flatnonzero(begins), len(keys))
        return cls(starts, keys[begins], queries[begins], values)

    @property
    def arrays(self) -> tuple[Int64[np.ndarray, " n"], ...]:
        """The four arrays in the order of the kernel's arguments."""
        return self.starts, self.keys, self.queries, self.values


@dataclass(frozen=True, eq=False)
class State:
    """A model before the step of `epoch`: weights and Adam moments, flat in the order of PARTS, and its checks.

    `stopped` means that a check has ended the run here.
    """

    epoch: int
    weights: Float[np.ndarray, " parameters"]
    first: Float[np.ndarray, " parameters"]
    second: Float[np.ndarray, " parameters"]
    records: Float[np.ndarray, "checks columns"]
    stopped: bool = False


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The final model: its loss, and for every fact the margin and probability of its fiber."""

    loss: float
    margins: Float[np.ndarray, " facts"]
    probabilities: Float[np.ndarray, " facts"]


@dataclass(frozen=True, eq=False)
class EpochSpan:
    """Epochs that a kernel runs in one call; `stop_column` is 0 if checks must not stop the run."""

    span: tuple[int, int]
    checks: Int64[np.ndarray, " checks"]
    stop_column: int


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """Layout of a layer in its flat weights: shapes and ranges of the parts, and their initial standard deviations."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    ranges: tuple[tuple[int, int], ...]
    deviations: tuple[float, ...]

    def layer(self, weights: Float[np.ndarray, " parameters"]) -> AttentionLayer:
        """Return the layer with these weights, without copying them."""
        parts = [weights[a:b].reshape(shape) for (a, b), shape in zip(self.ranges, self.shapes, strict=True)]
        layer: AttentionLayer = jax.tree.unflatten(self.structure, parts)
        return layer

    def ranges_without(self, frozen: tuple[str, ...]) -> Int64[np.ndarray, "ranges 2"]:
        """Return the ranges of the parts that are trained."""
        ranges = [ends for name, ends in zip(PARTS, self.ranges, strict=True) if name not in frozen]
        return np.array(ranges, dtype=np.int64).reshape(-1, 2)


@lru_cache(maxsize=4096)
def layout_of(model: LayerShape, shape: tuple[int, int, int]) -> WeightLayout:
    """Return the layout of layers of this shape: concatenated parts, in the order in which they are drawn."""
    parts = part_sizes(model, *shape)
    lengths = [prod(size) for size, _ in parts.values()]
    deviations = tuple(fan_in**-0.5 for _, fan_in in parts.values())
    shapes = tuple(size for size, _ in parts.values())
    return WeightLayout(_structure(shape[0]), shapes, tuple(pairwise(accumulate(lengths, initial=0))), deviations)


@cache
def _structure(n_keys: int) -> Any:
    """Return the tree structure of a layer in JAX."""
    return jax.tree.structure(draw_layer(LayerShape(1, 1, 1, 1), n_keys, 1, 1, rng=np.random.default_rng(0)))


@dataclass(eq=False)
class Run:
    """A trial in training; a backend replaces `state` by later ones and sets `evaluation` when the run has ended.

    `numbers` are score_scale / sqrt(d_qk), learning rate, weight decay, b1, b2 and eps. `trained` are the ranges of the
    flat weights that are trained.
    """

    place: int
    trial: Trial
    task: FactsTask
    fibers: Fibers
    checks: Checks
    sizes: LayerSizes
    numbers: tuple[float, float, float, float, float, float]
    taus: Float[np.ndarray, " taus"]
    trained: Int64[np.ndarray, "ranges 2"]
    layout: WeightLayout
    state: State
    evaluation: Evaluation | None = None

    @property
    def ended(self) -> bool:
        """Whether training has ended."""
        return self.state.stopped or self.state.epoch == self.trial.training.epochs

    @property
    def stop_column(self) -> int:
        """Column of a record that stops the run when it counts every fact; 0 for none."""
        return {"never": 0, "recall": RIGHT, "recall_tau": RIGHT + 1}[self.trial.training.stop]

    def pieces(self, n_epochs: int) -> Iterator[EpochSpan]:
        """Split the next `n_epochs` epochs at curve evaluations at which the run must not stop."""
        start, stop = self.state.epoch, min(self.state.epoch + n_epochs, self.trial.training.epochs)
        if self.checks.stop is None:
            yield EpochSpan((start, stop), self.checks.between(start, stop), 0)
            return
        for look in self.checks.at:
            if start <= look < stop and not self.checks.regularly(look):
                if start < look:
                    yield EpochSpan((start, look), self.checks.between(start, look), self.stop_column)
                yield EpochSpan((look, look + 1), np.array([look]), 0)
                start = look + 1
        if start < stop:
            yield EpochSpan((start, stop), self.checks.between(start, stop), self.stop_column)

    def finish(self) -> Finished:
        """Return the result of a run that has ended and been evaluated."""
        state, record = self.state, Record(self.place, self.trial, self.task, self.checks)
        numbers = self._measured()
        for row in self._telling_records():
            record.note(int(row[0]), self._shares(float(row[LOSS]), row[RIGHT:]))
        if not state.stopped and state.epoch in self.checks:
            record.note(state.epoch, {name: numbers[name] for name in ("loss", *self._names)})
        if state.stopped and self.checks.stop is not None and not record.diverged:
            # If rounding makes the final evaluation differ from the check that stopped the run, the check decides.
            numbers[self.checks.stop] = 1.0
        return record.finished(state.epoch, self.layout.layer(state.weights), numbers, width=1)

    # ---------------------------------------------------------------- numbers

    @property
    def _names(self) -> list[str]:
        return ["recall", *map(tau_recall, self.trial.taus)]

    def _shares(self, loss: float, right: Any) -> dict[str, float]:
        """Return the numbers of a check, from counts of correct facts."""
        n_facts = len(self.fibers.values)
        shares = {name: float(count) / n_facts for name, count in zip(self._names, right, strict=True)}
        return {"loss": loss, **shares}

    def _measured(self) -> dict[str, float]:
        """Return loss, recalls, and smallest and median margin over all facts."""
        if self.evaluation is None:
            raise ValueError("the run was not evaluated")
        margins, probabilities = self.evaluation.margins, self.evaluation.probabilities
        right = [np.count_nonzero(margins > 0), *(np.count_nonzero(probabilities >= tau) for tau in self.taus)]
        least = float(margins.min())
        known = margins[~np.isnan(margins)] if isnan(least) else margins
        return {**self._shares(self.evaluation.loss, right), "margin": least, "median_margin": _median(known)}

    def _telling_records(self) -> Float[np.ndarray, "checks columns"]:
        """Return the records that are reported: curve points, first full recalls, and the last record."""
        records = self.state.records
        if len(records) == 0:
            return records
        epochs, full = records[:, 0], records[:, RIGHT:] == len(self.fibers.values)
        telling = np.zeros(len(records), dtype=bool)
        telling[-1] = True
        telling[np.searchsorted(epochs[:-1], self.checks.at)] = True  # or the next one, which is harmless
        if self.checks.every is not None and full.any():
            full &= (epochs % self.checks.every == 0)[:, None]
            telling[full.argmax(axis=0)] = True
        return records[telling]


def prepare(place: int, trial: Trial, task: FactsTask, fibers: Fibers, state: State | None = None) -> Run:
    """Return the run of a trial, before its first epoch or in a saved state."""
    training, model = trial.training, cast("LayerShape", trial.model)
    sizes, layout = sizes_of(model, task.database.shape), layout_of(model, task.database.shape)
    options = ADAM | {name: float(value) for name, value in training.optimiser.options if name in ADAM}  # type: ignore[arg-type]
    scale = training.score_scale / sqrt(sizes[5])
    return Run(
        place=place,
        trial=trial,
        task=task,
        fibers=fibers,
        checks=Checks.of(trial),
        sizes=sizes,
        numbers=(scale, training.learning_rate, training.weight_decay, options["b1"], options["b2"], options["eps"]),
        taus=np.array(trial.taus),
        trained=layout.ranges_without(training.frozen),
        layout=layout,
        state=state or _first_state(trial, layout),
    )


def _first_state(trial: Trial, layout: WeightLayout) -> State:
    """Return the weights that `draw_layer` draws from the seed of the trial, drawn in one call."""
    drawn = np.random.default_rng(trial.seed).standard_normal(layout.ranges[-1][1])
    for (start, stop), deviation in zip(layout.ranges, layout.deviations, strict=True):
        drawn[start:stop] *= deviation
    weights = drawn.astype("float64" if trial.training.precision == "float64" else "float32")
    columns = RIGHT + 1 + len(trial.taus)
    return State(0, weights, np.zeros_like(weights), np.zeros_like(weights), np.empty((0, columns)))


def _median(numbers: Float[np.ndarray, " n"]) -> float:
    if len(numbers) == 0:
        return np.nan
    low, high = (len(numbers) - 1) // 2, len(numbers) // 2
    ordered = np.partition(numbers, (low, high))
    return float(ordered[low] if low == high else (ordered[low] + ordered[high]) / 2)
