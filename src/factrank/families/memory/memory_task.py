r"""The task of training an associative memory on f: [N] -> [M], given as a database with one query.

$$\mathrm{loss} = \sum_x p_x \bigl( \log \sum_y e^{\ell_y(x)} - \ell_{f(x)}(x) \bigr), \qquad
  p_x \propto (\mathrm{code}_x + 1)^{-\mathrm{key\_exponent}}$$

The sum is over all inputs that have a fact, in every step. Recalls weight all facts equally.

A capacity search tries many sizes, and each new size means a new compilation. Therefore N and M are padded to a few
size classes (`padded_size`): padding inputs have weight 0 and padding outputs have probability 0. The size class
depends only on the trial, so a trial computes the same numbers in a batch as it does alone.

The N x M logits dominate the cost. The derivative of the log-partition with respect to F(e_x) is the mean output
embedding under the softmax. The forward pass computes it while the exponentials are available, and the backward pass
needs nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TypedDict, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Epoch, Metrics, Reading, tau_recall
from factrank.experiments.specs import DRAWN, EpochsTo, FrequencyGroups, Trial
from factrank.families.memory.associative_memory import AssociativeMemory, draw_memory, resized
from factrank.families.memory.memory_limit import asymptotic_memory_limit, memory_limit
from factrank.families.memory.memory_shape import MemoryShape
from factrank.families.memory.weighted_facts import WeightedFacts

EMBEDDINGS = ("inputs", "outputs")
COARSE = 6
ALIGNED, UNIT = 2**COARSE, 16
"""Size classes from 64 on are multiples of 16, a size at which GPUs multiply matrices faster."""


class MemoryData(TypedDict):
    """Inputs of the loss of one trial, one row per input; NumPy arrays while on the host."""

    values: Int[Array, " inputs"]
    weights: Float[Array, " inputs"]
    stored: Bool[Array, " inputs"]
    groups: Int[Array, " inputs"]
    n_values: Int[Array, ""]


@dataclass(frozen=True, eq=False)
class MemoryTask:
    """Training of one memory on a functional database with one query."""

    trial: Trial
    database: Database

    def __post_init__(self) -> None:
        n_facts, groups, training = len(self.database), self._n_groups, self.trial.training
        if training.batch_size is not None:
            raise InputError("an associative memory trains on all facts in every step; leave out batch_size")
        if training.score_scale != 1:
            raise InputError("an associative memory has no attention scores; leave out score_scale")
        if not n_facts:
            raise InputError("the database has no facts to train on")
        if self.database.n_queries != 1 or not self.database.functional:
            raise InputError(
                "an associative memory stores one value per key and needs a functional database with one query; "
                f"got {self.database.n_queries} queries and {n_facts} facts"
            )
        if groups > n_facts:
            raise InputError(f"cannot split {n_facts} facts into {groups} groups; choose fewer FrequencyGroups")

    @property
    def _shape(self) -> MemoryShape:
        return cast("MemoryShape", self.trial.model)

    @property
    def _key_exponent(self) -> float:
        return WeightedFacts.of(self.trial.data).key_exponent

    @property
    def _n_groups(self) -> int:
        asked = self.trial.measure(FrequencyGroups)
        return 0 if asked is None else asked.groups

    @property
    def _padded_sizes(self) -> tuple[int, int]:
        """N and M after padding."""
        return padded_size(self.database.n_keys), padded_size(self.database.n_values)

    @property
    def signature(self) -> Hashable:
        """Key of the compiled program: the model, the padded sizes, the frequencies and the measures."""
        trial = self.trial
        measured = trial.taus, trial.measure(EpochsTo), self._n_groups
        return "memory", self._shape, self._padded_sizes, self._key_exponent, measured

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts that are not trained: those named by the trial, and the embeddings unless they are trained."""
        embeddings = () if self._shape.trained_embeddings else EMBEDDINGS
        return tuple(sorted({*self.trial.training.frozen, *embeddings}))

    def init(self, rng: np.random.Generator) -> AssociativeMemory:
        """Return the padded memory before training; closed forms are computed in float64."""
        n_keys, _, n_values = self.database.shape
        if self.trial.start == DRAWN:
            memory = draw_memory(self._shape, n_keys, n_values, rng=rng, dtype=self._real)
        else:
            from factrank.families.memory.memory_construction import started_memory  # noqa: PLC0415 - rarely needed

            memory = started_memory(self._shape, self.database, self.trial.start, rng=rng, dtype=self._real)
        padded: AssociativeMemory = resized(memory, *self._padded_sizes)
        return padded

    def data(self) -> MemoryData:
        """Return the value, weight and frequency group of every input."""
        n_rows, _ = self._padded_sizes
        values, groups, weights = np.zeros(n_rows, np.int32), np.full(n_rows, -1, np.int32), np.zeros(n_rows)
        keys = self.database.triples[:, 0]  # sorted, so the most frequent keys are first
        values[keys], groups[keys] = self.database.triples[:, 2], self._groups
        weights[keys] = frequencies(keys, self._key_exponent)
        arrays = {
            "values": values,
            "weights": weights.astype(self._real),
            "stored": groups >= 0,
            "groups": groups,
            "n_values": np.array(self.database.n_values, np.int32),
        }
        return cast("MemoryData", arrays)

    def batches(self, data: MemoryData, key: PRNGKeyArray, epoch: Epoch) -> Int[Array, "1 0"]:  # noqa: ARG002
        """Return a single batch, which stands for all facts."""
        return jnp.zeros((1, 0), dtype=jnp.int32)

    def loss(self, model: AssociativeMemory, data: MemoryData, batch: Int[Array, "0"]) -> Float[Array, ""]:  # noqa: ARG002
        """Return the cross-entropy of all facts, weighted by their frequencies."""
        streams = model.read(model.inputs)
        own = (streams * model.outputs[data["values"]]).sum(axis=1)
        partition = log_partitions_by_autodiff if self._shape.trained_embeddings else log_partitions
        return (data["weights"] * (partition(streams, model.outputs, data["n_values"]) - own)).sum()

    def check(self, model: AssociativeMemory, data: MemoryData) -> Metrics:
        """Return the loss and the recalls over all facts, and over each frequency group if requested."""
        return self._scores(model, data)[0]

    def measure(self, model: AssociativeMemory, data: MemoryData) -> Metrics:
        """Return the numbers of `check` with the minimum and median margin."""
        fractions, margins = self._scores(model, data)
        return fractions | {
            "margin": jnp.min(margins, where=data["stored"], initial=jnp.inf),
            "median_margin": jnp.nanmedian(jnp.where(data["stored"], margins, jnp.nan)),
        }

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with recalls rounded to exact fractions of the facts; float32 only approximates them."""
        sizes = np.bincount(self._groups)
        named = {f"recall_group_{group + 1}": int(size) for group, size in enumerate(sizes)}
        counts = {name: named.get(name, len(self.database)) for name in numbers if name.startswith("recall")}
        fractions = {name: round(numbers[name] * n) / n for name, n in counts.items() if np.isfinite(numbers[name])}
        return numbers | fractions

    def finish(
        self, model: AssociativeMemory, numbers: Mapping[str, float]
    ) -> tuple[AssociativeMemory, dict[str, float], list[Reading]]:
        """Return the memory without padding, and its size and capacity."""
        n_keys, _, n_values = self.database.shape
        parameters, bits = self._shape.memory_parameters, self.database.bits_by_query
        further = {
            "facts": float(len(self.database)),
            "parameters": float(parameters),
            "bits": bits,
            "bits_per_parameter": numbers["recall"] * bits / parameters,
        }
        if self._shape.width is None:
            limits = memory_limit(self._shape.d_model), asymptotic_memory_limit(self._shape.d_model)
            further |= dict(zip(("limit", "limit_half"), limits, strict=True))
        return resized(model, n_keys, n_values), further, []

    # ---------------------------------------------------------------- facts and logits

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"

    @cached_property
    def _groups(self) -> Int[np.ndarray, " facts"]:
        """Group of each fact, from 0: groups of nearly equal size, by falling frequency."""
        n_facts = len(self.database)
        return np.arange(n_facts, dtype=np.int64) * max(1, self._n_groups) // n_facts

    def _scores(
        self, model: AssociativeMemory, data: MemoryData
    ) -> tuple[dict[str, Float[Array, ""]], Float[Array, " inputs"]]:
        """Return loss and recalls, and the margin of every input."""
        logits = model.read(model.inputs) @ model.outputs.T
        own = jnp.take_along_axis(logits, data["values"][:, None], axis=1)
        codes = jnp.arange(logits.shape[1])
        others = (codes < data["n_values"]) & (codes != data["values"][:, None])
        margins = own[:, 0] - jnp.where(others, logits, -jnp.inf).max(axis=1)
        losses = jnp.logaddexp(0.0, jax.nn.logsumexp(jnp.where(others, logits - own, -jnp.inf), axis=1))
        real = jnp.promote_types(losses.dtype, jnp.float32)  # bfloat16 would round the thresholds
        probabilities = jnp.exp(-losses.astype(real))
        right = {tau_recall(tau): probabilities >= tau for tau in self.trial.taus}
        found = {"loss": (data["weights"] * losses).sum(), "recall": _fraction(margins > 0, data["stored"])}
        found |= {name: _fraction(is_right, data["stored"]) for name, is_right in right.items()}
        for group in range(self._n_groups):
            found[f"recall_group_{group + 1}"] = _fraction(margins > 0, data["groups"] == group)
        return found, margins


def padded_size(size: int) -> int:
    """Return the smallest size class that is at least `size`.

    Size classes are powers of 2 up to 64, where a memory is cheap; above that, powers of 2^(1/4), rounded up to
    multiples of 16.

    >>> [padded_size(size) for size in (1, 5, 7, 65, 1000, 8192, 8193)]
    [1, 8, 8, 80, 1024, 8192, 9744]
    """
    step = 0
    while True:
        padded = 1 << step if step <= COARSE else -(-ceil(ALIGNED * 2 ** ((step - COARSE) / 4)) // UNIT) * UNIT
        if padded >= size:
            return padded
        step += 1


def frequencies(codes: Int[np.ndarray, " n"], exponent: float) -> Float[np.ndarray, " n"]:
    """Return probabilities proportional to (code + 1)^-exponent.

    >>> frequencies(np.array([0, 1, 3]), 1.0).round(4).tolist()
    [0.5714, 0.2857, 0.1429]
    """
    logarithms = -exponent * np.log(codes + 1.0)
    weights = np.exp(logarithms - logarithms.max(initial=-np.inf))
    return np.asarray(weights / weights.sum())


# -------------------------------------------------------------------- partitions


@jax.custom_vjp
def log_partitions(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> Float[Array, " n"]:
    """Return the log of the sum of exp(stream . output) over the first `n_values` outputs.

    The outputs are treated as constants: there is no derivative with respect to them.
    """
    return log_partitions_by_autodiff(streams, outputs, n_values)


def log_partitions_by_autodiff(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> Float[Array, " n"]:
    """Return the same as `log_partitions`, differentiable with respect to the outputs too."""
    top, exponentials = _exponentials(streams, outputs, n_values)
    return top + jnp.log(exponentials.sum(axis=1))


def _exponentials(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, "n values"]]:
    """Return the largest logit of each row, and exp(logit - largest), which is 0 for padding outputs."""
    logits = streams @ outputs.T
    logits = jnp.where(jnp.arange(logits.shape[1]) < n_values, logits, -jnp.inf)
    top = jax.lax.stop_gradient(logits.max(axis=1))
    return top, jnp.exp(logits - top[:, None])


def _forward(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, "n d_model"]]:
    top, exponentials = _exponentials(streams, outputs, n_values)
    total = exponentials.sum(axis=1)
    return top + jnp.log(total), exponentials @ outputs / total[:, None]


def _backward(
    means: Float[Array, "n d_model"], slopes: Float[Array, " n"]
) -> tuple[Float[Array, "n d_model"], None, None]:
    return slopes[:, None] * means, None, None


log_partitions.defvjp(_forward, _backward)


def _fraction(is_right: Bool[Array, " inputs"], among: Bool[Array, " inputs"]) -> Float[Array, ""]:
    """Return the fraction as a quotient of counts, which is exactly 1 if all are correct."""
    return (is_right & among).sum().astype(jnp.float32) / among.sum().astype(jnp.float32)
