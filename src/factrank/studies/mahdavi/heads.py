"""Heads: do examples memorised grow linearly with the number of heads?

The paper trains memorisers with 1 to 60 heads on 10,000 to 130,000 examples of 32 tokens and plots the error of
regression, or the accuracy of classification, against the number of heads, one line for each number of examples; once
with a context for each example, and once with one context for all. d = d_h = 64.

What is left open: in which numbers the linear relationship was read from the plots. We count examples memorised (see
`growth`) and look for a line at the largest size. The threshold is ours.
"""

from __future__ import annotations

from factrank.runs.claims import Claim, Quantity
from factrank.runs.fits import Fit
from factrank.runs.study import Chart, Size, Study
from factrank.runs.summaries import Summary
from factrank.studies.mahdavi.growth import Growth, more_data
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZE,
    HEADS,
    HEADS_TITLE,
    HELD,
    KINDS,
    LINEAR_IN_HEADS,
    N_EXAMPLES,
    N_HEADS,
    OVER_SIZES,
    PASSES,
    RECALL,
    Kind,
    Task,
    complete,
    grid,
    source,
)
from factrank.training.trial import Trial

Sizes = dict[Kind, dict[Size, tuple[int, ...]]]

REGRESSION: Sizes = {
    "own": {"quick": (300, 600, 1200), "full": (10_000, 30_000, 50_000, 70_000, 90_000)},
    "shared": {"quick": (150, 300, 600), "full": (10_000, 15_000, 20_000, 25_000, 30_000)},
}
CLASSIFICATION: Sizes = {
    "own": {"quick": (300, 600, 1200), "full": (30_000, 50_000, 70_000, 90_000, 110_000, 130_000)},
    "shared": {"quick": (150, 300, 600), "full": (10_000, 20_000, 30_000, 40_000)},
}
CLAIMED: dict[tuple[Task, Kind], tuple[int, ...]] = {("classification", "own"): (20, 30, 40, 50, 60)}
"""Heads of the full size that claims are about, where some are left out of all but a few sizes; else all."""
ALL_RIGHT = 0.99
FEW_HEADS = (2, 10)
"""Heads, of the quick and the full size, that do not memorise most sizes in whole."""
PLACE = "the experiments on the number of heads"


def heads_shapes(size: Size) -> list[tuple[int, int]]:
    """The (heads, context sizes) of the grid."""
    return [(n_heads, CONTEXT_SIZE[size]) for n_heads in HEADS[size]]


def heads_trials(size: Size, task: Task, sizes: Sizes) -> list[Trial]:
    """Every number of heads on every size, with both kinds of contexts, but for what is left out."""
    return [
        setting.trial()
        for run in range(PASSES[size])
        for kind in KINDS
        for setting in grid(size, run, task, kind, sizes[kind][size], heads_shapes(size))
    ]


def growths(task: Task, sizes: Sizes) -> tuple[Growth, ...]:
    """What is asked of each kind of contexts."""
    found = []
    for kind in KINDS:
        full = CLAIMED.get((task, kind), HEADS["full"])
        quick = tuple(heads for heads in HEADS["quick"] if heads in full or heads not in HEADS["full"])
        places: dict[Size, tuple[int, ...]] = {"quick": quick, "full": full}
        whole = {
            size: complete(size, task, kind, sizes[kind][size], [(heads, CONTEXT_SIZE[size]) for heads in of_size])
            for size, of_size in places.items()
        }
        top = {size: max(of_size) for size, of_size in sizes[kind].items()}
        found.append(Growth(task, kind, N_HEADS, HEADS_TITLE, places, whole, top, PLACE, LINEAR_IN_HEADS))
    return tuple(found)


def _paired(sizes: Sizes, own: Growth, shared: Growth) -> dict[Kind, tuple[int, ...]]:
    """Sizes of each kind that are whole and have the same places among their kind, and so the same seeds."""
    ranked = {
        (growth.kind, size): sorted(sizes[growth.kind][size], reverse=True)
        for growth in (own, shared)
        for size in HEADS
    }
    both = [
        (one, other)
        for size in HEADS
        for one, other in zip(ranked["own", size], ranked["shared", size], strict=False)
        if one in own.sizes[size] and other in shared.sizes[size]
    ]
    return {"own": tuple(one for one, _ in both), "shared": tuple(other for _, other in both)}


def own_against_shared(task: Task, sizes: Sizes) -> Claim:
    """Contexts for each example hold more: a question of ours."""
    own, shared = growths(task, sizes)
    paired = _paired(sizes, own, shared)

    def held(growth: Growth, minus: Quantity | None = None) -> Quantity:
        where = (*growth.where, (N_EXAMPLES, paired[growth.kind]), (N_HEADS, FEW_HEADS))
        return Quantity("mean", HELD, where=where, minus=minus)

    return Claim(
        "own contexts hold more",
        "With a context for each example more examples are memorised than with one for all.",
        held(own, minus=held(shared)),
        "greater",
        place=PLACE,
        note="Examples memorised by 10 heads (2 in the quick size), over sizes of both kinds that have the same place "
        f"among their kind; those with own contexts are larger. {OVER_SIZES}",
        extension=True,
    )


def heads_needed(growth: Growth) -> tuple[Summary, Fit]:
    """The least number of heads with 99 % right for each size, and a line through it."""
    name = f"heads-needed-{growth.name}"
    needed = Quantity("first", f"{RECALL} - {ALL_RIGHT}", N_HEADS, where=growth.where)
    return (
        Summary(
            name,
            f"The least number of heads with 99 % right: {growth.text}",
            (("heads", needed),),
            over=(N_EXAMPLES,),
            x_title="examples N",
            y_title=HEADS_TITLE,
        ),
        Fit(f"needed-{growth.name}", f"Heads needed: {growth.text}", name, ("1", N_EXAMPLES), intervals=True),
    )


def heads_study(task: Task, sizes: Sizes, shown: str) -> Study:
    """The study of one task; `shown` says what the paper plots."""
    both = growths(task, sizes)
    charts: list[Chart] = [chart for growth in both for chart in growth.charts()]
    summaries: list[Summary] = [growth.summary() for growth in both]
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
            *(claim for growth in both for claim in growth.further("heads")),
            *(more_data(growth) for growth in both),
            own_against_shared(task, sizes),
        ),
    )


HEADS_REGRESSION = heads_study("regression", REGRESSION, "The error of real labels")
HEADS_CLASSIFICATION = heads_study("classification", CLASSIFICATION, "The share of 100 classes answered rightly")
