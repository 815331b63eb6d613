"""Heads: does the number of memorised examples grow linearly with the number of heads?

The paper trains memorisers with 1 to 60 heads on 10,000 to 130,000 examples of 32 tokens and plots the error of
regression, or the accuracy of classification, against the number of heads, with one line per number of examples; once
with a context per example and once with one context for all. d = d_h = 64.

The paper does not say how the linear relationship was read from the plots. We count memorised examples (see `growth`)
and look for a line at one number of examples that few heads do not exhaust. The threshold is ours.

Our extension: with a context per example, 20 heads exhaust 90,000 real labels, so we look for a line on 180,000. With
one context for all we look for it on the authors' 30,000, which 20 heads exhaust too, and also on 90,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.mahdavi.growth import Growth, growth_claims
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
    ("regression", "own"): {"quick": Cells(1200, HEADS["quick"]), "full": Cells(180_000, (1, 5, 10, 20))},
    ("regression", "shared"): {"quick": Cells(600, HEADS["quick"]), "full": Cells(30_000, HEADS["full"])},
    ("classification", "own"): {"quick": Cells(1200, HEADS["quick"]), "full": Cells(70_000, HEADS["full"])},
    ("classification", "shared"): {"quick": Cells(600, HEADS["quick"]), "full": Cells(40_000, HEADS["full"])},
}
"""The runs that decide claims. 70,000 examples of 100 classes are the most that 60 heads memorise but 40 do not."""
MORE: dict[tuple[Task, Kind], Cells] = {("regression", "shared"): Cells(90_000, (1, 5, 10, 20, 30))}
"""Full size: with one context for all, 20 heads leave little of 30,000 real labels.

Scores on one context are the query times a table of d n numbers per head, d n H = 61,440 for 30 heads; 90,000 labels
are more.
"""
ALL_RIGHT = 0.99
FEW_HEADS: dict[Size, int] = {"quick": 2, "full": 10}
"""Heads that do not fully memorise the largest sizes; both kinds of contexts are compared there."""
PLACE = "the experiments on the number of heads"


def heads_settings(size: Size, task: Task, kind: Kind, sizes: Sequence[int]) -> list[Setting]:
    """Returns every number of heads on every number of examples, then the replicates that claims use."""
    more = [MORE[task, kind]] if size == "full" and (task, kind) in MORE else []
    decisive = [CELLS[task, kind][size], Cells(max(sizes), (FEW_HEADS[size],)), *more]

    def shape(n_heads: int) -> tuple[int, int]:
        return n_heads, CONTEXT_SIZE[size]

    return [*grid(size, task, kind, sizes, HEADS[size], shape), *replicates(size, task, kind, sizes, decisive, shape)]


def heads_trials(size: Size, task: Task, sizes: Sizes) -> list[Trial]:
    """Returns the trials of both kinds of contexts."""
    return trials_of(setting for kind in KINDS for setting in heads_settings(size, task, kind, sizes[kind][size]))


def growths(task: Task, sizes: Sizes) -> tuple[Growth, ...]:
    """Returns the questions for each kind of contexts."""
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
    """Returns the claim that a context per example stores more (our extension)."""
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
        note="Examples memorised by 10 heads (2 in the quick size) at the largest sizes; those with own contexts are "
        f"larger. {OVER_REPLICATES}",
        extension=True,
    )


def heads_needed(growth: Growth) -> tuple[Summary, Fit]:
    """Returns the smallest number of heads with 99 % correct at each size, and a line through them."""
    name = f"heads-needed-{growth.name}"
    once = ("seed", tuple(range(SEEDS_PER_PASS)))  # replicates have some of the heads alone
    needed = Quantity("first", f"{RECALL} - {ALL_RIGHT}", N_HEADS, where=(*growth.where, once))
    return (
        Summary(
            name,
            f"Smallest number of heads with 99 % correct: {growth.text}",
            (("heads", needed),),
            over=(N_EXAMPLES,),
            y_title=TITLES[N_HEADS],
        ),
        Fit(f"needed-{growth.name}", f"Heads needed: {growth.text}", name, ("1", N_EXAMPLES), intervals=True),
    )


def heads_study(task: Task, sizes: Sizes, shown: str) -> Study:
    """Returns the study of one task; `shown` describes what the paper plots."""
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
        question="Does the number of examples that attention memorises grow linearly with the number of heads "
        f"({task})?",
        method="A query attends to a context of 32 vectors with H heads of one value each; their outputs are read out "
        f"linearly. All weights are trained on N random examples. {shown} is measured on all of them at the end, with "
        "a context per example and with one context for all.",
        trials=lambda size: heads_trials(size, task, sizes),
        charts=tuple(charts),
        summaries=tuple(summaries),
        fits=tuple(fits),
        claims=(*growth_claims(both, "heads"), own_against_shared(task, sizes)),
        titles=TITLES,
    )


HEADS_REGRESSION = heads_study("regression", REGRESSION, "The error on real labels")
HEADS_CLASSIFICATION = heads_study(
    "classification", CLASSIFICATION, "The fraction of examples classified correctly among 100 classes"
)
