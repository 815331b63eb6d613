"""What the studies of this paper share: where they come from, how memorisers are trained, what columns are called.

Settings are those of the authors' public scripts (`reproduce.sh`): d = d_h = 64, d_v = 1, uniform vectors, a linear
embedding and sinusoidal positions, scores over sqrt(d_model), 100 classes or one real label, Adam at 1e-3 with a rate
that rises over the first twentieth of the steps and falls to 0 along a cosine, batches of 256, at least 50,000 steps
and 500 passes. Classification ends where all examples are right. What we do otherwise:

- Whether all are right is looked at every 2,500 steps, not every 500: at N = 130,000 a look every 500 would cost about
  a third of the training.
- A model counts by its last state; the authors load the checkpoint, one every 500 steps, whose loss was least.
- Steps multiply in tf32 on GPUs that have it; recall and losses are measured in full float32.
- Every number of examples N has data and weights of its own: its seed is its place among the sizes of its kind, the
  largest first, and 20 more for every further pass over the grid. The authors run the grid with 6 seeds (42 in their
  script), we run a part of it (`LEFT_OUT`) once: what is drawn anew for the interval of a claim are data sets of all
  sizes, not repetitions of one, so that an interval also holds what differs between sizes. Claims are about sizes at
  which the same places of the grid were run, such as all numbers of heads; with fewer than 3 such sizes they are not
  comparable, and fits with intervals over the places stand beside them.

The quick size has d = 16, few heads, tokens and examples, and other numbers of examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from factrank.databases import RandomExamples
from factrank.models import MemoriserShape
from factrank.runs.expressions import Where
from factrank.runs.study import Size, Source
from factrank.training.trial import Measures, Precision, Training, Trial

PAPER = "Mahdavi, Liao, Thrampoulidis 2024, Memorization Capacity of Multi-Head Attention in Transformers"
LINK = "https://arxiv.org/abs/2306.02010"


def source(figure: str) -> Source:
    """The paper, at one of its experiments or statements."""
    return Source(PAPER, figure, LINK)


Task = Literal["regression", "classification"]
Kind = Literal["own", "shared"]
"""A context for every example, or one for all."""

PASSES: dict[Size, int] = {"quick": 1, "full": 1}
"""How often the authors' grid is run; trials of the first pass stand first."""
SEEDS_PER_PASS = 20

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
PRECISION: dict[Size, Precision] = {"quick": "float32", "full": "tf32"}

# ---------------------------------------------------------------- columns and what they are called

N_HEADS, D_QK, SCALED_BY, START = "model.n_heads", "model.d_qk", "model.scaled_by", "model.start"
N_EXAMPLES, N_TOKENS = "database.n_examples", "database.context_size"
N_CONTEXTS, N_CLASSES = "database.n_contexts", "database.n_classes"
RECALL, LOSS, EXPLAINED, HELD = "recall", "loss", "explained", "memorised_examples"
PAPER_BOUND, RANK = "bound", "rank"
"""H (min(n, d_h) - 1) + 1, the paper's count, and the rank of the closed form."""

HEADS_TITLE, TOKENS_TITLE, HEAD_SIZE_TITLE = "number of heads H", "context size n", "head size d_h"
HELD_TITLE, RECALL_TITLE, LOSS_TITLE = "examples memorised", "share of examples memorised", "mean squared error"

WHERE: dict[Kind, Where] = {"own": ((N_CONTEXTS, None),), "shared": ((N_CONTEXTS, 1),)}
KINDS: tuple[Kind, ...] = ("own", "shared")
KIND_TEXT: dict[Kind, str] = {"own": "a context for each example", "shared": "one context for all"}
TASKS: tuple[Task, ...] = ("regression", "classification")

LINEAR_IN_HEADS = "show a linear relationship between memorization capacity and the number of attention heads"
"""From the abstract of the first version."""
OMEGA_H_N = "can memorize Omega(Hn) examples"
"""From the abstract of the version of ICLR 2024."""
OVER_SIZES = "Each size has its own data: the interval is over sizes."

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


def seed_of(place: int, run: int = 0) -> int:
    """The seed of a data set: the place of its size, the largest first, in a pass over the grid.

    >>> [seed_of(place, run) for run in range(2) for place in range(3)]
    [0, 1, 2, 20, 21, 22]
    """
    return SEEDS_PER_PASS * run + place


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

    def trial(self) -> Trial:
        """The run as the authors' grid has it."""
        return Trial(self.examples(), self.shape(), self.training(), seed=self.seed, measures=Measures())


# ---------------------------------------------------------------- what is not run

Varied = Literal["heads", "tokens", "head size"]
LEFT_OUT: tuple[tuple[Task, Kind, Varied, tuple[int, ...], tuple[int, ...]], ...] = (
    ("regression", "own", "heads", (1, 5), (50_000, 90_000)),
    ("regression", "own", "heads", (1, 5, 10), (30_000, 70_000)),
    ("regression", "own", "heads", (), (10_000,)),
    ("regression", "shared", "heads", (20, 30, 40, 50, 60), (10_000, 20_000, 30_000)),
    ("regression", "shared", "heads", (), (15_000, 25_000)),
    ("classification", "own", "heads", (1, 5, 10), (70_000, 90_000, 110_000, 130_000)),
    ("classification", "own", "heads", (1, 5, 20), (50_000,)),
    ("classification", "own", "heads", (1, 5, 10, 20, 30), (30_000,)),
    ("classification", "shared", "heads", (20, 30, 40, 50, 60), (40_000,)),
    ("classification", "shared", "heads", (), (30_000,)),
    ("classification", "shared", "heads", (20, 30, 40, 50), (20_000,)),
    ("classification", "shared", "heads", (10, 20, 30, 40, 50), (10_000,)),
    ("regression", "own", "tokens", (1,), (90_000,)),
    ("regression", "own", "tokens", (1, 5, 10, 20, 30), (70_000,)),
    ("regression", "own", "tokens", (1, 20), (50_000,)),
    ("regression", "own", "tokens", (1, 5, 10, 20), (30_000,)),
    ("regression", "own", "tokens", (), (10_000,)),
    ("regression", "shared", "tokens", (40, 50, 60), (15_000, 25_000)),
    ("regression", "shared", "tokens", (30, 40, 50, 60), (20_000,)),
    ("regression", "shared", "tokens", (), (10_000,)),
    ("classification", "own", "tokens", (1, 5, 10), (60_000,)),
    ("classification", "own", "tokens", (1, 5, 10, 20, 30, 40), (30_000, 50_000)),
    ("classification", "own", "tokens", (1, 5, 10, 40), (40_000,)),
    ("classification", "own", "tokens", (), (20_000,)),
    ("classification", "shared", "tokens", (30, 40, 50, 60), (10_000, 14_000, 18_000)),
    ("classification", "shared", "tokens", (), (6_000,)),
    ("classification", "shared", "head size", (15, 25, 35, 45, 50, 55, 60), (20_000,)),
    ("classification", "shared", "head size", (), (10_000, 15_000)),
)
"""Runs of the authors' grid that the full size leaves out, for want of time: with no entry here it is their 342 runs.

Task, contexts, what varies, its places (none: all of them) and the numbers of examples.
"""


def left_out(setting: Setting) -> bool:
    """Whether a run of the full size is one of those."""
    if setting.size == "quick":
        return False
    varied: Varied = "heads" if setting.context_size == CONTEXT_SIZE[setting.size] else "tokens"
    place = setting.n_heads if varied == "heads" else setting.context_size
    if setting.d_qk is not None:
        varied, place = "head size", setting.d_qk
    return any(
        (setting.task, setting.kind, varied) == (task, kind, what)
        and (not places or place in places)
        and setting.n_examples in sizes
        for task, kind, what, places, sizes in LEFT_OUT
    )


def grid(
    size: Size, run: int, task: Task, kind: Kind, sizes: Sequence[int], shapes: Sequence[tuple[int, int]]
) -> list[Setting]:
    """One pass: every (heads, context size) of `shapes` on every number of examples, but for what is left out."""
    settings = [
        Setting(size, task, kind, n_examples, n_heads, context_size, seed_of(place, run))
        for place, n_examples in enumerate(sorted(sizes, reverse=True))
        for n_heads, context_size in shapes
    ]
    return [setting for setting in settings if not left_out(setting)]


def complete(
    size: Size, task: Task, kind: Kind, sizes: Sequence[int], shapes: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The numbers of examples on which all these shapes are run; the largest one where there is none.

    A claim about a single size has one seed, and says so.
    """
    run = [setting.n_examples for setting in grid(size, 0, task, kind, sizes, shapes)]
    whole = tuple(n_examples for n_examples in sizes if run.count(n_examples) == len(shapes))
    return whole or (max(sizes),)
