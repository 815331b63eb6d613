"""The capacity of MLP associative memories: how many facts do m hidden units hold?

F(z) = V^T relu(W z) between random embeddings that stay as they are, with m hidden units and 2 m d trained weights.
Figure 1 (right) has the largest N of which 99 % are recalled, for m / d = 1, 2, 4, 8 and different d, beside a dashed
line N log N = m d / 0.35. m d is half of the weights.

As in the authors' script: N outputs; cross-entropy over all facts in every step; Adam with learning rate 0.03, at most
32,768 steps, recall looked at every 256 steps, and the end when 99 % are right. Weights start normal with variance
1 / fan-in.

What is different: the hidden units have no bias (theirs have one, m more numbers), as in the paper's definition; 12
seeds, not 5; a capacity is known to 6 %, not 1 %, both ends of the interval were run, and N is its lower end. Of the
authors' grid, d = 2^3, 2^3.5, ..., 2^6.5 for each m / d, we have d = 8, 16, 32 with m d up to 2,048, and with 3 seeds,
in no claim about numbers, d = 32 with m / d = 4 and d = 64 with m / d = 1 (m d = 4,096); the authors reach 65,000.

0.35 belongs to a line that was drawn beside points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.statistics import Claim, Quantity, Where
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
    RATIO,
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
"""N log N / (m d) of the first guess, from trials on other seeds."""

CONSTANT = f"{WIDTH} * {D_MODEL} / lower / log_lower"
"""m d / (N log N)."""
PRODUCTS = tuple(sorted({d * m for d, m in SHAPES["full"]}))
COUNTED: Where = ((PRODUCT, PRODUCTS),)
"""The shapes that have all seeds."""
EQUAL: Where = ((PRODUCT, (256, 512, 1024, 2048)),)
"""Products m d that come from two shapes, one with four times the m / d of the other."""
NARROW: Where = (*EQUAL, (RATIO, (1, 2)))
WIDE: Where = (*EQUAL, (RATIO, (4, 8)))


def searches(size: Size) -> list[CapacitySearch]:
    """One for each shape and seed."""
    settings = [(shape, seed) for shape in SHAPES[size] for seed in SEEDS[size]]
    settings += [(shape, seed) for shape in LARGEST for seed in FEW_SEEDS] if size == "full" else []
    return [
        memory_search(MemoryShape(d, width=m), seed, MLP_TRAINING[size], on_a_rung(n_with(GUESS * d * m)))
        for (d, m), seed in settings
    ]


LAW = Law(N_LOG_N, PRODUCT, CONSTANT, PUBLISHED, "Figure 1 (right), dashed line in the authors' script", COUNTED)
CHARTS = (mlp_chart("Facts of an MLP memory, 99 % recalled"),)
SUMMARIES = mlp_summaries(LAW, "N log N", "an MLP memory", "N log N")
FITS = mlp_fits("N log N")

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with m d, half of the parameters.",
        note="Facts for each m d, by least squares over all shapes with m d up to 2,048. A direction: the next claims "
        "ask for the constant.",
    ),
    LAW.constant_is(
        "N log N = m d / 0.35",
        "The largest N has N log N = m d / 0.35.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="m d / (N log N), averaged over the shapes with m d up to 2,048; the authors reach 65,000. The tolerance "
        "is ours: what can be read from a line on logarithmic axes.",
    ),
    LAW.slope_is(
        "slope of N log N",
        "N log N rises by 1 / 0.35 for every m d.",
        Quantity("slope", N_LOG_N, PRODUCT, where=COUNTED),
        note="Least squares over the same shapes, where the largest count most. The tolerance of a tenth is ours.",
    ),
    Claim(
        "only m d counts",
        "At equal m d a wide MLP between narrow embeddings holds as many facts as a narrow one between wide ones.",
        Quantity("mean", CONSTANT, where=WIDE, minus=Quantity("mean", CONSTANT, where=NARROW)),
        "flat",
        tolerance=PUBLISHED / 10,
        place="Figure 1 (right): one line for all m / d",
        note="m d / (N log N) of m / d = 4 and 8 less that of 1 and 2, at m d = 256 to 2,048. The tolerance, a tenth "
        "of the published constant, is ours. In the full size only.",
        data="searches",
    ),
    Claim(
        "bits per parameter",
        "Bits that a parameter holds at capacity.",
        Quantity("mean", "bits_per_parameter", where=COUNTED),
        None,
        place="beside Figure 1 (right)",
        note="recall × N log2 N / (2 m d), averaged over the same shapes; embeddings, which are random, are not "
        "counted.",
        extension=True,
        data="searches",
    ),
)

MLP_MEMORY = Study(
    name="mlp-memory",
    title="The capacity of MLP associative memories",
    source=source("Figure 1 (right)"),
    question="How many facts does an MLP memory with m hidden units hold between embeddings in d dimensions, 99 % of "
    "them recalled, and is N log N = m d / 0.35?",
    method="N inputs and N outputs have random embeddings on the unit sphere. Two layers of weights with a relu "
    "between them are trained by Adam with the authors' learning rate 0.03 on all facts at once, for at most 32,768 "
    "steps. For each shape and seed the largest N of which at least 99 % are recalled at the end is searched: it lies "
    "between a size that was trained and held and one, at most 6 % larger, that was trained and did not.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=MLP_TITLES,
)
