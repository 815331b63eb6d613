"""The task of training a language model on sequences sampled on the device: facts, in-context recall and text.

An epoch is one step on `batch_size` sequences (256 by default). The loss is the mean cross-entropy of the tokens that
count in the sequences of each source, averaged over sources by their fractions of the batch. `sentences`,
`in_context_sequences` and `text_windows` list the measures of each source; `loss` is averaged by the same fractions.
The final results also contain, for facts,

    facts, bits                          n, and the sum of log2 |V_q| over all facts
    parameters, inner_parameters         number of stored scalars, with and without embeddings
    bits_per_parameter                   recalled_bits / parameters
    bits_per_inner_parameter             recalled_bits / inner_parameters
    stored_bits_per_parameter            stored_bits / parameters
    stored_bits_per_inner_parameter      stored_bits / inner_parameters
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
from jaxtyping import Array, Float, PRNGKeyArray

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Epoch, Metrics, Reading
from factrank.experiments.specs import EpochsTo, Trial
from factrank.families.language.in_context_sequences import InContextSource
from factrank.families.language.language_data import InContextRecall, PartsRemoved, Sentences
from factrank.families.language.language_model import LanguageModel, draw_language_model
from factrank.families.language.language_shape import BATCH_SIZE, LanguageShape
from factrank.families.language.sentences import FactSource
from factrank.families.language.text_windows import TextSource, TokenisedText
from factrank.families.language.token_sources import SourceArrays, TokenBatch, TokenSource, mean_loss

EXAMINATION = np.uint32(2**32 - 1)
"""Folded into the key of a trial for its evaluations; epochs are smaller numbers."""

LanguageSource = Database | InContextRecall | TokenisedText
"""Data that a language model reads."""


@dataclass(frozen=True)
class LanguageSources:
    """Sources of a trial with their fractions of a batch; tokens are numbered in this order."""

    facts: FactSource | None
    in_context: InContextSource | None
    text: TextSource | None
    fractions: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, trial: Trial, data: LanguageSource) -> LanguageSources:
        """Return the sources of a trial on its data."""
        if isinstance(data, InContextRecall):
            return cls(None, InContextSource(data), None, (("in_context", 1.0),))
        if isinstance(data, TokenisedText):
            return cls(None, None, TextSource(data), (("text", 1.0),))
        shown = Sentences.of(trial.data)
        facts = _fact_source(trial, data, shown)
        fractions = {"facts": 1 - shown.recall_fraction - shown.text_fraction}
        in_context = text = None
        first = facts.n_tokens
        if shown.recall is not None:
            in_context, fractions["in_context"] = InContextSource(shown.recall, first), shown.recall_fraction
            first += in_context.n_tokens
        if shown.text is not None:
            text, fractions["text"] = TextSource(shown.text.build(), first), shown.text_fraction
        return cls(facts, in_context, text, tuple(fractions.items()))

    @property
    def named(self) -> dict[str, TokenSource]:
        """Sources by name."""
        known: dict[str, TokenSource | None] = {"facts": self.facts, "in_context": self.in_context, "text": self.text}
        return {name: source for name, source in known.items() if source is not None}

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary, the blank among them."""
        return sum(source.n_tokens for source in self.named.values()) + (self.facts is None)


def _fact_source(trial: Trial, database: Database, shown: Sentences) -> FactSource:
    shape = cast("LanguageShape", trial.model)
    parts = ("attention", "mlp") if shape.mlp_width else ("attention",)
    removable = tuple((part, layer) for part in parts for layer in range(shape.n_layers))
    asked = trial.measure(PartsRemoved) is not None
    block = trial.training.batch_size or BATCH_SIZE
    return FactSource(database, replace(shown), trial.taus, block, removable if asked else ())


@dataclass(frozen=True, eq=False)
class LanguageTask:
    """Training of one language model on sequences of its sources."""

    trial: Trial
    given: LanguageSource

    def __post_init__(self) -> None:
        longest = max(source.length for source in self.sources.named.values())
        if longest > self._shape.context:
            raise InputError(f"sequences have {longest} tokens; the model reads {self._shape.context}, its context")
        if min(self._rows.values()) < 1:
            raise InputError(f"a batch of {self._batch_size} is too small for a sequence of each source")
        if self.sources.facts is None and self.trial.training.stop in ("recall", "recall_tau"):
            raise InputError("there are no facts to recall; use the stop 'never' or 'in_context'")
        if self.sources.in_context is None and self.trial.training.stop == "in_context":
            raise InputError("there is no in-context recall; use another stop")
        if self.sources.facts is None and self.trial.measure(PartsRemoved):
            raise InputError("there are no facts to recall without parts; leave out PartsRemoved")

    @property
    def _shape(self) -> LanguageShape:
        return cast("LanguageShape", self.trial.model)

    @property
    def _batch_size(self) -> int:
        return self.trial.training.batch_size or BATCH_SIZE

    @cached_property
    def sources(self) -> LanguageSources:
        """Sources of its sequences."""
        return LanguageSources.of(self.trial, self.given)

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Number of sequences of each source in a batch; the first source has what the others leave."""
        first, *others = self.sources.fractions
        rows = {name: round(fraction * self._batch_size) for name, fraction in others}
        return {first[0]: self._batch_size - sum(rows.values()), **rows}

    @property
    def signature(self) -> Hashable:
        """Key of the compiled program: the model, the sources with their fractions, and the measures."""
        sources = tuple(source.signature for source in self.sources.named.values())
        measured = self.trial.measure(EpochsTo), self.trial.measure(PartsRemoved)
        return "language", self._shape, sources, self.sources.fractions, self._batch_size, measured

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts that the trial does not train."""
        return self.trial.training.frozen

    # ---------------------------------------------------------------- before training

    def init(self, rng: np.random.Generator) -> LanguageModel:
        """Return the model before training, without its score scale."""
        return draw_language_model(self._shape, self.sources.n_tokens, rng=rng, dtype=self._real)

    def data(self) -> SourceArrays:
        """Return the arrays of the sources, the seed and the score scale."""
        return {
            **{name: source.arrays() for name, source in self.sources.named.items()},
            "seed": np.uint32(self.trial.seed),
            "score_scale": np.array(self.trial.training.score_scale, self._real),
        }

    # ---------------------------------------------------------------- traced

    def batches(self, data: SourceArrays, key: PRNGKeyArray, epoch: Epoch) -> dict[str, TokenBatch]:  # noqa: ARG002
        """Sample the sequences of one step, those of each source."""
        batch = {
            name: source.sample(data[name], jax.random.fold_in(key, at), self._rows[name])
            for at, (name, source) in enumerate(self.sources.named.items())
        }
        one_step: dict[str, TokenBatch] = jax.tree.map(lambda rows: rows[None], batch)
        return one_step

    def loss(self, model: LanguageModel, data: SourceArrays, batch: dict[str, TokenBatch]) -> Float[Array, ""]:
        """Return the mean cross-entropy of each source, averaged by fractions."""
        scaled = model.scaled_scores(data["score_scale"])
        losses = [fraction * mean_loss(scaled, batch[name]) for name, fraction in self.sources.fractions]
        return jnp.stack(losses).sum()

    def check(self, model: LanguageModel, data: SourceArrays) -> Metrics:
        """Return the measures of all sources that curves record."""
        return self._examined(model, data, whole=False)

    def measure(self, model: LanguageModel, data: SourceArrays) -> Metrics:
        """Return all measures of all sources."""
        return self._examined(model, data, whole=True)

    def _examined(self, model: LanguageModel, data: SourceArrays, *, whole: bool) -> Metrics:
        scaled = model.scaled_scores(data["score_scale"])
        key = jax.random.fold_in(jax.random.key(data["seed"]), EXAMINATION)
        found: dict[str, Float[Array, ""]] = {}
        losses = []
        for name, source in self.sources.named.items():
            numbers = source.examine(scaled, data[name], key, whole=whole)
            losses.append(dict(self.sources.fractions)[name] * numbers["loss"])
            found |= numbers
        return found | {"loss": jnp.stack(losses).sum()}

    # ---------------------------------------------------------------- after training

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with fractions rounded to exact quotients of counts, which float32 only approximates."""
        counts = {name: n for source in self.sources.named.values() for name, n in source.counts().items()}
        known = [name for name in counts if name in numbers and isfinite(numbers[name])]
        return numbers | {name: round(numbers[name] * counts[name]) / counts[name] for name in known}

    def finish(self, model: Any, numbers: Mapping[str, float]) -> tuple[Any, dict[str, float], list[Reading]]:
        """Return the model with its score scale folded in, and sizes and bits per parameter."""
        scale, inner = self.trial.training.score_scale, self._shape.inner_parameters
        parameters = self._shape.parameters(self.sources.n_tokens)
        further = {"parameters": float(parameters), "inner_parameters": float(inner)}
        if self.sources.facts is not None:
            database = self.sources.facts.database
            recalled, stored = numbers["recalled_bits"], numbers["stored_bits"]
            further |= {
                "facts": float(len(database)),
                "bits": database.bits_by_query,
                "bits_per_parameter": recalled / parameters,
                "bits_per_inner_parameter": recalled / inner,
                "stored_bits_per_parameter": stored / parameters,
                "stored_bits_per_inner_parameter": stored / inner,
            }
        return model if scale == 1 else model.scaled_scores(scale), further, []

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"
