"""The capacity of linear associative memories: how many facts does one trained d x d matrix store?

N inputs and N outputs have fixed random embeddings on the unit sphere of R^d; W is trained so that output f(x) has the
largest of the scores <u_y, W e_x>. Figure 1 (left) shows the largest N with 99 % recall for different d, next to a
dashed line N log N = d^2 / 1.3.

As in the authors' script: d = 2^3, 2^3.5, ...; full-batch cross-entropy; Adam with learning rate 1000 (recall is
invariant to the scale of W) for at most 4,096 steps, checking recall every 32 steps and stopping at 99 %. W is
initialised from a normal distribution with variance 1 / d.

Differences: f is a random permutation instead of the identity, which changes nothing; 12 seeds instead of 5; capacities
are known to 6 % instead of 1 %, both ends of the interval were run, and N is the lower end, hence 3 % too small on
average. d = 256, the authors' largest width, had 3 seeds when the claims were chosen and is not part of them.

1.3 belongs to a line drawn next to points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.specs import Training
from factrank.experiments.statistics import Fit, Quantity, ReferenceLine, Where
from factrank.experiments.study import Size, Study, no_trials
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
from factrank.studies.parts import mean_difference, searches_chart, searches_claim, searches_summary

WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8, 16), "full": (8, 11, 16, 22, 32, 45, 64, 90, 128, 181)}
LARGEST = 256
"""A width of the full size that the claims exclude."""
LARGER = (64, 90, 128, 181)

TRAINING = Training(
    epochs=4096, learning_rate=1000.0, stop="recall", stop_at=MOST_RIGHT, check_every=32, precision="tf32"
)
PUBLISHED = 1.3
GUESS = 0.55
"""N log N / d^2 of the initial guess, from pilot trials on other seeds."""

D_SQUARED = f"{D_MODEL} * {D_MODEL}"
CONSTANT = f"{D_SQUARED} / lower / log_lower"
"""d^2 / (N log N)."""
COUNTED: Where = ((D_MODEL, WIDTHS["full"]),)


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per width and seed."""
    settings = [(d_model, seed) for d_model in WIDTHS[size] for seed in SEEDS[size]]
    settings += [(LARGEST, seed) for seed in SEEDS[size]] if size == "full" else []
    return [
        memory_search(MemoryShape(d_model), seed, TRAINING, on_a_rung(n_with(GUESS * d_model**2)))
        for d_model, seed in settings
    ]


CHARTS = (
    searches_chart(
        "capacity",
        "Facts stored by a linear memory at 99 % recall",
        "lines",
        x=D_SQUARED,
        y=FACTS,
        log_x=True,
        log_y=True,
        x_title="parameters d²",
    ),
)

SUMMARIES = (
    searches_summary(
        "capacity-by-width",
        "N log N of a linear memory, measured and on the published line",
        (("N log N", Quantity("mean", N_LOG_N)),),
        over=(D_MODEL,),
        y_title="N log N",
        log_x=True,
        log_y=True,
        references=(ReferenceLine(f"published: d² / {PUBLISHED}", f"x * x / {PUBLISHED}"),),
    ),
    interval_summary("Capacity interval, and facts and bits per parameter", over=(D_MODEL,)),
    searches_summary(
        "constant",
        "d² / (N log N); published: 1.3 for all widths",
        (("d² / (N log N)", Quantity("mean", CONSTANT)),),
        over=(D_MODEL,),
        log_x=True,
        references=(ReferenceLine(f"published: {PUBLISHED}", str(PUBLISHED)),),
    ),
)

FITS = (
    Fit(
        "proportional",
        "N log N as a multiple of d²",
        "capacity-by-width",
        (D_SQUARED,),
        intervals=True,
    ),
    Fit("line", "The same with an intercept", "capacity-by-width", ("1", D_SQUARED), intervals=True),
)

LAW = Law(N_LOG_N, D_SQUARED, CONSTANT, PUBLISHED, "Figure 1 (left), dashed line in the authors' script", COUNTED)

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with the number of parameters d².",
        note="Facts per parameter, by least squares over all widths except 256. A direction; the next claims test the "
        "constant and the logarithm of the theorems.",
    ),
    LAW.constant_is(
        "N log N = d² / 1.3",
        "The largest N has N log N = d² / 1.3.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="d² / (N log N), averaged over widths 8 to 181. The tolerance is ours: the accuracy with which a line on "
        "logarithmic axes can be read.",
    ),
    LAW.slope_is(
        "slope of N log N",
        "N log N rises by 1 / 1.3 for every parameter.",
        Quantity("slope", N_LOG_N, D_SQUARED, where=COUNTED),
        note="Least squares over widths 8 to 181, in which the largest widths weigh most. The tolerance of a tenth is "
        "ours.",
    ),
    LAW.slope_is(
        "slope of N log N, d = 256 too",
        "The same with the authors' largest width.",
        Quantity("slope", N_LOG_N, D_SQUARED),
        note="d = 256 was not part of the claim when it was chosen. Full size only.",
        ours=True,
    ),
    LAW.constant_is(
        "N log N = d² / 1.3, larger widths",
        "The same for widths 64 to 181 alone.",
        Quantity("mean", CONSTANT, where=((D_MODEL, LARGER),)),
        note="The law holds for large d. Full size only.",
        ours=True,
    ),
    searches_claim(
        "the constant changes with d",
        "By how much d² / (N log N) changes from d = 8 to d = 181.",
        mean_difference(CONSTANT, ((D_MODEL, 181),), ((D_MODEL, 8),)),
        None,
        place=f"cf. {LAW.line}",
        note="0 if a single constant fits all widths. Full size only.",
        extension=True,
    ),
    LAW.bits_per_parameter(
        "cf. Figure 1 (left)",
        note="recall × N log2 N / d², averaged over widths 8 to 181; the random embeddings are not counted.",
    ),
)

LINEAR_MEMORY = Study(
    name="linear-memory",
    title="The capacity of linear associative memories",
    source=source("Figure 1 (left)"),
    question="How many facts does a linear memory of d × d weights store at 99 % recall, and is N log N = d² / 1.3?",
    method="N inputs and N outputs have random embeddings on the unit sphere. The matrix between them is trained by "
    "full-batch Adam with the authors' learning rate of 1000 for at most 4,096 steps. For each width and seed we "
    "search for the largest N with a final recall of at least 99 %: it lies between a size that was trained and "
    "stored and one, at most 6 % larger, that was trained and not stored.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=LINEAR_TITLES,
)
