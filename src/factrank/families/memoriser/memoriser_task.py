r"""Training a multi-head memoriser on examples: a query vector, a context of vectors, and a class or a real label.

Mahdavi, Liao and Thrampoulidis 2024 (arXiv 2306.02010). An epoch is one step on `batch_size` examples (256 if not
given), taken in passes without repetition (`example_batches`). The loss is the mean cross-entropy, or, of real labels,
the mean squared error. Random examples are made on the device from their numbers and never stored; N and the number of
contexts come with the data, so that trials with different ones run side by side.

What is measured while training: `memoriser_measures`. At the end, further,

    memorised_examples  N recall, or N explained (nan where all real labels are equal)
    examples            N
    parameters          all stored scalars
    bits                N log2(classes), and bits_per_parameter = recall bits / parameters; not of real labels
    bound               H (min(n, d_qk) - 1) + 1, what the paper proves that H heads memorise
    rank                what the closed form can fit exactly (`memoriser_rank`)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any, cast

import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from factrank.errors import InputError
from factrank.experiments import Epoch, Metrics, Reading
from factrank.experiments.lanes import rung_above
from factrank.experiments.specs import Trial, require_options
from factrank.families.memoriser.examples import (
    MOST_EXAMPLES,
    MOST_VISITS,
    ExampleData,
    ExampleLayout,
    Examples,
    RandomExamples,
    VectorExamples,
    draw_orders,
    examples_at,
    examples_of_step,
    stored,
    stored_labels,
)
from factrank.families.memoriser.memoriser import Memoriser, draw_memoriser, with_d_qk
from factrank.families.memoriser.memoriser_measures import MemoriserExamination, losses_of
from factrank.families.memoriser.memoriser_shape import BATCH_SIZE, MemoriserShape
from factrank.families.memoriser.ranks import memoriser_rank

OPTIONS = frozenset({"batch_size", "frozen", "score_scale", "saturation", "tolerance", "assumptions"})
"""The options of a trial that this task knows."""
ORDER = 1
"""What follows the seed of a trial in that of the order of its examples."""


@dataclass(frozen=True, eq=False)
class MemoriserTask:
    """One trial on examples."""

    trial: Trial
    examples: Examples
    filled: bool = False
    """Whether head size and contexts are padded, so that trials of different sizes share a program."""

    def __post_init__(self) -> None:
        require_options(self.trial, OPTIONS, "a memoriser")
        training, n_examples = self.trial.training, self.examples.n_examples
        self._shape.part_sizes(self.examples.d_input, self.examples.n_outputs)  # raises where they do not fit
        if n_examples > MOST_EXAMPLES:
            raise InputError(f"a memoriser is trained on at most {MOST_EXAMPLES:,} examples; got {n_examples:,}")
        if training.epochs * self._batch_size >= MOST_VISITS:
            raise InputError(
                f"epochs x batch_size must be below {MOST_VISITS:,}; got {training.epochs:,} x {self._batch_size:,}"
            )
        if self.examples.n_classes is None and training.stop == "recall_tau":
            raise InputError("real labels have no probabilities: choose the stop 'recall', which means the tolerance")
        if self._shape.start == "solved" and training.score_scale != 1:
            raise InputError("the closed form is solved for the scores as they are: start 'solved' needs score_scale 1")

    @property
    def _shape(self) -> MemoriserShape:
        return cast("MemoriserShape", self.trial.model)

    @cached_property
    def _layout(self) -> ExampleLayout:
        return ExampleLayout.of(self.examples, filled=self.filled)

    @cached_property
    def _trained_shape(self) -> MemoriserShape:
        """The shape of the compiled program."""
        shape = replace(self._shape, start="random")
        return replace(shape, d_qk=rung_above(shape.d_qk), scaled_by="d_model") if self.filled else shape

    def filled_up(self) -> MemoriserTask:
        """The same task with sizes that more trials share: d_qk and the context size are the next powers of two.

        Heads are not padded: the work grows with them, with the others it grows little.
        """
        return replace(self, filled=True)

    @property
    def _batch_size(self) -> int:
        return self.trial.training.batch_size or BATCH_SIZE

    @property
    def signature(self) -> Hashable:
        """The model but for its start, the sizes of vectors and labels, what is measured."""
        measures = self.trial.measures
        measured = measures.taus, measures.epochs_to, measures.saturation, measures.tolerance
        return "memoriser", self._trained_shape, self._layout, measured, self.filled

    @property
    def frozen(self) -> tuple[str, ...]:
        """The parts that the trial names."""
        return self.trial.training.frozen

    # ---------------------------------------------------------------- before training

    def init(self, rng: np.random.Generator) -> Memoriser:
        """The model before training; a solved one is computed in float64."""
        model = self._start(rng)
        return with_d_qk(model, self._trained_shape) if self.filled else model

    def _start(self, rng: np.random.Generator) -> Memoriser:
        if self._shape.start == "random":
            sizes = self.examples.d_input, self.examples.n_outputs
            return draw_memoriser(self._shape, *sizes, rng=rng, dtype=self._real)
        from factrank.families.memoriser.solving import started_memoriser  # noqa: PLC0415 - few trials need it

        return started_memoriser(self._shape, self.examples, rng=rng, dtype=self._real)

    def data(self) -> ExampleData:
        """Sizes, the seed of the examples or their vectors, and the orders of the passes."""
        examples, n_examples = self.examples, self.examples.n_examples
        multipliers, offsets = draw_orders(n_examples, np.random.default_rng([self.trial.seed, ORDER]))
        variance = 0.0 if examples.n_classes else _variance(stored_labels(examples))
        divided = self._trained_shape.score_divisor / self._shape.score_divisor  # not 1 where a filled d_qk divides
        data: dict[str, Any] = {
            "n_examples": np.int32(n_examples),
            "n_contexts": np.int32(examples.number_of_contexts),
            "seed": np.uint32(examples.seed if isinstance(examples, RandomExamples) else 0),
            "multipliers": multipliers,
            "offsets": offsets,
            "label_variance": np.array(variance, self._real),
            "score_scale": np.array(self.trial.training.score_scale * divided, self._real),
        }
        if self.filled:
            data["n_tokens"] = np.int32(examples.context_size)
        if isinstance(examples, VectorExamples):
            data |= {
                "queries": examples.queries.astype(self._real),
                "contexts": examples.contexts.astype(self._real),
                "context_of": examples.context_of.astype(np.int32),
                "labels": examples.labels.astype(np.int32 if examples.n_classes else self._real),
            }
        return cast("ExampleData", data)

    # ---------------------------------------------------------------- traced

    def batches(self, data: ExampleData, key: PRNGKeyArray, epoch: Epoch) -> Int[Array, "1 batch"]:  # noqa: ARG002
        """The numbers of the examples of one step."""
        return examples_of_step(data, epoch, self._batch_size)[None]

    def loss(self, model: Memoriser, data: ExampleData, batch: Int[Array, " batch"]) -> Float[Array, ""]:
        """The mean cross-entropy, or squared error, of the examples of a batch."""
        queries, contexts, labels = examples_at(self._layout, data, batch)
        scaled = model.scaled_scores(data["score_scale"])
        return losses_of(scaled.outputs(queries, contexts, data.get("n_tokens")), labels).mean()

    def check(self, model: Memoriser, data: ExampleData) -> Metrics:
        """Loss, recalls and saturation of all examples; of real labels also their errors."""
        return self._examination.check(model.scaled_scores(data["score_scale"]), data)

    def measure(self, model: Memoriser, data: ExampleData) -> Metrics:
        """The same with margins."""
        return self._examination.measure(model.scaled_scores(data["score_scale"]), data)

    @property
    def _examination(self) -> MemoriserExamination:
        return MemoriserExamination(self.trial.measures, self._layout)

    # ---------------------------------------------------------------- after training

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Shares as counts over the number of examples, or of examples and heads, which float32 only approximates."""
        n_examples = self.examples.n_examples
        counted = {
            name: n_examples * (self._shape.n_heads if name == "saturated" else 1)
            for name, value in numbers.items()
            if name.startswith(("recall", "saturated")) and isfinite(value)
        }
        return numbers | {name: round(numbers[name] * size) / size for name, size in counted.items()}

    def finish(
        self, model: Memoriser, numbers: Mapping[str, float]
    ) -> tuple[Memoriser, dict[str, float], list[Reading]]:
        """The model, its score scale taken in; its size, what it holds and what theory says of it."""
        examples, shape, scale = self.examples, self._shape, self.trial.training.score_scale
        model = with_d_qk(model, shape) if self.filled else model
        parameters = shape.parameters(examples.d_input, examples.n_outputs)
        theory = memoriser_rank(examples, shape)
        held = numbers["explained" if examples.n_classes is None else "recall"]
        further = {
            "memorised_examples": examples.n_examples * held,
            "examples": float(examples.n_examples),
            "parameters": float(parameters),
            "bound": float(theory.published),
            "rank": float(theory.rank),
        }
        if examples.n_classes is not None:
            further |= {"bits": examples.bits, "bits_per_parameter": held * examples.bits / parameters}
        if self.trial.measures.assumptions:
            from factrank.families.memoriser.assumption_measures import assumption_measures  # noqa: PLC0415 - few ask for them

            further |= assumption_measures(stored(examples), self.trial.measures.assumptions, self.trial.seed)
        return model if scale == 1 else model.scaled_scores(scale), further, []

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"


def _variance(labels: Float[np.ndarray, " examples"]) -> float:
    """The variance, 0 of equal labels: their computed mean may differ from them."""
    return float(np.var(labels, dtype=np.float64)) if labels.min() < labels.max() else 0.0
