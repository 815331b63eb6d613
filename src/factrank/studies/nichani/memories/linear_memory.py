"""The capacity of linear associative memories: how many facts does one d x d matrix hold after training?

N inputs and N outputs have random embeddings on the unit sphere of R^d that stay as they are; W is trained so that
output f(x) has the largest of the scores <u_y, W e_x>. Figure 1 (left) has the largest N of which 99 % are recalled,
for different d, beside a dashed line N log N = d^2 / 1.3.

As in the authors' script: d = 2^3, 2^3.5, ...; cross-entropy over all facts in every step; Adam with learning rate
1000 (recall does not change with the scale of W), at most 4,096 steps, recall looked at every 32 steps, and the end
when 99 % are right. W starts normal with variance 1 / d.

What is different: f is a random permutation, not the identity, which changes nothing; 12 seeds, not 5; a capacity is
known to 6 %, not 1 %, both ends of the interval were run, and N is its lower end, so 3 % too small on average. d = 256,
the authors' largest, had 3 seeds when the claims were chosen and has no part in them.

1.3 belongs to a line that was drawn beside points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.specs import Training
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study, no_trials
from factrank.families.memory import MemoryShape
from factrank.studies.nichani.memories.memory_parts import Law, interval_summary
from factrank.studies.nichani.settings import (
    D_MODEL,
    FACTS,
    LINEAR_TITLES,
    MOST_RIGHT,
    N_LOG_N,
    SEEDS,
    memory_search,
    n_with,
    on_a_rung,
    source,
)

WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8, 16), "full": (8, 11, 16, 22, 32, 45, 64, 90, 128, 181)}
LARGEST = 256
"""A width of the full size that the claims leave out."""
LARGER = (64, 90, 128, 181)

TRAINING = Training(
    epochs=4096, learning_rate=1000.0, stop="recall", stop_at=MOST_RIGHT, check_every=32, precision="tf32"
)
PUBLISHED = 1.3
GUESS = 0.55
"""N log N / d^2 of the first guess, from trials on other seeds."""

D_SQUARED = f"{D_MODEL} * {D_MODEL}"
CONSTANT = f"{D_SQUARED} / lower / log_lower"
"""d^2 / (N log N)."""
COUNTED: Where = ((D_MODEL, WIDTHS["full"]),)


def searches(size: Size) -> list[CapacitySearch]:
    """One for each width and seed."""
    settings = [(d_model, seed) for d_model in WIDTHS[size] for seed in SEEDS[size]]
    settings += [(LARGEST, seed) for seed in SEEDS[size]] if size == "full" else []
    return [
        memory_search(MemoryShape(d_model), seed, TRAINING, on_a_rung(n_with(GUESS * d_model**2)))
        for d_model, seed in settings
    ]


CHARTS = (
    Chart(
        "capacity",
        "Facts of a linear memory, 99 % recalled",
        "lines",
        x=D_SQUARED,
        y=FACTS,
        log_x=True,
        log_y=True,
        x_title="parameters d²",
        data="searches",
    ),
)

SUMMARIES = (
    Summary(
        "capacity-by-width",
        "N log N of a linear memory, measured and on the published line",
        (
            ("N log N", Quantity("mean", N_LOG_N)),
            ("published line", Quantity("mean", f"{D_SQUARED} / {PUBLISHED}")),
        ),
        over=(D_MODEL,),
        data="searches",
        y_title="N log N",
        log_x=True,
        log_y=True,
    ),
    interval_summary("The interval of the capacity, and facts and bits per parameter", over=(D_MODEL,)),
    Summary(
        "constant",
        "d² / (N log N); published 1.3 for all widths",
        (("d² / (N log N)", Quantity("mean", CONSTANT)),),
        over=(D_MODEL,),
        data="searches",
        log_x=True,
    ),
)

FITS = (
    Fit(
        "proportional",
        "N log N as a multiple of d²",
        "capacity-by-width",
        (D_SQUARED,),
        quantity="N log N",
        intervals=True,
    ),
    Fit("line", "The same with a constant", "capacity-by-width", ("1", D_SQUARED), quantity="N log N", intervals=True),
)

LAW = Law(N_LOG_N, D_SQUARED, CONSTANT, PUBLISHED, "Figure 1 (left), dashed line in the authors' script", COUNTED)

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with the number of parameters d².",
        note="Facts per parameter, by least squares over all widths but 256. A direction: the next claims ask for the "
        "constant, and for the logarithm that the theorems have.",
    ),
    LAW.constant_is(
        "N log N = d² / 1.3",
        "The largest N has N log N = d² / 1.3.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="d² / (N log N), averaged over widths 8 to 181. The tolerance is ours: what can be read from a line on "
        "logarithmic axes.",
    ),
    LAW.slope_is(
        "slope of N log N",
        "N log N rises by 1 / 1.3 for every parameter.",
        Quantity("slope", N_LOG_N, D_SQUARED, where=COUNTED),
        note="Least squares over widths 8 to 181, where the largest count most. The tolerance of a tenth is ours.",
    ),
    LAW.slope_is(
        "slope of N log N, d = 256 too",
        "The same with the authors' largest width.",
        Quantity("slope", N_LOG_N, D_SQUARED),
        note="d = 256 was no part of the claim when it was chosen. In the full size only.",
        ours=True,
    ),
    LAW.constant_is(
        "N log N = d² / 1.3, larger widths",
        "The same for widths 64 to 181 alone.",
        Quantity("mean", CONSTANT, where=((D_MODEL, LARGER),)),
        note="The law is one of large d. In the full size only.",
        ours=True,
    ),
    Claim(
        "the constant changes with d",
        "By how much d² / (N log N) changes from d = 8 to d = 181.",
        Quantity("mean", CONSTANT, where=((D_MODEL, 181),), minus=Quantity("mean", CONSTANT, where=((D_MODEL, 8),))),
        None,
        place=f"beside {LAW.line}",
        note="A line with one constant says 0. In the full size only.",
        extension=True,
        data="searches",
    ),
    Claim(
        "bits per parameter",
        "Bits that a parameter holds at capacity.",
        Quantity("mean", "bits_per_parameter", where=COUNTED),
        None,
        place="beside Figure 1 (left)",
        note="recall × N log2 N / d², averaged over widths 8 to 181; embeddings, which are random, are not counted.",
        extension=True,
        data="searches",
    ),
)

LINEAR_MEMORY = Study(
    name="linear-memory",
    title="The capacity of linear associative memories",
    source=source("Figure 1 (left)"),
    question="How many facts does a linear memory of d × d weights hold, 99 % of them recalled, and is "
    "N log N = d² / 1.3?",
    method="N inputs and N outputs have random embeddings on the unit sphere. The matrix between them is trained by "
    "Adam with the authors' learning rate 1000 on all facts at once, for at most 4,096 steps. For each width and seed "
    "the largest N of which at least 99 % are recalled at the end is searched: it lies between a size that was trained "
    "and held and one, at most 6 % larger, that was trained and did not.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=LINEAR_TITLES,
)
