"""The task of training a model on sequences that ask for the facts of a database, and on in-context copying.

This is the factual recall task of Nichani, Lee and Bietti 2025 (arXiv 2412.06538, section 4). An epoch is one step on
`batch_size` sequences (1,024 by default) sampled on the device; the loss is the mean cross-entropy of their answers.
Recall is measured over all facts, each in several noise contexts fixed by the seed of the trial.

    loss              cross-entropy, averaged over contexts and, weighted by frequency, over facts
    recall            fraction of facts answered correctly in every context; recall_<tau> is defined likewise
    recall_sequences  fraction of (fact, context) answered correctly
    test_recall       fraction of correct answers on the test set, if requested (`TestRecall`)
    margin            smallest margin over facts and contexts; median_margin is the median over facts of the smallest
    copying           fraction of payloads copied correctly, over all groups and contexts

`factual_recall_measures` describes further measures. Every cue has the same number of copying sequences.

A capacity search tries many vocabulary sizes, and each new size means a new compilation. Therefore the numbers of keys,
of queries and of values per query are padded to powers of two. Padding facts have weight 0, padding tokens never occur,
padding outputs are never chosen, and all padding is removed from the trained model. The padded sizes depend only on the
trial, so a trial computes the same numbers in a batch as it does alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int64, PRNGKeyArray

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Epoch, Metrics, Reading
from factrank.experiments.lanes import rung_above
from factrank.experiments.specs import EpochsTo, FrequencyGroups, Trial
from factrank.families.factual_recall.fact_sequences import FactSequences, PartsAlone, RelationAlone, TestRecall
from factrank.families.factual_recall.factual_recall_measures import FactualRecallExamination, outputs_of, value_masks
from factrank.families.factual_recall.factual_recall_shape import (
    BATCH_SIZE,
    FactualRecallOneHotShape,
    FactualRecallShape,
)
from factrank.families.factual_recall.factual_recall_transformer import (
    EMBEDDINGS,
    FactualRecallModel,
    ReaderToken,
    draw_factual_recall,
    narrowed,
    widened,
)
from factrank.families.factual_recall.sequence_batches import (
    Batch,
    SequenceData,
    Sequences,
    sample_copies,
    sample_facts,
)
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout, count_tokens
from factrank.readouts import cross_entropies

ALIGNMENT = 8
"""The number of tokens is padded to a multiple of this, for efficient matrix products on GPUs."""


@dataclass(frozen=True, eq=False)
class FactualRecallTask:
    """Training of one model on sequences about the facts of one database."""

    trial: Trial
    database: Database

    def __post_init__(self) -> None:
        if not len(self.database):
            raise InputError("the database has no facts to train on")
        if not self.database.functional:
            raise InputError("the database must be functional, because a sequence asks for a single value")
        if isinstance(self._shape, FactualRecallOneHotShape) and self.trial.measure(PartsAlone):
            raise InputError("a model with one-hot embeddings has no MLP; leave out PartsAlone")
        n_facts, n_groups = len(self.database), self._n_groups
        if n_groups > n_facts:
            raise InputError(f"cannot split {n_facts} facts into {n_groups} groups; choose fewer FrequencyGroups")
        groups = self.layout.copy_groups
        if self._shown.copy_fraction and not groups:
            raise InputError("copy_fraction requires a model that copies; set copy_groups and copy_size to at least 1")
        if self._n_copies * groups > self._batch_size:
            raise InputError(
                f"a batch of {self._batch_size} is too small for a copying sequence of each of {groups} groups"
            )

    # ---------------------------------------------------------------- sizes

    @property
    def _shape(self) -> FactualRecallShape | FactualRecallOneHotShape:
        return cast("FactualRecallShape | FactualRecallOneHotShape", self.trial.model)

    @cached_property
    def _shown(self) -> FactSequences:
        return FactSequences.of(self.trial.data)

    @property
    def _n_groups(self) -> int:
        asked = self.trial.measure(FrequencyGroups)
        return 0 if asked is None else asked.groups

    @property
    def _test_sequences(self) -> int:
        asked = self.trial.measure(TestRecall)
        return 0 if asked is None else asked.sequences

    @cached_property
    def layout(self) -> FactualRecallLayout:
        """Layout of the model after training, without padding."""
        return FactualRecallLayout.of(self._shape, *self.database.shape)

    @cached_property
    def padded_layout(self) -> FactualRecallLayout:
        """Layout of the model during training, with padding."""
        n_keys, n_queries, n_values = self.database.shape
        keys, queries, per_query = (rung_above(size) for size in (n_keys, n_queries, -(-n_values // n_queries)))
        padded = FactualRecallLayout.of(self._shape, keys, queries, queries * per_query)
        return replace(padded, n_noise=padded.n_noise - padded.n_tokens % -ALIGNMENT)

    @property
    def _batch_size(self) -> int:
        return self.trial.training.batch_size or BATCH_SIZE

    @property
    def _n_copies(self) -> int:
        """Number of copying sequences of each group in a batch."""
        fraction, groups = self._shown.copy_fraction, self.padded_layout.copy_groups
        return max(1, round(fraction * self._batch_size / groups)) if fraction else 0

    @property
    def _uniform(self) -> bool:
        return self._shown.key_exponent == self._shown.query_exponent == 0

    @property
    def signature(self) -> Hashable:
        """Key of the compiled program: the model, the padded sizes, the presentation of facts, and the measures."""
        return (
            "sequences",
            self._shape,
            self.padded_layout,
            self._shown.options,
            self._examination,
            self.trial.measure(EpochsTo),
        )

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts that are not trained: those named by the trial, and the embeddings unless they are trained."""
        shape = self._shape
        embeddings = () if isinstance(shape, FactualRecallOneHotShape) or shape.trained_embeddings else EMBEDDINGS
        return (*embeddings, *self.trial.training.frozen)

    # ---------------------------------------------------------------- before training

    def init(self, rng: np.random.Generator) -> FactualRecallModel:
        """Return the padded model before training, without its score scale."""
        drawn = draw_factual_recall(self._shape, self.database.shape, rng=rng, dtype=self._real)
        return widened(drawn, self.padded_layout)

    def data(self) -> SequenceData:
        """Return the padded facts as arrays, and the real sizes."""
        n_facts, n_rows = len(self.database), self.padded_layout.n_keys * self.padded_layout.n_queries
        triples = np.zeros((n_rows, 3), np.int32)
        triples[:n_facts] = self.database.triples
        frequencies, groups = np.zeros(n_rows), np.full(n_rows, -1, np.int32)
        frequencies[:n_facts] = self._frequencies
        for group, members in enumerate(self._groups):
            groups[members] = group
        cumulative = np.minimum(np.cumsum(frequencies), 1.0)
        cumulative[n_facts - 1 :] = 1
        keys, queries, values = triples.T.copy()
        data: dict[str, Any] = {
            "keys": keys,
            "queries": queries,
            "values": values,
            "weights": (np.arange(n_rows) < n_facts).astype(self._real),
            "frequencies": frequencies.astype(self._real),
            "cumulative": cumulative.astype(np.float32),
            "groups": groups,
            "n_facts": np.int32(n_facts),
            "n_noise": np.int32(self.layout.n_noise),
            "n_values": np.int32(self.layout.n_values),
            "seed": np.uint32(self.trial.seed),
            "score_scale": np.array(self.trial.training.score_scale, self._real),
        }
        if self.trial.measure(RelationAlone):
            data |= value_masks(self.database, self.padded_layout)
        return cast("SequenceData", data)

    # ---------------------------------------------------------------- traced

    def batches(self, data: SequenceData, key: PRNGKeyArray, epoch: Epoch) -> Batch:  # noqa: ARG002
        """Sample the sequences of one step."""
        length, n_copies = self._shape.length, self._n_copies
        n_asked = self._batch_size - n_copies * self.padded_layout.copy_groups
        facts = sample_facts(self.padded_layout, data, key, (n_asked, length), uniform=self._uniform)
        if n_copies:
            copies = sample_copies(self.padded_layout, data, jax.random.fold_in(key, 1), (n_copies, length))
        else:
            copies = Sequences(jnp.zeros((0, 0, length), jnp.int32), jnp.zeros((0, 0), jnp.int32))
        batch: Batch = jax.tree.map(lambda rows: rows[None], Batch(facts, copies))
        return batch

    def loss(self, model: FactualRecallModel, data: SequenceData, batch: Batch) -> Float[Array, ""]:
        """Return the mean cross-entropy of a batch."""
        scaled = model.scaled_scores(data["score_scale"])

        def losses(sequences: Sequences, reader: ReaderToken | None = None) -> Float[Array, " batch"]:
            counts = count_tokens(sequences.tokens, self.padded_layout.n_tokens)
            return cross_entropies(outputs_of(scaled, data, counts, reader), sequences.answers)

        found = losses(batch.facts)
        if batch.copies.answers.size:
            cues = self.padded_layout.first_cue + jnp.arange(self.padded_layout.copy_groups)
            found = jnp.concatenate([found, jax.vmap(losses)(batch.copies, cues).ravel()])
        return found.mean()

    def check(self, model: FactualRecallModel, data: SequenceData) -> Metrics:
        """Return loss and recalls over all facts, and the other measures of curves."""
        return self._examination.check(model.scaled_scores(data["score_scale"]), data)

    def measure(self, model: FactualRecallModel, data: SequenceData) -> Metrics:
        """Return the numbers of `check`, margins, and recalls by part."""
        return self._examination.measure(model.scaled_scores(data["score_scale"]), data)

    @property
    def _examination(self) -> FactualRecallExamination:
        return FactualRecallExamination(
            taus=self.trial.taus,
            contexts=self._shown.contexts,
            groups=self._n_groups,
            test_sequences=self._test_sequences,
            parts_alone=self.trial.measure(PartsAlone) is not None,
            relation_alone=self.trial.measure(RelationAlone) is not None,
            length=self._shape.length,
            rows=self._batch_size,
            uniform=self._uniform,
        )

    # ---------------------------------------------------------------- after training

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with fractions rounded to exact quotients of counts, which float32 only approximates."""
        counted = {name: self._counted(name) for name, value in numbers.items() if isfinite(value)}
        return numbers | {name: round(numbers[name] * size) / size for name, size in counted.items() if size}

    def _counted(self, name: str) -> int:
        """Return the denominator of a fraction; 0 for other metrics."""
        n_facts, contexts = len(self.database), self._shown.contexts
        if name.startswith("recall_group_"):
            return len(self._groups[int(name.removeprefix("recall_group_")) - 1])
        if name == "copying":
            return self.layout.n_payloads * contexts
        if name == "test_recall":
            return self._test_sequences
        if name in ("recall_sequences", "in_range", "wrong_in_range", "relation_alone"):
            return n_facts * contexts
        return n_facts if name.startswith("recall") else 0

    def finish(self, model: Any, numbers: Mapping[str, float]) -> tuple[Any, dict[str, float], list[Reading]]:
        """Return the model without padding and with its score scale folded in, and the sizes of task and model."""
        scale, shape = self.trial.training.score_scale, self._shape
        trained = narrowed(model, self.layout)
        if isinstance(shape, FactualRecallOneHotShape):
            parameters = shape.parameters(*self.database.shape)
        else:
            parameters = shape.counted_parameters
        bits = self.database.bits_by_query
        sizes = {
            "facts": float(len(self.database)),
            "parameters": float(parameters),
            "bits": bits,
            "bits_per_parameter": numbers["recall"] * bits / parameters,
        }
        return trained if scale == 1 else trained.scaled_scores(scale), sizes, []

    @cached_property
    def _frequencies(self) -> Float64[np.ndarray, " facts"]:
        """Frequency of each fact, from the frequencies of its key and its query."""
        shown = self._shown
        keys, queries = self.database.triples[:, :2].T + 1.0
        weights = keys**-shown.key_exponent * queries**-shown.query_exponent
        fractions: Float64[np.ndarray, " facts"] = weights / weights.sum()
        return fractions

    @cached_property
    def _groups(self) -> list[Int64[np.ndarray, " group"]]:
        """Indices of the facts in each frequency group."""
        falling = np.argsort(-self._frequencies, kind="stable")
        return np.array_split(falling, max(1, self._n_groups))

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"
