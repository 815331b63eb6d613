"""Shared settings of the Mahdavi 2024 studies: source, training of memorisers, column names.

Settings follow the authors' public scripts (`reproduce.sh`): d = d_h = 64, d_v = 1, uniform vectors, a linear embedding
and sinusoidal positions, scores divided by sqrt(d_model), 100 classes or one real label, Adam at 1e-3 with a warm-up
over the first twentieth of the steps and a cosine decay to 0, batches of 256, at least 50,000 steps and 500 epochs.
Classification stops when all examples are correct. Differences:

- We check every 2,500 steps whether all examples are correct, not every 500: at N = 130,000 checking every 500 steps
  would cost about a third of the training.
- A model is judged by its final state; the authors load the checkpoint, one every 500 steps, with the smallest loss.
- Training uses tf32 products on GPUs that support them; recall and losses are measured in full float32.
- The authors run the grid of 342 with 6 seeds (42 in their script). We run it once, and the cells that decide a claim
  with two more replicates: new data and new weights at the same number of examples. Intervals of claims are over these
  replicates, never over different N. Within one pass over the grid every N has its own data and weights: its seed is
  its rank among the sizes of its kind, largest first, plus 20 for every further replicate.
- With real labels and a context per example, 20 heads exhaust 90,000 examples, the authors' largest size, for any n. We
  study growth there on 180,000, about as many as 20 heads have weights.

The quick size has d = 16, few heads, tokens and examples, and other numbers of examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from factrank.experiments.specs import Training, TrainingPrecision, Trial
from factrank.experiments.statistics import Where
from factrank.experiments.study import Size, Source
from factrank.families.memoriser import MemoriserShape
from factrank.families.memoriser.examples import RandomExamples

PAPER = "Mahdavi, Liao, Thrampoulidis 2024, Memorization Capacity of Multi-Head Attention in Transformers"
LINK = "https://arxiv.org/abs/2306.02010"


def source(figure: str) -> Source:
    """Returns the paper as a source, at one of its experiments or statements."""
    return Source(PAPER, figure, LINK)


Task = Literal["regression", "classification"]
Kind = Literal["own", "shared"]
"""One context per example, or one for all."""

TITLES = {
    "model.n_heads": "number of heads H",
    "model.d_qk": "head size d_h",
    "data.context_size": "context size n",
    "data.n_examples": "examples N",
    "recall": "fraction of examples memorised",
    "loss": "mean squared error",
    "epoch": "step",
}
"""Axis titles in the notation of the paper."""

REPLICATES = 3
"""Number of runs of the cells that decide a claim."""
SEEDS_PER_PASS = 20
LARGER_PLACE = 10
"""The place of a number of examples outside the authors' grid."""

WIDTH: dict[Size, int] = {"quick": 16, "full": 64}
"""Width d of vectors, model and heads."""
CLASSES: dict[Size, int] = {"quick": 10, "full": 100}
HEADS: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 4), "full": (1, 5, 10, 20, 30, 40, 50, 60)}
CONTEXT_SIZES: dict[Size, tuple[int, ...]] = {"quick": (1, 4, 8), "full": (1, 5, 10, 20, 30, 40, 50, 60)}
CONTEXT_SIZE: dict[Size, int] = {"quick": 8, "full": 32}
"""In the studies that do not vary it."""
HEADS_OF_CONTEXTS: dict[Size, int] = {"quick": 2, "full": 20}
"""In the study that varies the context size."""

BATCH: dict[Size, int] = {"quick": 64, "full": 256}
LEARNING_RATE: dict[Size, float] = {"quick": 0.01, "full": 0.001}
PASSES_OVER_EXAMPLES = 500
LEAST_STEPS: dict[Size, int] = {"quick": 2_000, "full": 50_000}
CHECK_EVERY: dict[Size, int] = {"quick": 250, "full": 2_500}
PRECISION: dict[Size, TrainingPrecision] = {"quick": "float32", "full": "tf32"}

# ---------------------------------------------------------------- columns and what they are called

N_HEADS, D_QK, SCALED_BY, START = "model.n_heads", "model.d_qk", "model.scaled_by", "start"
N_EXAMPLES, N_TOKENS = "data.n_examples", "data.context_size"
N_CONTEXTS, N_CLASSES = "data.n_contexts", "data.n_classes"
RECALL, LOSS, EXPLAINED, HELD = "recall", "loss", "explained", "memorised_examples"
PAPER_BOUND, RANK = "bound", "rank"
"""The paper's count H (min(n, d_h) - 1) + 1, and the rank of the closed form."""


WHERE: dict[Kind, Where] = {"own": ((N_CONTEXTS, None),), "shared": ((N_CONTEXTS, 1),)}
KINDS: tuple[Kind, ...] = ("own", "shared")
KIND_TEXT: dict[Kind, str] = {"own": "a context for each example", "shared": "one context for all"}
TASKS: tuple[Task, ...] = ("regression", "classification")

LINEAR_IN_HEADS = "show a linear relationship between memorization capacity and the number of attention heads"
"""Abstract of the first version."""
OMEGA_H_N = "can memorize Omega(Hn) examples"
"""Abstract of the ICLR 2024 version."""
OVER_REPLICATES = "The interval is over replicates, with new data and new weights at the same N."

# ---------------------------------------------------------------- trials


def task_where(task: Task) -> Where:
    """Returns the condition that selects a task, at either size, in a study with both."""
    return ((N_CLASSES, None if task == "regression" else tuple(CLASSES.values())),)


def steps(n_examples: int, least: int) -> int:
    """Returns the steps of 500 epochs in batches of 256, or `least` if that is more.

    >>> steps(130_000, 50_000), steps(10_000, 50_000)
    (253906, 50000)
    """
    return max(PASSES_OVER_EXAMPLES * n_examples // BATCH["full"], least)


def seed_of(n_examples: int, sizes: Sequence[int], replicate: int = 0) -> int:
    """Returns the seed of a data set, from the rank of its size in the grid (largest first) and its replicate.

    >>> [seed_of(n_examples, (10, 20, 30), replicate) for replicate in range(2) for n_examples in (30, 20, 10, 40)]
    [0, 1, 2, 10, 20, 21, 22, 30]
    """
    ranked = sorted(sizes, reverse=True)
    return SEEDS_PER_PASS * replicate + (ranked.index(n_examples) if n_examples in ranked else LARGER_PLACE)


@dataclass(frozen=True)
class Setting:
    """A run of the grid: the task, its examples, and the heads and their size."""

    size: Size
    task: Task
    kind: Kind
    n_examples: int
    n_heads: int
    context_size: int
    seed: int
    d_qk: int | None = None

    def examples(self) -> RandomExamples:
        """Returns the examples."""
        return RandomExamples(
            self.n_examples,
            self.context_size,
            d_input=WIDTH[self.size],
            n_classes=CLASSES[self.size] if self.task == "classification" else None,
            n_contexts=1 if self.kind == "shared" else None,
            seed=self.seed,
        )

    def shape(self) -> MemoriserShape:
        """Returns the shape of the model."""
        return MemoriserShape(self.n_heads, d_model=WIDTH[self.size], d_qk=self.d_qk or WIDTH[self.size])

    def training(self, least_steps: int | None = None, *, stops: bool = True) -> Training:
        """Returns the training. With `stops`, classification ends when all examples are correct."""
        return Training(
            epochs=steps(self.n_examples, LEAST_STEPS[self.size] if least_steps is None else least_steps),
            learning_rate=LEARNING_RATE[self.size],
            batch_size=BATCH[self.size],
            schedule="cosine",
            warm_up=0.05,
            stop="recall" if stops and self.task == "classification" else "never",
            check_every=CHECK_EVERY[self.size],
            precision=PRECISION[self.size],
        )

    def trial(self, least_steps: int | None = None) -> Trial:
        """Returns the trial as in the authors' grid."""
        return Trial(self.examples(), self.shape(), self.training(least_steps), seed=self.seed)


# ---------------------------------------------------------------- the grid and its replicates


@dataclass(frozen=True)
class Cells:
    """The runs that decide a claim: a number of examples and the numbers of heads or tokens run on it."""

    n_examples: int
    places: tuple[int, ...]


Shapes = Callable[[int], tuple[int, int]]
"""From a number of heads or tokens to (heads, context size)."""


def grid(
    size: Size, task: Task, kind: Kind, sizes: Sequence[int], places: Sequence[int], shape: Shapes
) -> list[Setting]:
    """Returns one pass over the grid: every place on every number of examples."""
    return [
        Setting(size, task, kind, n_examples, *shape(place), seed_of(n_examples, sizes))
        for n_examples in sorted(sizes, reverse=True)
        for place in places
    ]


def replicates(
    size: Size, task: Task, kind: Kind, sizes: Sequence[int], decisive: Iterable[Cells], shape: Shapes
) -> list[Setting]:
    """Returns every replicate of these cells."""
    return [
        Setting(size, task, kind, cells.n_examples, *shape(place), seed_of(cells.n_examples, sizes, replicate))
        for cells in decisive
        for replicate in range(REPLICATES)
        for place in cells.places
    ]


def trials_of(settings: Iterable[Setting]) -> list[Trial]:
    """Returns the trials of the settings, without duplicates."""
    return [setting.trial() for setting in dict.fromkeys(settings)]
