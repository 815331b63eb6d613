"""Context size: do examples memorised grow linearly with the number of tokens of a context?

The paper trains memorisers with 20 heads on contexts of 1 to 60 tokens, fewer than d = 64, with both tasks and both
kinds of contexts. By the theory examples grow with n up to n ~ d (d_h = 64 here).

What is left open: as in `heads`. Contexts of one token are beside the point of the paper and told by theory: attention
over one token is 1 whatever the query, so that one context for all gives all examples the same answer. They are in the
grid and in the claims as the authors have them.
"""

from __future__ import annotations

from factrank.runs.study import Size, Study
from factrank.studies.mahdavi.growth import Growth
from factrank.studies.mahdavi.heads import Sizes
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZES,
    HEADS_OF_CONTEXTS,
    KINDS,
    N_TOKENS,
    OMEGA_H_N,
    PASSES,
    TASKS,
    TOKENS_TITLE,
    Kind,
    Task,
    complete,
    grid,
    source,
)
from factrank.training.trial import Trial

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
CLAIMED: dict[Kind, tuple[int, ...]] = {"shared": (1, 5, 10, 20)}
"""Context sizes of the full size that claims are about, where others are left out of all but a few sizes; else all."""
PLACE = "the experiments on the context size"


def tokens_shapes(size: Size) -> list[tuple[int, int]]:
    """The (heads, context sizes) of the grid."""
    return [(HEADS_OF_CONTEXTS[size], context_size) for context_size in CONTEXT_SIZES[size]]


def trials(size: Size) -> list[Trial]:
    """Every context size on every number of examples, for both tasks and kinds, but for what is left out."""
    return [
        setting.trial()
        for run in range(PASSES[size])
        for task in TASKS
        for kind in KINDS
        for setting in grid(size, run, task, kind, SIZES[task][kind][size], tokens_shapes(size))
    ]


def context_growths() -> tuple[Growth, ...]:
    """What is asked of each task and kind of contexts."""
    found = []
    for task in TASKS:
        for kind in KINDS:
            sizes = SIZES[task][kind]
            places = CONTEXT_SIZES | {"full": CLAIMED.get(kind, CONTEXT_SIZES["full"])}
            whole = {
                size: complete(size, task, kind, sizes[size], [(HEADS_OF_CONTEXTS[size], tokens) for tokens in of_size])
                for size, of_size in places.items()
            }
            top = {size: max(of_size) for size, of_size in sizes.items()}
            parts = (task, kind, N_TOKENS, TOKENS_TITLE, places, whole, top, PLACE, OMEGA_H_N)
            found.append(Growth(*parts, by_task=True))
    return tuple(found)


def context_size_study() -> Study:
    """The study, of the sizes that have all context sizes."""
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
        summaries=tuple(growth.summary() for growth in growths),
        fits=tuple(fit for growth in growths for fit in growth.fits()),
        claims=(
            *(claim for growth in growths for claim in growth.published("tokens")),
            *(claim for growth in growths for claim in growth.further("tokens")),
        ),
    )


CONTEXT_SIZE_STUDY = context_size_study()
