"""The capacity of MLP associative memories: how many facts do m hidden units store?

F(z) = V^T relu(W z) between fixed random embeddings, with m hidden units and 2 m d trained weights. Figure 1 (right)
shows the largest N with 99 % recall for m / d = 1, 2, 4, 8 and different d, next to a dashed line N log N = m d / 0.35;
m d is half the number of weights.

As in the authors' script: N outputs; full-batch cross-entropy; Adam with learning rate 0.03 for at most 32,768 steps,
checking recall every 256 steps and stopping at 99 %. Weights are initialised from a normal distribution with variance 1
/ fan-in.

Differences: the hidden units have no bias, as in the paper's definition (the script has one, m more numbers); 12 seeds
instead of 5; capacities are known to 6 % instead of 1 %, both ends of the interval were run, and N is the lower end. Of
the authors' grid, d = 2^3, 2^3.5, ..., 2^6.5 for each m / d, we have d = 8, 16, 32 with m d up to 2,048. With 3 seeds,
and excluded from claims about numbers, we also have d = 32 with m / d = 4 and d = 64 with m / d = 1 (m d = 4,096); the
authors reach 65,000.

0.35 belongs to a line drawn next to points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.statistics import Quantity, Where
from factrank.experiments.study import Size, Study, no_trials
from factrank.families.memory import MemoryShape
from factrank.studies.nichani.memories.memory_parts import Law, mlp_chart, mlp_fits, mlp_summaries
from factrank.studies.nichani.settings import (
    D_MODEL,
    FEW_SEEDS,
    MLP_TITLES,
    MLP_TRAINING,
    N_LOG_N,
    PRODUCT,
    SEEDS,
    WIDTH,
    memory_search,
    n_with,
    on_a_rung,
    source,
)

SHAPES: dict[Size, tuple[tuple[int, int], ...]] = {
    "quick": ((8, 8), (8, 16)),
    "full": ((8, 8), (8, 16), (8, 32), (8, 64), (16, 16), (16, 32), (16, 64), (16, 128), (32, 32), (32, 64)),
}
"""d and m."""
LARGEST = ((32, 128), (64, 64))
"""Shapes of the full size with few seeds."""

PUBLISHED = 0.35
GUESS = 2.0
"""N log N / (m d) of the initial guess, from pilot trials on other seeds."""

CONSTANT = f"{WIDTH} * {D_MODEL} / lower / log_lower"
"""m d / (N log N)."""
COUNTED: Where = ((PRODUCT, tuple(sorted({d * m for d, m in SHAPES["full"]}))),)
"""The shapes with all seeds."""
EQUAL = (256, 512, 1024, 2048)
"""Products m d of two shapes each, one with four times the m / d of the other."""


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per shape and seed."""
    settings = [(shape, seed) for shape in SHAPES[size] for seed in SEEDS[size]]
    settings += [(shape, seed) for shape in LARGEST for seed in FEW_SEEDS] if size == "full" else []
    return [
        memory_search(MemoryShape(d, width=m), seed, MLP_TRAINING[size], on_a_rung(n_with(GUESS * d * m)))
        for (d, m), seed in settings
    ]


LAW = Law(N_LOG_N, PRODUCT, CONSTANT, PUBLISHED, "Figure 1 (right), dashed line in the authors' script", COUNTED)
CHARTS = (mlp_chart("Facts stored by an MLP memory at 99 % recall"),)
SUMMARIES = mlp_summaries(LAW, "N log N", "an MLP memory", "N log N")
FITS = mlp_fits("N log N")

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with m d, half of the parameters.",
        note="Facts per m d, by least squares over all shapes with m d up to 2,048. A direction; the next claims test "
        "the constant.",
    ),
    LAW.constant_is(
        "N log N = m d / 0.35",
        "The largest N has N log N = m d / 0.35.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="m d / (N log N), averaged over the shapes with m d up to 2,048; the authors reach 65,000. The tolerance "
        "is ours: the accuracy with which a line on logarithmic axes can be read.",
    ),
    LAW.slope_is(
        "slope of N log N",
        "N log N rises by 1 / 0.35 for every m d.",
        Quantity("slope", N_LOG_N, PRODUCT, where=COUNTED),
        note="Least squares over the same shapes, in which the largest weigh most. The tolerance of a tenth is ours.",
    ),
    LAW.only_product_counts(
        EQUAL,
        "Figure 1 (right): one line for all m / d",
        note="m d / (N log N) at m / d = 4 and 8 minus that at 1 and 2, for m d = 256 to 2,048.",
    ),
    LAW.bits_per_parameter(
        "cf. Figure 1 (right)",
        note="recall × N log2 N / (2 m d), averaged over the same shapes; the random embeddings are not counted.",
    ),
)

MLP_MEMORY = Study(
    name="mlp-memory",
    title="The capacity of MLP associative memories",
    source=source("Figure 1 (right)"),
    question="How many facts does an MLP memory with m hidden units store between embeddings in d dimensions at 99 % "
    "recall, and is N log N = m d / 0.35?",
    method="N inputs and N outputs have random embeddings on the unit sphere. Two weight matrices with a relu between "
    "them are trained by full-batch Adam with the authors' learning rate of 0.03 for at most 32,768 steps. For each "
    "shape and seed we search for the largest N with a final recall of at least 99 %: it lies between a size that was "
    "trained and stored and one, at most 6 % larger, that was trained and not stored.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=MLP_TITLES,
)
