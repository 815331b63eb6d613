"""Heads: do examples memorised grow linearly with the number of heads?

The paper trains memorisers with 1 to 60 heads on 10,000 to 130,000 examples of 32 tokens and plots the error of
regression, or the accuracy of classification, against the number of heads, one line for each number of examples; once
with a context for each example, and once with one context for all. d = d_h = 64.

What is left open: in which numbers the linear relationship was read from the plots. We count examples memorised (see
`growth`) and look for a line on one number of examples that few heads do not use up. The threshold is ours.

Beyond the paper: real labels with a context for each example are used up at 90,000 by 20 heads, so that a line is
looked for on 180,000. With one context for all it is looked for on the authors' 30,000, which 20 heads use up too, and
on 90,000 beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.mahdavi.growth import Growth
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZE,
    HEADS,
    HELD,
    KINDS,
    LINEAR_IN_HEADS,
    N_EXAMPLES,
    N_HEADS,
    OVER_REPLICATES,
    RECALL,
    SEEDS_PER_PASS,
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

Sizes = dict[Kind, dict[Size, tuple[int, ...]]]

REGRESSION: Sizes = {
    "own": {"quick": (300, 600, 1200), "full": (10_000, 30_000, 50_000, 70_000, 90_000)},
    "shared": {"quick": (150, 300, 600), "full": (10_000, 15_000, 20_000, 25_000, 30_000)},
}
CLASSIFICATION: Sizes = {
    "own": {"quick": (300, 600, 1200), "full": (30_000, 50_000, 70_000, 90_000, 110_000, 130_000)},
    "shared": {"quick": (150, 300, 600), "full": (10_000, 20_000, 30_000, 40_000)},
}
CELLS: dict[tuple[Task, Kind], dict[Size, Cells]] = {
    ("regression", "own"): {
        "quick": Cells(1200, HEADS["quick"]),
        "full": Cells(180_000, (1, 5, 10, 20)),
    },
    ("regression", "shared"): {
        "quick": Cells(600, HEADS["quick"]),
        "full": Cells(30_000, HEADS["full"]),
    },
    ("classification", "own"): {
        "quick": Cells(1200, HEADS["quick"]),
        "full": Cells(70_000, HEADS["full"]),
    },
    ("classification", "shared"): {
        "quick": Cells(600, HEADS["quick"]),
        "full": Cells(40_000, HEADS["full"]),
    },
}
"""What decides claims. 70,000 examples of 100 classes are the most that 40 heads do not memorise and 60 do."""
MORE: dict[tuple[Task, Kind], Cells] = {("regression", "shared"): Cells(90_000, (1, 5, 10, 20, 30))}
"""Of the full size: of 30,000 real labels on one context 20 heads leave little. Scores on one context are the
query times a table of d n numbers for each head, d n H = 61,440 for 30 heads; 90,000 labels are more."""
ALL_RIGHT = 0.99
FEW_HEADS: dict[Size, int] = {"quick": 2, "full": 10}
"""Heads that do not memorise the largest sizes in whole; both kinds of contexts are compared there."""
PLACE = "the experiments on the number of heads"


def heads_shapes(size: Size, heads: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """The (heads, context sizes) of the grid, or of these heads."""
    return [(n_heads, CONTEXT_SIZE[size]) for n_heads in (HEADS[size] if heads is None else heads)]


def heads_settings(size: Size, task: Task, kind: Kind, sizes: Sequence[int]) -> list[Setting]:
    """Every number of heads on every number of examples, then the replicates that claims are about."""
    cells, few = CELLS[task, kind][size], [FEW_HEADS[size]]
    return [
        *grid(size, task, kind, sizes, heads_shapes(size)),
        *replicates(size, task, kind, cells.n_examples, sizes, heads_shapes(size, cells.places)),
        *replicates(size, task, kind, max(sizes), sizes, heads_shapes(size, few)),
        *(
            setting
            for more in [MORE.get((task, kind))]
            if more is not None and size == "full"
            for setting in replicates(size, task, kind, more.n_examples, sizes, heads_shapes(size, more.places))
        ),
    ]


def heads_trials(size: Size, task: Task, sizes: Sizes) -> list[Trial]:
    """Both kinds of contexts."""
    return trials_of(setting for kind in KINDS for setting in heads_settings(size, task, kind, sizes[kind][size]))


def growths(task: Task, sizes: Sizes) -> tuple[Growth, ...]:
    """What is asked of each kind of contexts."""
    return tuple(
        Growth(
            task,
            kind,
            N_HEADS,
            CELLS[task, kind],
            {size: max(of_size) for size, of_size in sizes[kind].items()},
            PLACE,
            LINEAR_IN_HEADS,
            more=MORE.get((task, kind)),
        )
        for kind in KINDS
    )


def own_against_shared(task: Task, sizes: Sizes) -> Claim:
    """Contexts for each example hold more: a question of ours."""
    own, shared = growths(task, sizes)
    few = (N_HEADS, tuple(FEW_HEADS.values()))

    def held(growth: Growth, minus: Quantity | None = None) -> Quantity:
        return Quantity("mean", HELD, where=(*growth.at_top, few), minus=minus)

    return Claim(
        "own contexts hold more",
        "With a context for each example more examples are memorised than with one for all.",
        held(own, minus=held(shared)),
        "greater",
        place=PLACE,
        note="Examples memorised by 10 heads (2 in the quick size) of the largest sizes; those with own contexts are "
        f"larger. {OVER_REPLICATES}",
        extension=True,
    )


def heads_needed(growth: Growth) -> tuple[Summary, Fit]:
    """The least number of heads with 99 % right for each size, and a line through it."""
    name = f"heads-needed-{growth.name}"
    once = ("seed", tuple(range(SEEDS_PER_PASS)))  # replicates have some of the heads alone
    needed = Quantity("first", f"{RECALL} - {ALL_RIGHT}", N_HEADS, where=(*growth.where, once))
    return (
        Summary(
            name,
            f"The least number of heads with 99 % right: {growth.text}",
            (("heads", needed),),
            over=(N_EXAMPLES,),
            y_title=TITLES[N_HEADS],
        ),
        Fit(f"needed-{growth.name}", f"Heads needed: {growth.text}", name, ("1", N_EXAMPLES), intervals=True),
    )


def heads_study(task: Task, sizes: Sizes, shown: str) -> Study:
    """The study of one task; `shown` says what the paper plots."""
    both = growths(task, sizes)
    charts: list[Chart] = [chart for growth in both for chart in growth.charts()]
    summaries: list[Summary] = [summary for growth in both for summary in growth.summaries()]
    fits: list[Fit] = [fit for growth in both for fit in growth.fits()]
    if task == "classification":
        for summary, fit in map(heads_needed, both):
            summaries.append(summary)
            fits.append(fit)
    return Study(
        name=f"heads-{task}",
        title=f"Heads: {task}",
        source=source(f"{PLACE}, {task}"),
        question=f"Does the number of examples that attention memorises grow linearly with its heads ({task})?",
        method="A query attends to a context of 32 vectors with H heads of one value each; sums of heads are read out "
        f"linearly. All weights are trained on N random examples. {shown} is measured on all of them at the end, with "
        "a context for each example and with one context for all.",
        trials=lambda size: heads_trials(size, task, sizes),
        charts=tuple(charts),
        summaries=tuple(summaries),
        fits=tuple(fits),
        claims=(
            *(claim for growth in both for claim in growth.published("heads")),
            *(claim for growth in both for claim in growth.on_more("heads")),
            *(claim for growth in both for claim in growth.further("heads")),
            own_against_shared(task, sizes),
        ),
        titles=TITLES,
    )


HEADS_REGRESSION = heads_study("regression", REGRESSION, "The error of real labels")
HEADS_CLASSIFICATION = heads_study("classification", CLASSIFICATION, "The share of 100 classes answered rightly")
