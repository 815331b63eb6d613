"""Head size: does increasing the query-key size stop helping at the context size?

The paper trains memorisers with 30 heads of size d_h = 10 to 64 on one context of 32 tokens for all examples, 100
classes, for at least 300,000 steps. The theorem has r = min(n, d_h), so a gain is expected up to d_h ~ n = 32.

The paper does not define "stops" numerically. We compare the slopes of accuracy from d_h = 10 to 30 and from 40 to 64
on 20,000 examples, with three runs of these head sizes. Theory is ambiguous: the rank of the closed form does not
depend on d_h at all (only its conditioning does). Whether the bend moves with n, and how much of it comes from the
scaling of scores, is the question of `knee`.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Fit, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZE,
    D_QK,
    HELD,
    N_EXAMPLES,
    OVER_REPLICATES,
    RECALL,
    REPLICATES,
    TITLES,
    Cells,
    Setting,
    seed_of,
    source,
)

HEADS_HERE: dict[Size, int] = {"quick": 2, "full": 30}
LEAST_STEPS: dict[Size, int] = {"quick": 3_000, "full": 300_000}
SIZES: dict[Size, tuple[int, ...]] = {"quick": (80, 120, 160), "full": (10_000, 15_000, 20_000)}
HEAD_SIZES: dict[Size, tuple[int, ...]] = {
    "quick": (1, 2, 8, 16),
    "full": (10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 64),
}
CELLS: dict[Size, Cells] = {"quick": Cells(160, HEAD_SIZES["quick"]), "full": Cells(20_000, (10, 20, 30, 40, 50, 64))}
"""The runs that decide claims."""
BELOW_N, BEYOND_N = (1, 2, 8, 10, 20, 30), (40, 50, 64)
"""The quick size has n = 8, the full size n = 32."""
NOTHING = 0.0007
"""A slope that we count as zero: less than 2 % of the examples from d_h = 40 to 64."""


def settings(size: Size) -> list[Setting]:
    """Returns every head size on every number of examples, then the replicates that claims use."""
    sizes, cells = SIZES[size], CELLS[size]
    once = [(n_examples, d_qk, 0) for n_examples in sorted(sizes, reverse=True) for d_qk in HEAD_SIZES[size]]
    again = [(cells.n_examples, d_qk, replicate) for replicate in range(REPLICATES) for d_qk in cells.places]
    return [
        Setting(
            size,
            "classification",
            "shared",
            n_examples,
            HEADS_HERE[size],
            CONTEXT_SIZE[size],
            seed_of(n_examples, sizes, replicate),
            d_qk,
        )
        for n_examples, d_qk, replicate in dict.fromkeys([*once, *again])
    ]


def trials(size: Size) -> list[Trial]:
    """Returns the trials, with as many steps as the authors use."""
    return [setting.trial(LEAST_STEPS[size]) for setting in settings(size)]


PLACE = "the experiments on the head size"
DECIDED: Where = ((N_EXAMPLES, tuple(cells.n_examples for cells in CELLS.values())),)
AT_N = (ReferenceLine("d_h = n", x=CONTEXT_SIZE["full"]),)


CHARTS = tuple(
    Chart(name, f"{title} by head size", "lines", x=D_QK, y=column, colour=N_EXAMPLES, references=AT_N)
    for name, title, column in (("accuracy", "Accuracy", RECALL), ("memorised", "Examples memorised", HELD))
)

SUMMARIES = tuple(
    Summary(
        f"accuracy{name}",
        f"Accuracy on 20,000 examples{text}",
        (("accuracy", Quantity("mean", RECALL, where=(*DECIDED, *where))),),
        over=(D_QK,),
        y_title=TITLES[RECALL],
        references=AT_N if not where else (),
    )
    for name, text, where in (
        ("-on-20000", "", ()),
        ("-below-n", " for d_h below n", ((D_QK, BELOW_N),)),
        ("-beyond-n", " for d_h beyond n", ((D_QK, BEYOND_N),)),
    )
)

FITS = tuple(
    Fit(f"line-{name}", f"A line for d_h {text} n", f"accuracy-{name}", ("1", D_QK), intervals=True)
    for name, text in (("below-n", "below"), ("beyond-n", "beyond"))
)


def _slope(places: tuple[int, ...], minus: Quantity | None = None) -> Quantity:
    return Quantity("slope", RECALL, D_QK, where=(*DECIDED, (D_QK, places)), minus=minus)


CLAIMS = (
    Claim(
        "a gain up to n",
        "Larger heads memorise more examples while d_h is below n.",
        _slope(BELOW_N),
        "rises",
        place=PLACE,
        note="Accuracy per unit of d_h over 10, 20 and 30 with n = 32 on 20,000 examples (quick: 1, 2 and 8 with n = "
        f"8). {OVER_REPLICATES}",
    ),
    Claim(
        "the gain stops at n",
        "From d_h ~ n on larger heads gain less than below it.",
        _slope(BELOW_N, minus=_slope(BEYOND_N)),
        "greater",
        place=PLACE,
        note="Accuracy per unit of d_h over 10, 20 and 30 minus that over 40, 50 and 64. Full size only. "
        f"{OVER_REPLICATES}",
    ),
    Claim(
        "no gain beyond n",
        "From d_h ~ n on larger heads gain nothing.",
        _slope(BEYOND_N),
        "not rising",
        tolerance=NOTHING,
        place=PLACE,
        note="Accuracy per unit of d_h over 40, 50 and 64. The tolerance, less than 2 % of the examples in total, is "
        f"ours. Full size only. {OVER_REPLICATES}",
    ),
)

HEAD_SIZE_STUDY = Study(
    name="head-size",
    title="Head size: where the gain stops",
    source=source(PLACE),
    question="Do larger query-key sizes help only up to the context size?",
    method="We train memorisers with 30 heads of size 10 to 64 on one context of 32 tokens for all examples and 100 "
    "classes, for 300,000 steps.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
