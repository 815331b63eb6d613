r"""Training an associative memory on f: [N] -> [M], a database with one query: cross-entropy, recall and margins.

$$\mathrm{loss} = \sum_x p_x \bigl( \log \sum_y e^{\ell_y(x)} - \ell_{f(x)}(x) \bigr), \qquad
  p_x \propto (\mathrm{code}_x + 1)^{-\mathrm{key\_exponent}}$$

over the inputs with a fact, all of them in every step; recalls count every fact alike.

A search for the capacity tries many sizes, and every size is a compilation. So N and M are padded to rungs
(`size_rung`): added inputs have weight 0, added outputs probability 0. The rungs follow from the trial alone, so that a
trial among many computes what it would compute alone.

The N x M logits are all that counts. The derivative of the partition by F(e_x) is the mean output embedding under the
softmax; taken in the forward pass, while the exponentials are there, it is all that the backward pass needs of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
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
from factrank.experiments.specs import Trial, require_options
from factrank.families.memory.associative_memory import AssociativeMemory, cut_down, draw_memory, filled_up
from factrank.families.memory.memory_limit import asymptotic_memory_limit, memory_limit
from factrank.families.memory.memory_shape import MemoryShape

OPTIONS = frozenset({"frozen", "key_exponent", "frequency_groups"})
"""The options of a trial that this task knows."""

EMBEDDINGS = ("inputs", "outputs")
COARSE = 6
ALIGNED, UNIT = 2**COARSE, 16
"""Rungs from 64 on are multiples of 16, in which GPUs multiply matrices faster."""


class MemoryData(TypedDict):
    """What the loss of one trial reads, one row per input; on the host these are NumPy arrays."""

    values: Int[Array, " inputs"]
    weights: Float[Array, " inputs"]
    stored: Bool[Array, " inputs"]
    groups: Int[Array, " inputs"]
    n_values: Int[Array, ""]


@dataclass(frozen=True, eq=False)
class MemoryTask:
    """One memory, its facts given by a functional database with one query."""

    trial: Trial
    database: Database

    def __post_init__(self) -> None:
        require_options(self.trial, OPTIONS, "an associative memory")
        n_facts, groups = len(self.database), self.trial.measures.frequency_groups
        if not n_facts:
            raise InputError("a database without facts has nothing to train on")
        if self.database.n_queries != 1 or not self.database.functional:
            raise InputError(
                "an associative memory stores one value per key: a functional database with one query; "
                f"got {self.database.n_queries} queries and {n_facts} facts"
            )
        if groups > n_facts:
            raise InputError(f"{n_facts} facts cannot be in {groups} groups; choose fewer frequency_groups")

    @property
    def _shape(self) -> MemoryShape:
        return cast("MemoryShape", self.trial.model)

    @property
    def _rungs(self) -> tuple[int, int]:
        """N and M, padded."""
        return size_rung(self.database.n_keys), size_rung(self.database.n_values)

    @property
    def signature(self) -> Hashable:
        """The model but for its start, the rungs, what is measured."""
        measures = self.trial.measures
        measured = measures.taus, measures.epochs_to, measures.frequency_groups
        return "memory", replace(self._shape, start="random"), self._rungs, measured

    @property
    def frozen(self) -> tuple[str, ...]:
        """The parts that the trial names, and the embeddings unless they are trained."""
        embeddings = () if self._shape.trained_embeddings else EMBEDDINGS
        return tuple(sorted({*self.trial.training.frozen, *embeddings}))

    def init(self, rng: np.random.Generator) -> AssociativeMemory:
        """The memory before training, padded; closed forms are computed in float64."""
        n_keys, _, n_values = self.database.shape
        if self._shape.start == "random":
            memory = draw_memory(self._shape, n_keys, n_values, rng=rng, dtype=self._real)
        else:
            from factrank.families.memory.memory_construction import started_memory  # noqa: PLC0415 - few trials need it

            memory = started_memory(self._shape, self.database, rng=rng, dtype=self._real)
        filled: AssociativeMemory = filled_up(memory, *self._rungs)
        return filled

    def data(self) -> MemoryData:
        """The value and the weight of every input, and the group of its fact by frequency."""
        n_rows, _ = self._rungs
        values, groups, weights = np.zeros(n_rows, np.int32), np.full(n_rows, -1, np.int32), np.zeros(n_rows)
        keys = self.database.triples[:, 0]  # sorted, so the most frequent come first
        values[keys], groups[keys] = self.database.triples[:, 2], self._groups
        weights[keys] = frequencies(keys, self.trial.training.key_exponent)
        arrays = {
            "values": values,
            "weights": weights.astype(self._real),
            "stored": groups >= 0,
            "groups": groups,
            "n_values": np.array(self.database.n_values, np.int32),
        }
        return cast("MemoryData", arrays)

    def batches(self, data: MemoryData, key: PRNGKeyArray, epoch: Epoch) -> Int[Array, "1 0"]:  # noqa: ARG002
        """One step on all facts."""
        return jnp.zeros((1, 0), dtype=jnp.int32)

    def loss(self, model: AssociativeMemory, data: MemoryData, batch: Int[Array, "0"]) -> Float[Array, ""]:  # noqa: ARG002
        """The cross-entropy of all facts, weighted by their frequencies."""
        streams = model.read(model.inputs)
        own = (streams * model.outputs[data["values"]]).sum(axis=1)
        partition = log_partitions_by_autodiff if self._shape.trained_embeddings else log_partitions
        return (data["weights"] * (partition(streams, model.outputs, data["n_values"]) - own)).sum()

    def check(self, model: AssociativeMemory, data: MemoryData) -> Metrics:
        """Loss and recalls of all facts, and of their groups where they are asked for."""
        return self._scores(model, data)[0]

    def measure(self, model: AssociativeMemory, data: MemoryData) -> Metrics:
        """The same with the least and the median margin of all facts."""
        shares, margins = self._scores(model, data)
        return shares | {
            "margin": jnp.min(margins, where=data["stored"], initial=jnp.inf),
            "median_margin": jnp.nanmedian(jnp.where(data["stored"], margins, jnp.nan)),
        }

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Recalls as counts over the number of facts, which float32 only approximates."""
        sizes = np.bincount(self._groups)
        named = {f"recall_group_{group + 1}": int(size) for group, size in enumerate(sizes)}
        counts = {name: named.get(name, len(self.database)) for name in numbers if name.startswith("recall")}
        shares = {name: round(numbers[name] * n) / n for name, n in counts.items() if np.isfinite(numbers[name])}
        return numbers | shares

    def finish(
        self, model: AssociativeMemory, numbers: Mapping[str, float]
    ) -> tuple[AssociativeMemory, dict[str, float], list[Reading]]:
        """The memory without what it was padded with, its size, and what it holds."""
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
        return cut_down(model, n_keys, n_values), further, []

    # ---------------------------------------------------------------- facts and logits

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"

    @cached_property
    def _groups(self) -> Int[np.ndarray, " facts"]:
        """The group of each fact, from 0: as equal in size as they can be, the most frequent facts in the first."""
        n_facts = len(self.database)
        return np.arange(n_facts, dtype=np.int64) * max(1, self.trial.measures.frequency_groups) // n_facts

    def _scores(
        self, model: AssociativeMemory, data: MemoryData
    ) -> tuple[dict[str, Float[Array, ""]], Float[Array, " inputs"]]:
        """Loss and recalls, and the margin of every input; of the logits only reductions are taken."""
        logits = model.read(model.inputs) @ model.outputs.T
        own = jnp.take_along_axis(logits, data["values"][:, None], axis=1)
        codes = jnp.arange(logits.shape[1])
        others = (codes < data["n_values"]) & (codes != data["values"][:, None])
        margins = own[:, 0] - jnp.where(others, logits, -jnp.inf).max(axis=1)
        losses = jnp.logaddexp(0.0, jax.nn.logsumexp(jnp.where(others, logits - own, -jnp.inf), axis=1))
        real = jnp.promote_types(losses.dtype, jnp.float32)  # bfloat16 would round thresholds
        probabilities = jnp.exp(-losses.astype(real))
        right = {tau_recall(tau): probabilities >= tau for tau in self.trial.measures.taus}
        found = {"loss": (data["weights"] * losses).sum(), "recall": _share(margins > 0, data["stored"])}
        found |= {name: _share(is_right, data["stored"]) for name, is_right in right.items()}
        for group in range(self.trial.measures.frequency_groups):
            found[f"recall_group_{group + 1}"] = _share(margins > 0, data["groups"] == group)
        return found, margins


def size_rung(size: int) -> int:
    """Up to 64, where a memory costs little, the next power of two; beyond, of 2^(1/4), as a multiple of 16.

    >>> [size_rung(size) for size in (1, 5, 7, 65, 1000, 8192, 8193)]
    [1, 8, 8, 80, 1024, 8192, 9744]
    """
    step = 0
    while True:
        rung = 1 << step if step <= COARSE else -(-ceil(ALIGNED * 2 ** ((step - COARSE) / 4)) // UNIT) * UNIT
        if rung >= size:
            return rung
        step += 1


def frequencies(codes: Int[np.ndarray, " n"], exponent: float) -> Float[np.ndarray, " n"]:
    """Probabilities proportional to (code + 1)^-exponent, which sum to 1.

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
    """The logarithm of the sum of exp(stream . output) over the first `n_values` outputs, which are constants."""
    return log_partitions_by_autodiff(streams, outputs, n_values)


def log_partitions_by_autodiff(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> Float[Array, " n"]:
    """The same with derivatives by the outputs too."""
    top, exponentials = _exponentials(streams, outputs, n_values)
    return top + jnp.log(exponentials.sum(axis=1))


def _exponentials(
    streams: Float[Array, "n d_model"], outputs: Float[Array, "values d_model"], n_values: Int[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, "n values"]]:
    """The largest logit of every row, and exp(logit - largest), 0 for outputs that were padded."""
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


def _share(is_right: Bool[Array, " inputs"], among: Bool[Array, " inputs"]) -> Float[Array, ""]:
    """A quotient of counts, which is 1 exactly when all are right."""
    return (is_right & among).sum().astype(jnp.float32) / among.sum().astype(jnp.float32)
