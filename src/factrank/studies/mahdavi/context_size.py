"""Context size: do examples memorised grow linearly with the number of tokens of a context?

The paper trains memorisers with 20 heads on contexts of 1 to 60 tokens, fewer than d = 64, with both tasks and both
kinds of contexts. By the theory examples grow with n up to n ~ d (d_h = 64 here).

What is left open: as in `heads`. Contexts of one token are beside the point of the paper and told by theory: attention
over one token is 1 whatever the query, so that one context for all gives all examples the same answer. They are in the
grid and in the claims as the authors have them.

Beyond the paper: of 90,000 real labels with a context for each example 20 heads explain nearly all from 5 tokens on, so
that growth is looked for on 180,000. With one context for all 20 tokens use up most of the authors' 25,000; a line is
also looked for on 90,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from factrank.experiments.specs import Trial
from factrank.experiments.study import Size, Study
from factrank.studies.mahdavi.growth import Growth
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
    ("regression", "own"): {
        "quick": Cells(1000, QUICK_TOKENS),
        "full": Cells(180_000, (5, 10, 20, 60)),
    },
    ("regression", "shared"): {
        "quick": Cells(400, QUICK_TOKENS),
        "full": Cells(25_000, FULL_TOKENS),
    },
    ("classification", "own"): {
        "quick": Cells(1000, QUICK_TOKENS),
        "full": Cells(40_000, FULL_TOKENS),
    },
    ("classification", "shared"): {
        "quick": Cells(400, QUICK_TOKENS),
        "full": Cells(18_000, FULL_TOKENS),
    },
}
"""What decides claims; real labels with own contexts are used up at 90,000, other sizes are not."""
MORE: dict[tuple[Task, Kind], Cells] = {("regression", "shared"): Cells(90_000, (1, 5, 10, 20, 30))}
"""Of the full size: of 25,000 real labels on one context 20 tokens leave little."""
PLACE = "the experiments on the context size"


def tokens_shapes(size: Size, tokens: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """The (heads, context sizes) of the grid, or of these context sizes."""
    context_sizes = CONTEXT_SIZES[size] if tokens is None else tokens
    return [(HEADS_OF_CONTEXTS[size], context_size) for context_size in context_sizes]


def tokens_settings(size: Size, task: Task, kind: Kind) -> list[Setting]:
    """Every context size on every number of examples, then the replicates that claims are about."""
    sizes, cells = SIZES[task][kind][size], CELLS[task, kind][size]
    return [
        *grid(size, task, kind, sizes, tokens_shapes(size)),
        *replicates(size, task, kind, cells.n_examples, sizes, tokens_shapes(size, cells.places)),
        *(
            setting
            for more in [MORE.get((task, kind))]
            if more is not None and size == "full"
            for setting in replicates(size, task, kind, more.n_examples, sizes, tokens_shapes(size, more.places))
        ),
    ]


def trials(size: Size) -> list[Trial]:
    """Both tasks and kinds of contexts."""
    return trials_of(setting for task in TASKS for kind in KINDS for setting in tokens_settings(size, task, kind))


def context_growths() -> tuple[Growth, ...]:
    """What is asked of each task and kind of contexts."""
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
    """The study of all context sizes."""
    growths = context_growths()
    return Study(
        name="context-size",
        title="Context size: both tasks",
        source=source(PLACE),
        question="Does the number of examples that attention memorises grow linearly with the tokens of a context?",
        method="Memorisers with 20 heads are trained on contexts of 1 to 60 tokens in 64 dimensions, on real labels "
        "and on 100 classes, with a context for each example and with one context for all.",
        trials=trials,
        charts=tuple(chart for growth in growths for chart in growth.charts()),
        summaries=tuple(summary for growth in growths for summary in growth.summaries()),
        fits=tuple(fit for growth in growths for fit in growth.fits()),
        claims=(
            *(claim for growth in growths for claim in growth.published("tokens")),
            *(claim for growth in growths for claim in growth.on_more("tokens")),
            *(claim for growth in growths for claim in growth.further("tokens")),
        ),
        titles=TITLES,
    )


CONTEXT_SIZE_STUDY = context_size_study()
