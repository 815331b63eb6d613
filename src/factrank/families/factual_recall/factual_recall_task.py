r"""Training a model on sequences that ask for the facts of a database, and on copying in context beside them.

The factual recall task of Nichani, Lee and Bietti 2025 (arXiv 2412.06538, section 4): an epoch is one step on
`batch_size` sequences (1,024 unless given) that are sampled on the device; the loss is the mean cross-entropy of their
answers. Recall is over all facts, each in several noise contexts, which the seed of the trial fixes.

    loss              cross-entropy, the mean over contexts and, by their frequency, over facts
    recall            share of facts that are right in every context; recall_<tau> likewise
    recall_sequences  share of (fact, context) that are right
    test_recall       fraction of right answers on the test set, if there is one (`Measures.test_sequences`)
    margin            least margin of a fact in a context; median_margin: the median over facts of their least
    copying           share right of all payloads of all groups x contexts

Further numbers: `factual_recall_measures`. Copying sequences are the same number for every cue.

Every size of a vocabulary is a compilation, and a search for a capacity tries many. So sizes are padded to rungs:
keys, queries and values per query to the next power of two. Filled-up facts have weight 0, filled-up tokens never
occur, filled-up outputs are never chosen, and the model that is handed out has none of them. The rungs are a function
of the trial alone, so that a trial alone and the same trial among others are the same computation.
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
from factrank.experiments.specs import Trial, require_options
from factrank.families.factual_recall.factual_recall_measures import Examination, outputs_of, value_masks
from factrank.families.factual_recall.factual_recall_shape import (
    BATCH_SIZE,
    FactualRecallOneHotShape,
    FactualRecallShape,
)
from factrank.families.factual_recall.factual_recall_transformer import (
    EMBEDDINGS,
    ReaderToken,
    SequenceReader,
    draw_sequence_model,
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
"""The number of tokens is a multiple of it, which products on a GPU want."""
OPTIONS = frozenset(
    {
        *("score_scale", "frozen", "batch_size", "key_exponent", "query_exponent"),
        *("contexts", "hallucination", "frequency_groups", "test_sequences", "best"),
    }
)
"""The options of a trial that every model of sequences knows."""
TRANSFORMER_OPTIONS = OPTIONS | {"copy_share", "parts"}


@dataclass(frozen=True, eq=False)
class FactualRecallTask:
    """One trial on the sequences of one database."""

    trial: Trial
    database: Database

    def __post_init__(self) -> None:
        if not len(self.database):
            raise InputError("a database without facts has nothing to train on")
        if not self.database.functional:
            raise InputError("a sequence asks for one value: the database must be functional")
        one_hot = isinstance(self._shape, FactualRecallOneHotShape)
        options = OPTIONS if one_hot else TRANSFORMER_OPTIONS
        require_options(self.trial, options, "a model of sequences" + (" with one-hot embeddings" if one_hot else ""))
        n_facts, n_groups = len(self.database), self.trial.measures.frequency_groups
        if n_groups > n_facts:
            raise InputError(f"{n_facts} facts cannot be in {n_groups} groups; choose fewer frequency_groups")
        groups, share = self.layout.copy_groups, self.trial.training.copy_share
        if share and not groups:
            raise InputError("copy_share needs a model that copies: copy_groups and copy_size of at least 1")
        if self._n_copies * groups > self._batch_size:
            raise InputError(
                f"a batch of {self._batch_size} has no room for a copying sequence of {groups} groups each"
            )

    # ---------------------------------------------------------------- sizes

    @property
    def _shape(self) -> FactualRecallShape | FactualRecallOneHotShape:
        return cast("FactualRecallShape | FactualRecallOneHotShape", self.trial.model)

    @cached_property
    def layout(self) -> FactualRecallLayout:
        """The tokens and outputs of the model that is handed out."""
        return FactualRecallLayout.of(self._shape, *self.database.shape)

    @cached_property
    def rungs(self) -> FactualRecallLayout:
        """The tokens and outputs of the model that is trained."""
        n_keys, n_queries, n_values = self.database.shape
        keys, queries, per_query = (rung_above(size) for size in (n_keys, n_queries, -(-n_values // n_queries)))
        filled = FactualRecallLayout.of(self._shape, keys, queries, queries * per_query)
        return replace(filled, n_noise=filled.n_noise - filled.n_tokens % -ALIGNMENT)

    @property
    def _batch_size(self) -> int:
        return self.trial.training.batch_size or BATCH_SIZE

    @property
    def _n_copies(self) -> int:
        """Copying sequences of every group in a batch."""
        share, groups = self.trial.training.copy_share, self.rungs.copy_groups
        return max(1, round(share * self._batch_size / groups)) if share else 0

    @property
    def _uniform(self) -> bool:
        training = self.trial.training
        return training.key_exponent == training.query_exponent == 0

    @property
    def signature(self) -> Hashable:
        """The model, the rungs of the vocabularies and what is measured; frequencies are part of the recipe."""
        measures = self.trial.measures
        measured = measures.taus, measures.contexts, measures.parts, measures.hallucination, measures.frequency_groups
        return "sequences", self._shape, self.rungs, measured, measures.test_sequences, measures.epochs_to

    @property
    def frozen(self) -> tuple[str, ...]:
        """The embeddings, unless they are trained, and the parts that the trial names."""
        shape = self._shape
        embeddings = () if isinstance(shape, FactualRecallOneHotShape) or shape.trained_embeddings else EMBEDDINGS
        return (*embeddings, *self.trial.training.frozen)

    # ---------------------------------------------------------------- before training

    def init(self, rng: np.random.Generator) -> SequenceReader:
        """The model before training, padded, its score scale not yet taken in."""
        drawn = draw_sequence_model(self._shape, self.database.shape, rng=rng, dtype=self._real)
        return widened(drawn, self.rungs)

    def data(self) -> SequenceData:
        """The facts as arrays, padded, and the real sizes."""
        n_facts, n_rows = len(self.database), self.rungs.n_keys * self.rungs.n_queries
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
        if self.trial.measures.hallucination:
            data |= value_masks(self.database, self.rungs)
        return cast("SequenceData", data)

    # ---------------------------------------------------------------- traced

    def batches(self, data: SequenceData, key: PRNGKeyArray, epoch: Epoch) -> Batch:  # noqa: ARG002
        """New sequences for one step."""
        length, n_copies = self._shape.length, self._n_copies
        n_asked = self._batch_size - n_copies * self.rungs.copy_groups
        facts = sample_facts(self.rungs, data, key, (n_asked, length), uniform=self._uniform)
        if n_copies:
            copies = sample_copies(self.rungs, data, jax.random.fold_in(key, 1), (n_copies, length))
        else:
            copies = Sequences(jnp.zeros((0, 0, length), jnp.int32), jnp.zeros((0, 0), jnp.int32))
        batch: Batch = jax.tree.map(lambda rows: rows[None], Batch(facts, copies))
        return batch

    def loss(self, model: SequenceReader, data: SequenceData, batch: Batch) -> Float[Array, ""]:
        """The mean cross-entropy of the sequences of a batch."""
        scaled = model.scaled_scores(data["score_scale"])

        def losses(sequences: Sequences, reader: ReaderToken | None = None) -> Float[Array, " batch"]:
            counts = count_tokens(sequences.tokens, self.rungs.n_tokens)
            return cross_entropies(outputs_of(scaled, data, counts, reader), sequences.answers)

        found = losses(batch.facts)
        if batch.copies.answers.size:
            cues = self.rungs.first_cue + jnp.arange(self.rungs.copy_groups)
            found = jnp.concatenate([found, jax.vmap(losses)(batch.copies, cues).ravel()])
        return found.mean()

    def check(self, model: SequenceReader, data: SequenceData) -> Metrics:
        """Loss and recalls of all facts, and what else belongs into curves."""
        return self._examination.check(model.scaled_scores(data["score_scale"]), data)

    def measure(self, model: SequenceReader, data: SequenceData) -> Metrics:
        """The same, margins, and recalls by part."""
        return self._examination.measure(model.scaled_scores(data["score_scale"]), data)

    @property
    def _examination(self) -> Examination:
        return Examination(self.trial.measures, self._shape.length, self._batch_size, self._uniform)

    # ---------------------------------------------------------------- after training

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Shares as counts over the number of facts or of sequences, which float32 only approximates."""
        counted = {name: self._counted(name) for name, value in numbers.items() if isfinite(value)}
        return numbers | {name: round(numbers[name] * size) / size for name, size in counted.items() if size}

    def _counted(self, name: str) -> int:
        """What a share is taken of; 0 for other numbers."""
        n_facts, contexts = len(self.database), self.trial.measures.contexts
        if name.startswith("recall_group_"):
            return len(self._groups[int(name.removeprefix("recall_group_")) - 1])
        if name == "copying":
            return self.layout.n_payloads * contexts
        if name == "test_recall":
            return self.trial.measures.test_sequences
        if name in ("recall_sequences", "in_range", "wrong_in_range", "relation_alone"):
            return n_facts * contexts
        return n_facts if name.startswith("recall") else 0

    def finish(self, model: Any, numbers: Mapping[str, float]) -> tuple[Any, dict[str, float], list[Reading]]:
        """The model without what filled it up, its score scale taken in; the sizes of the task and of the model."""
        scale, shape = self.trial.training.score_scale, self._shape
        handed_out = narrowed(model, self.layout)
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
        return handed_out if scale == 1 else handed_out.scaled_scores(scale), sizes, []

    @cached_property
    def _frequencies(self) -> Float64[np.ndarray, " facts"]:
        """How often each fact is asked for, by the frequencies of its key and its query."""
        training = self.trial.training
        keys, queries = self.database.triples[:, :2].T + 1.0
        weights = keys**-training.key_exponent * queries**-training.query_exponent
        shares: Float64[np.ndarray, " facts"] = weights / weights.sum()
        return shares

    @cached_property
    def _groups(self) -> list[Int64[np.ndarray, " group"]]:
        """The numbers of the facts in each frequency group."""
        falling = np.argsort(-self._frequencies, kind="stable")
        return np.array_split(falling, max(1, self.trial.measures.frequency_groups))

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"
