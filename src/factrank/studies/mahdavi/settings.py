"""What the studies of this paper share: where they come from, how memorisers are trained, what columns are called.

Settings are those of the authors' public scripts (`reproduce.sh`): d = d_h = 64, d_v = 1, uniform vectors, a linear
embedding and sinusoidal positions, scores over sqrt(d_model), 100 classes or one real label, Adam at 1e-3 with a rate
that rises over the first twentieth of the steps and falls to 0 along a cosine, batches of 256, at least 50,000 steps
and 500 passes. Classification ends where all examples are right. What we do otherwise:

- Whether all are right is looked at every 2,500 steps, not every 500: at N = 130,000 a look every 500 would cost about
  a third of the training.
- A model counts by its last state; the authors load the checkpoint, one every 500 steps, whose loss was least.
- Steps multiply in tf32 on GPUs that have it; recall and losses are measured in full float32.
- The authors run the grid of 342 with 6 seeds (42 in their script), we list it once, and the cells that decide a claim
  with two replicates more: new data and new weights at the same number of examples. The interval of a claim is over
  these, never over different N. Within one pass over the grid every N has data and weights of its own: its seed is
  its place among the sizes of its kind, the largest first, and 20 more for every further replicate.
- Real labels with a context for each example are used up by 20 heads at 90,000, the authors' largest size, whatever n
  is. What grows there is asked of 180,000, about as many as 20 heads have weights.

The quick size has d = 16, few heads, tokens and examples, and other numbers of examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from factrank.experiments.specs import Measures, Training, TrainingPrecision, Trial
from factrank.experiments.statistics import Where
from factrank.experiments.study import Size, Source
from factrank.families.memoriser import MemoriserShape
from factrank.families.memoriser.examples import RandomExamples

PAPER = "Mahdavi, Liao, Thrampoulidis 2024, Memorization Capacity of Multi-Head Attention in Transformers"
LINK = "https://arxiv.org/abs/2306.02010"


def source(figure: str) -> Source:
    """The paper, at one of its experiments or statements."""
    return Source(PAPER, figure, LINK)


Task = Literal["regression", "classification"]
Kind = Literal["own", "shared"]
"""A context for every example, or one for all."""

TITLES = {
    "model.n_heads": "number of heads H",
    "model.d_qk": "head size d_h",
    "database.context_size": "context size n",
    "database.n_examples": "examples N",
    "recall": "share of examples memorised",
    "loss": "mean squared error",
    "epoch": "step",
}
"""What axes call columns, in the notation of the paper."""

REPLICATES = 3
"""How often the cells that decide a claim are run."""
SEEDS_PER_PASS = 20
LARGER_PLACE = 10
"""The place of a number of examples that the authors' grid does not have."""

WIDTH: dict[Size, int] = {"quick": 16, "full": 64}
"""d: of vectors, model and heads."""
CLASSES: dict[Size, int] = {"quick": 10, "full": 100}
HEADS: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 4), "full": (1, 5, 10, 20, 30, 40, 50, 60)}
CONTEXT_SIZES: dict[Size, tuple[int, ...]] = {"quick": (1, 4, 8), "full": (1, 5, 10, 20, 30, 40, 50, 60)}
CONTEXT_SIZE: dict[Size, int] = {"quick": 8, "full": 32}
"""Of the studies in which it does not vary."""
HEADS_OF_CONTEXTS: dict[Size, int] = {"quick": 2, "full": 20}
"""Heads where the context size varies."""

BATCH: dict[Size, int] = {"quick": 64, "full": 256}
LEARNING_RATE: dict[Size, float] = {"quick": 0.01, "full": 0.001}
PASSES_OVER_EXAMPLES = 500
LEAST_STEPS: dict[Size, int] = {"quick": 2_000, "full": 50_000}
CHECK_EVERY: dict[Size, int] = {"quick": 250, "full": 2_500}
PRECISION: dict[Size, TrainingPrecision] = {"quick": "float32", "full": "tf32"}

# ---------------------------------------------------------------- columns and what they are called

N_HEADS, D_QK, SCALED_BY, START = "model.n_heads", "model.d_qk", "model.scaled_by", "model.start"
N_EXAMPLES, N_TOKENS = "database.n_examples", "database.context_size"
N_CONTEXTS, N_CLASSES = "database.n_contexts", "database.n_classes"
RECALL, LOSS, EXPLAINED, HELD = "recall", "loss", "explained", "memorised_examples"
PAPER_BOUND, RANK = "bound", "rank"
"""H (min(n, d_h) - 1) + 1, the paper's count, and the rank of the closed form."""


WHERE: dict[Kind, Where] = {"own": ((N_CONTEXTS, None),), "shared": ((N_CONTEXTS, 1),)}
KINDS: tuple[Kind, ...] = ("own", "shared")
KIND_TEXT: dict[Kind, str] = {"own": "a context for each example", "shared": "one context for all"}
TASKS: tuple[Task, ...] = ("regression", "classification")

LINEAR_IN_HEADS = "show a linear relationship between memorization capacity and the number of attention heads"
"""From the abstract of the first version."""
OMEGA_H_N = "can memorize Omega(Hn) examples"
"""From the abstract of the version of ICLR 2024."""
OVER_REPLICATES = "The interval is over replicates: new data and new weights at the same N."

# ---------------------------------------------------------------- trials


def task_where(task: Task) -> Where:
    """The rows of a task, of either size, in a study that has both."""
    return ((N_CLASSES, None if task == "regression" else tuple(CLASSES.values())),)


def steps(n_examples: int, least: int) -> int:
    """500 passes over the examples in batches of 256, or the least number of steps.

    >>> steps(130_000, 50_000), steps(10_000, 50_000)
    (253906, 50000)
    """
    return max(PASSES_OVER_EXAMPLES * n_examples // BATCH["full"], least)


def seed_of(n_examples: int, sizes: Sequence[int], replicate: int = 0) -> int:
    """The seed of a data set: the place of its size in the grid, the largest first, and of its replicate.

    >>> [seed_of(n_examples, (10, 20, 30), replicate) for replicate in range(2) for n_examples in (30, 20, 10, 40)]
    [0, 1, 2, 10, 20, 21, 22, 30]
    """
    ranked = sorted(sizes, reverse=True)
    return SEEDS_PER_PASS * replicate + (ranked.index(n_examples) if n_examples in ranked else LARGER_PLACE)


@dataclass(frozen=True)
class Setting:
    """One run of the grid: the task, its examples, heads and their size."""

    size: Size
    task: Task
    kind: Kind
    n_examples: int
    n_heads: int
    context_size: int
    seed: int
    d_qk: int | None = None

    def examples(self) -> RandomExamples:
        """The examples."""
        return RandomExamples(
            self.n_examples,
            self.context_size,
            d_input=WIDTH[self.size],
            n_classes=CLASSES[self.size] if self.task == "classification" else None,
            n_contexts=1 if self.kind == "shared" else None,
            seed=self.seed,
        )

    def shape(self) -> MemoriserShape:
        """The model."""
        return MemoriserShape(self.n_heads, d_model=WIDTH[self.size], d_qk=self.d_qk or WIDTH[self.size])

    def training(self, least_steps: int | None = None, *, stops: bool = True) -> Training:
        """How it is trained; `stops`: to the end, or, in classification, until all examples are right."""
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
        """The run as the authors' grid has it."""
        return Trial(self.examples(), self.shape(), self.training(least_steps), seed=self.seed, measures=Measures())


# ---------------------------------------------------------------- the grid and its replicates


@dataclass(frozen=True)
class Cells:
    """What decides a claim: a number of examples, and the numbers of heads or tokens that are run on it."""

    n_examples: int
    places: tuple[int, ...]


def grid(size: Size, task: Task, kind: Kind, sizes: Sequence[int], shapes: Sequence[tuple[int, int]]) -> list[Setting]:
    """One pass: every (heads, context size) of `shapes` on every number of examples."""
    return [
        Setting(size, task, kind, n_examples, n_heads, context_size, seed_of(n_examples, sizes))
        for n_examples in sorted(sizes, reverse=True)
        for n_heads, context_size in shapes
    ]


def replicates(
    size: Size, task: Task, kind: Kind, n_examples: int, sizes: Sequence[int], shapes: Sequence[tuple[int, int]]
) -> list[Setting]:
    """Every (heads, context size) of `shapes` on one number of examples, as often as a claim asks for."""
    return [
        Setting(size, task, kind, n_examples, n_heads, context_size, seed_of(n_examples, sizes, replicate))
        for replicate in range(REPLICATES)
        for n_heads, context_size in shapes
    ]


def trials_of(settings: Iterable[Setting]) -> list[Trial]:
    """Their trials, each once."""
    return [setting.trial() for setting in dict.fromkeys(settings)]
