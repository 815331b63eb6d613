"""Context size: does the number of memorised examples grow linearly with the number of tokens in a context?

The paper trains memorisers with 20 heads on contexts of 1 to 60 tokens, fewer than d = 64, for both tasks and both
kinds of contexts. In theory the number of examples grows with n up to n ~ d (here d_h = 64).

Open points are settled as in `heads`. Contexts of one token are not the paper's concern, and theory predicts their
result: attention over one token is 1 for any query, so with one context for all, every example gets the same answer. We
keep them in the grid and in the claims as the authors do.

Our extension: with a context per example, 20 heads explain nearly all of 90,000 real labels from 5 tokens on, so we
study growth on 180,000. With one context for all, 20 tokens exhaust most of the authors' 25,000; we also look for a
line on 90,000.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.study import Size, Study
from factrank.studies.mahdavi.growth import Growth, growth_claims
from factrank.studies.mahdavi.heads import Sizes
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZES,
    HEADS_OF_CONTEXTS,
    KINDS,
    N_TOKENS,
    OMEGA_H_N,
    TASKS,
    TITLES,
    Cells,
    Kind,
    Setting,
    Task,
    grid,
    replicates,
    source,
    trials_of,
)

SIZES: dict[Task, Sizes] = {
    "regression": {
        "own": {"quick": (250, 500, 1000), "full": (10_000, 30_000, 50_000, 70_000, 90_000)},
        "shared": {"quick": (100, 200, 400), "full": (10_000, 15_000, 20_000, 25_000)},
    },
    "classification": {
        "own": {"quick": (250, 500, 1000), "full": (20_000, 30_000, 40_000, 50_000, 60_000)},
        "shared": {"quick": (100, 200, 400), "full": (6_000, 10_000, 14_000, 18_000)},
    },
}
QUICK_TOKENS, FULL_TOKENS = CONTEXT_SIZES["quick"], CONTEXT_SIZES["full"]
CELLS: dict[tuple[Task, Kind], dict[Size, Cells]] = {
    ("regression", "own"): {"quick": Cells(1000, QUICK_TOKENS), "full": Cells(180_000, (5, 10, 20, 60))},
    ("regression", "shared"): {"quick": Cells(400, QUICK_TOKENS), "full": Cells(25_000, FULL_TOKENS)},
    ("classification", "own"): {"quick": Cells(1000, QUICK_TOKENS), "full": Cells(40_000, FULL_TOKENS)},
    ("classification", "shared"): {"quick": Cells(400, QUICK_TOKENS), "full": Cells(18_000, FULL_TOKENS)},
}
"""The runs that decide claims; real labels with own contexts are exhausted at 90,000, other sizes are not."""
MORE: dict[tuple[Task, Kind], Cells] = {("regression", "shared"): Cells(90_000, (1, 5, 10, 20, 30))}
"""Full size: with one context for all, 20 tokens leave little of 25,000 real labels."""
PLACE = "the experiments on the context size"


def tokens_settings(size: Size, task: Task, kind: Kind) -> list[Setting]:
    """Returns every context size on every number of examples, then the replicates that claims use."""
    sizes = SIZES[task][kind][size]
    more = [MORE[task, kind]] if size == "full" and (task, kind) in MORE else []

    def shape(context_size: int) -> tuple[int, int]:
        return HEADS_OF_CONTEXTS[size], context_size

    return [
        *grid(size, task, kind, sizes, CONTEXT_SIZES[size], shape),
        *replicates(size, task, kind, sizes, [CELLS[task, kind][size], *more], shape),
    ]


def trials(size: Size) -> list[Trial]:
    """Returns the trials of both tasks and kinds of contexts."""
    return trials_of(setting for task in TASKS for kind in KINDS for setting in tokens_settings(size, task, kind))


def context_growths() -> tuple[Growth, ...]:
    """Returns the questions for each task and kind of contexts."""
    return tuple(
        Growth(
            task,
            kind,
            N_TOKENS,
            CELLS[task, kind],
            {size: max(of_size) for size, of_size in SIZES[task][kind].items()},
            PLACE,
            OMEGA_H_N,
            by_task=True,
            more=MORE.get((task, kind)),
        )
        for task in TASKS
        for kind in KINDS
    )


def context_size_study() -> Study:
    """Returns the study of all context sizes."""
    growths = context_growths()
    return Study(
        name="context-size",
        title="Context size: both tasks",
        source=source(PLACE),
        question="Does the number of examples that attention memorises grow linearly with the number of tokens in a "
        "context?",
        method="We train memorisers with 20 heads on contexts of 1 to 60 tokens in 64 dimensions, with real labels "
        "and with 100 classes, with a context per example and with one context for all.",
        trials=trials,
        charts=tuple(chart for growth in growths for chart in growth.charts()),
        summaries=tuple(summary for growth in growths for summary in growth.summaries()),
        fits=tuple(fit for growth in growths for fit in growth.fits()),
        claims=growth_claims(growths, "tokens"),
        titles=TITLES,
    )


CONTEXT_SIZE_STUDY = context_size_study()
