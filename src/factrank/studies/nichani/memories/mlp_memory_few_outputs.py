"""MLP associative memories with 32 outputs: is the logarithm that of the number of outputs?

With N outputs, N log N at capacity is proportional to m d (Figure 1, right). With M = 32 outputs for any N, a fact
carries log2 32 = 5 bits, and N itself should be proportional to m d: Figure 6 shows a dashed line N = m d / 1.2.

As in the authors' script: m / d = 1, 2, 4, 8, training as in `mlp_memory`, at most 32,768 steps.

Differences: every input has an independent random output (in the script each output has equally many inputs); no bias;
12 seeds instead of 5; capacities are known to 6 %, both ends of the interval were run, and N is the lower end. Of the
authors' grid, d = 2^3, 2^3.5, ..., 2^6.5, we have d = 8, 16, 32 with m d up to 2,048, and two shapes with m d = 4,096,
which the claims on published numbers exclude.

The searches at m d = 2,048 were completed after the first publication, which knew these capacities to 20 % and excluded
them. The claims now include them; the slope without them is reported alongside because it decided a verdict.

1.2 belongs to a line drawn next to points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.statistics import Quantity, Where
from factrank.experiments.study import Size, Study, no_trials
from factrank.families.memory import MemoryShape
from factrank.studies.nichani.memories.memory_parts import Law, mlp_chart, mlp_fits, mlp_summaries
from factrank.studies.nichani.settings import (
    D_MODEL,
    FACTS,
    MLP_TITLES,
    MLP_TRAINING,
    PRODUCT,
    SEEDS,
    WIDTH,
    memory_search,
    on_a_rung,
    source,
)

N_OUTPUTS = 32
SHAPES: dict[Size, tuple[tuple[int, int], ...]] = {
    "quick": ((8, 8), (8, 16)),
    "full": ((8, 8), (8, 16), (8, 32), (16, 16), (16, 64), (16, 128), (32, 32), (32, 64)),
}
"""d and m."""
LARGEST = ((32, 128), (64, 64))
"""Shapes of the full size that the claims on published numbers exclude."""
LATER = 2048
"""The m d that the first publication excluded."""

PUBLISHED = 1.2
GUESS = 0.7
"""N / (m d) of the initial guess, from pilot trials on other seeds."""

CONSTANT = f"{WIDTH} * {D_MODEL} / lower"
"""m d / N."""
COUNTED: Where = ((PRODUCT, tuple(sorted({d * m for d, m in SHAPES["full"]}))),)
"""The shapes that the claims on published numbers use: m d up to 2,048."""
EARLIER: Where = ((PRODUCT, tuple(sorted({d * m for d, m in SHAPES["full"]} - {LATER}))),)
EQUAL = (256, 1024)
"""Products m d of two shapes each, one with four times the m / d of the other."""


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per shape and seed."""
    shapes = SHAPES[size] + (LARGEST if size == "full" else ())
    return [
        memory_search(MemoryShape(d, width=m), seed, MLP_TRAINING[size], on_a_rung(GUESS * d * m), n_outputs=N_OUTPUTS)
        for d, m in shapes
        for seed in SEEDS[size]
    ]


LAW = Law(FACTS, PRODUCT, CONSTANT, PUBLISHED, "Figure 6, dashed line in the authors' script", COUNTED)
CHARTS = (mlp_chart("Facts stored by an MLP memory with 32 outputs at 99 % recall"),)
SUMMARIES = mlp_summaries(LAW, "N", "an MLP memory with 32 outputs", "facts N", shown=COUNTED)
FITS = mlp_fits("N")

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with m d, half of the parameters.",
        note="Facts per m d, by least squares over the shapes with m d up to 2,048. A direction; the next claims test "
        "the constant.",
    ),
    LAW.constant_is(
        "N = m d / 1.2",
        "The largest N is m d / 1.2.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="m d / N, averaged over the shapes with m d up to 2,048; the paper reaches 65,000. The tolerance is "
        "ours: the accuracy with which a line on logarithmic axes can be read.",
    ),
    LAW.slope_is(
        "slope of N",
        "N rises by 1 / 1.2 for every m d.",
        Quantity("slope", FACTS, PRODUCT, where=COUNTED),
        note="Least squares over the same shapes, in which the largest weigh most. The tolerance of a tenth is ours.",
    ),
    LAW.slope_is(
        "slope of N, m d up to 1,024",
        "The same without the two shapes of m d = 2,048.",
        Quantity("slope", FACTS, PRODUCT, where=EARLIER),
        note="The claim as first published, when m d = 2,048 was known only to 20 %. Full size only.",
        ours=True,
    ),
    LAW.slope_is(
        "slope of N, m d up to 4,096",
        "The same with two shapes of m d = 4,096 too.",
        Quantity("slope", FACTS, PRODUCT),
        note="These shapes were not part of the claim when it was chosen. Full size only.",
        ours=True,
    ),
    LAW.only_product_counts(
        EQUAL,
        "Figure 6: one line for all m / d",
        note="m d / N at m / d = 4 and 8 minus that at 1 and 2, for m d = 256 and 1,024.",
    ),
    LAW.bits_per_parameter(
        "cf. Figure 6", note="recall × 5 N / (2 m d), averaged over the same shapes; compare memories with N outputs."
    ),
)

MLP_MEMORY_FEW_OUTPUTS = Study(
    name="mlp-memory-few-outputs",
    title="MLP associative memories with 32 outputs",
    source=source("Figure 6"),
    question="With 32 outputs for any number of inputs, how many facts does an MLP memory with m hidden units store "
    "at 99 % recall, and is N = m d / 1.2?",
    method="N inputs and 32 outputs have random embeddings on the unit sphere, and every input a random output. Two "
    "weight matrices with a relu between them are trained, and the largest N is searched for, as in the study with N "
    "outputs.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=MLP_TITLES,
)
