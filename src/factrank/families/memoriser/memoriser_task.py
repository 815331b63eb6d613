"""The task of training a multi-head memoriser on examples: a query vector, a context, and a class or a real label.

Mahdavi, Liao and Thrampoulidis 2024 (arXiv 2306.02010). An epoch is one step on `batch_size` examples (256 by default),
taken in passes without repetition (`example_batches`). The loss is the mean cross-entropy or, for real labels, the mean
squared error. Random examples are generated on the device from their indices and never stored. N and the number of
contexts are part of the data, so trials that differ in them share a compiled program.

`memoriser_measures` lists the measures during training. The final results also contain

    memorised_examples  N recall, or N explained (NaN when all real labels are equal)
    examples            N
    parameters          number of stored scalars
    bits                N log2(classes), and bits_per_parameter = recall bits / parameters; not for real labels
    bound               H (min(n, d_qk) - 1) + 1, the number that H heads provably memorise by the paper
    rank                the number that the closed form can fit exactly (`memoriser_rank`)
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
from factrank.experiments.specs import DRAWN, EpochsTo, Trial
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
from factrank.families.memoriser.memoriser_specs import Assumptions, Saturation, Tolerance
from factrank.families.memoriser.ranks import memoriser_rank

ORDER = 1
"""Appended to the seed of a trial to seed the order of its examples."""


@dataclass(frozen=True, eq=False)
class MemoriserTask:
    """Training of one memoriser on examples."""

    trial: Trial
    examples: Examples
    padded: bool = False
    """Whether head size and contexts are padded, which lets trials of different sizes share a compiled program."""

    def __post_init__(self) -> None:
        training, n_examples = self.trial.training, self.examples.n_examples
        self._shape.part_sizes(
            self.examples.d_input, self.examples.n_outputs
        )  # raises an error if the sizes do not match
        if n_examples > MOST_EXAMPLES:
            raise InputError(f"a memoriser can be trained on at most {MOST_EXAMPLES:,} examples; got {n_examples:,}")
        if training.epochs * self._batch_size >= MOST_VISITS:
            raise InputError(
                f"epochs x batch_size must be below {MOST_VISITS:,}; got {training.epochs:,} x {self._batch_size:,}"
            )
        if self.examples.n_classes is None and training.stop == "recall_tau":
            raise InputError(
                "real labels have no probabilities; use the stop 'recall', which counts errors within the tolerance"
            )
        if self.trial.start != DRAWN and training.score_scale != 1:
            raise InputError("start 'solved' requires score_scale 1, because it solves for unscaled scores")

    @property
    def _shape(self) -> MemoriserShape:
        return cast("MemoriserShape", self.trial.model)

    @cached_property
    def _layout(self) -> ExampleLayout:
        return ExampleLayout.of(self.examples, padded=self.padded)

    @cached_property
    def _trained_shape(self) -> MemoriserShape:
        """Shape of the compiled program."""
        shape = self._shape
        return replace(shape, d_qk=rung_above(shape.d_qk), scaled_by="d_model") if self.padded else shape

    def with_padding(self) -> MemoriserTask:
        """Return the task with d_qk and the context size padded to powers of two, sizes that more trials share.

        The number of heads is not padded: cost is proportional to it, but depends little on the other two.
        """
        return replace(self, padded=True)

    @property
    def _batch_size(self) -> int:
        return self.trial.training.batch_size or BATCH_SIZE

    @property
    def signature(self) -> Hashable:
        """Key of the compiled program: the model, the sizes of vectors and labels, and the measures."""
        trial = self.trial
        measured = trial.taus, trial.measure(EpochsTo), self._saturation, self._tolerance
        return "memoriser", self._trained_shape, self._layout, measured, self.padded

    @property
    def _saturation(self) -> float | None:
        asked = self.trial.measure(Saturation)
        return None if asked is None else asked.threshold

    @property
    def _tolerance(self) -> float:
        return (self.trial.measure(Tolerance) or Tolerance()).error

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts that the trial does not train."""
        return self.trial.training.frozen

    # ---------------------------------------------------------------- before training

    def init(self, rng: np.random.Generator) -> Memoriser:
        """Return the model before training; a solved start is computed in float64."""
        model = self._start(rng)
        return with_d_qk(model, self._trained_shape) if self.padded else model

    def _start(self, rng: np.random.Generator) -> Memoriser:
        if self.trial.start == DRAWN:
            sizes = self.examples.d_input, self.examples.n_outputs
            return draw_memoriser(self._shape, *sizes, rng=rng, dtype=self._real)
        from factrank.families.memoriser.solving import started_memoriser  # noqa: PLC0415 - rarely needed

        return started_memoriser(self._shape, self.examples, rng=rng, dtype=self._real)

    def data(self) -> ExampleData:
        """Return the sizes, the seed or vectors of the examples, and the orders of the passes."""
        examples, n_examples = self.examples, self.examples.n_examples
        multipliers, offsets = draw_orders(n_examples, np.random.default_rng([self.trial.seed, ORDER]))
        variance = 0.0 if examples.n_classes else _variance(stored_labels(examples))
        divided = (
            self._trained_shape.score_divisor / self._shape.score_divisor
        )  # differs from 1 when d_qk is both padded and the divisor
        data: dict[str, Any] = {
            "n_examples": np.int32(n_examples),
            "n_contexts": np.int32(examples.number_of_contexts),
            "seed": np.uint32(examples.seed if isinstance(examples, RandomExamples) else 0),
            "multipliers": multipliers,
            "offsets": offsets,
            "label_variance": np.array(variance, self._real),
            "score_scale": np.array(self.trial.training.score_scale * divided, self._real),
        }
        if self.padded:
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
        """Return the indices of the examples of one step."""
        return examples_of_step(data, epoch, self._batch_size)[None]

    def loss(self, model: Memoriser, data: ExampleData, batch: Int[Array, " batch"]) -> Float[Array, ""]:
        """Return the mean cross-entropy or squared error of a batch."""
        queries, contexts, labels = examples_at(self._layout, data, batch)
        scaled = model.scaled_scores(data["score_scale"])
        return losses_of(scaled.outputs(queries, contexts, data.get("n_tokens")), labels).mean()

    def check(self, model: Memoriser, data: ExampleData) -> Metrics:
        """Return loss, recalls and saturation over all examples, and errors for real labels."""
        return self._examination.check(model.scaled_scores(data["score_scale"]), data)

    def measure(self, model: Memoriser, data: ExampleData) -> Metrics:
        """Return the numbers of `check` with margins."""
        return self._examination.measure(model.scaled_scores(data["score_scale"]), data)

    @property
    def _examination(self) -> MemoriserExamination:
        return MemoriserExamination(self.trial.taus, self._saturation, self._tolerance, self._layout)

    # ---------------------------------------------------------------- after training

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with fractions rounded to exact quotients of counts, which float32 only approximates."""
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
        """Return the model with its score scale folded in, and its size, memorised examples and predicted capacity."""
        examples, shape, scale = self.examples, self._shape, self.trial.training.score_scale
        model = with_d_qk(model, shape) if self.padded else model
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
        if asked := self.trial.measure(Assumptions):
            from factrank.families.memoriser.assumption_measures import assumption_measures  # noqa: PLC0415 - rarely needed

            further |= assumption_measures(stored(examples), asked.subsets, self.trial.seed)
        return model if scale == 1 else model.scaled_scores(scale), further, []

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"


def _variance(labels: Float[np.ndarray, " examples"]) -> float:
    """Return the variance, exactly 0 if all labels are equal even though their computed mean may be rounded."""
    return float(np.var(labels, dtype=np.float64)) if labels.min() < labels.max() else 0.0
