"""MLP associative memories with 32 outputs: is the logarithm that of the outputs?

With N outputs the largest N has N log N in proportion to m d (Figure 1, right). With M = 32 outputs, whatever N is, a
fact has log2 32 = 5 bits, and N itself should be in proportion to m d: Figure 6 has a dashed line N = m d / 1.2.

As in the authors' script: m / d = 1, 2, 4, 8, training as in `mlp_memory`, at most 32,768 steps.

What is different: every input has an independent random output (theirs are equally many for each output); no bias; 12
seeds, not 5; a capacity is known to 6 %, both ends of the interval were run, and N is its lower end. Of the authors'
grid, d = 2^3, 2^3.5, ..., 2^6.5, we have d = 8, 16, 32 with m d up to 2,048, and two shapes of m d = 4,096, which
have no part in the claims on published numbers.

The searches of m d = 2,048 were finished after the first publication, which knew these capacities to 20 % and left them
out. The claims read them since; the slope without them is reported next to it, because it decided a verdict.

1.2 belongs to a line that was drawn beside points on logarithmic axes, not to a fit; the tolerance of a tenth is ours.
"""

from __future__ import annotations

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.statistics import Claim, Quantity, Where
from factrank.experiments.study import Size, Study, no_trials
from factrank.families.memory import MemoryShape
from factrank.studies.nichani.memories.memory_parts import Law, mlp_chart, mlp_fits, mlp_summaries
from factrank.studies.nichani.settings import (
    D_MODEL,
    FACTS,
    MLP_TITLES,
    MLP_TRAINING,
    PRODUCT,
    RATIO,
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
"""Shapes of the full size that the claims on published numbers leave out."""
LATER = 2048
"""The m d that the first publication left out."""

PUBLISHED = 1.2
GUESS = 0.7
"""N / (m d) of the first guess, from trials on other seeds."""

CONSTANT = f"{WIDTH} * {D_MODEL} / lower"
"""m d / N."""
COUNTED: Where = ((PRODUCT, tuple(sorted({d * m for d, m in SHAPES["full"]}))),)
"""The shapes that the claims on published numbers read: m d up to 2,048."""
EARLIER: Where = ((PRODUCT, tuple(sorted({d * m for d, m in SHAPES["full"]} - {LATER}))),)
EQUAL: Where = ((PRODUCT, (256, 1024)),)
"""Products m d that come from two shapes, one with four times the m / d of the other."""
NARROW: Where = (*EQUAL, (RATIO, (1, 2)))
WIDE: Where = (*EQUAL, (RATIO, (4, 8)))


def searches(size: Size) -> list[CapacitySearch]:
    """One for each shape and seed."""
    shapes = SHAPES[size] + (LARGEST if size == "full" else ())
    return [
        memory_search(MemoryShape(d, width=m), seed, MLP_TRAINING[size], on_a_rung(GUESS * d * m), n_outputs=N_OUTPUTS)
        for d, m in shapes
        for seed in SEEDS[size]
    ]


LAW = Law(FACTS, PRODUCT, CONSTANT, PUBLISHED, "Figure 6, dashed line in the authors' script", COUNTED)
CHARTS = (mlp_chart("Facts of an MLP memory with 32 outputs, 99 % recalled"),)
SUMMARIES = mlp_summaries(LAW, "N", "an MLP memory with 32 outputs", "facts N", shown=COUNTED)
FITS = mlp_fits("N")

CLAIMS = (
    LAW.facts_rise(
        "The number of facts rises with m d, half of the parameters.",
        note="Facts for each m d, by least squares over the shapes with m d up to 2,048. A direction: the next claims "
        "ask for the constant.",
    ),
    LAW.constant_is(
        "N = m d / 1.2",
        "The largest N is m d / 1.2.",
        Quantity("mean", CONSTANT, where=COUNTED),
        note="m d / N, averaged over the shapes with m d up to 2,048; the paper reaches 65,000. The tolerance is ours: "
        "what can be read from a line on logarithmic axes.",
    ),
    LAW.slope_is(
        "slope of N",
        "N rises by 1 / 1.2 for every m d.",
        Quantity("slope", FACTS, PRODUCT, where=COUNTED),
        note="Least squares over the same shapes, where the largest count most. The tolerance of a tenth is ours.",
    ),
    LAW.slope_is(
        "slope of N, m d up to 1,024",
        "The same without the two shapes of m d = 2,048.",
        Quantity("slope", FACTS, PRODUCT, where=EARLIER),
        note="The claim as it was first published, when m d = 2,048 was known to 20 % only. In the full size only.",
        ours=True,
    ),
    LAW.slope_is(
        "slope of N, m d up to 4,096",
        "The same with two shapes of m d = 4,096 too.",
        Quantity("slope", FACTS, PRODUCT),
        note="These were no part of the claim when it was chosen. In the full size only.",
        ours=True,
    ),
    Claim(
        "only m d counts",
        "At equal m d a wide MLP between narrow embeddings holds as many facts as a narrow one between wide ones.",
        Quantity("mean", CONSTANT, where=WIDE, minus=Quantity("mean", CONSTANT, where=NARROW)),
        "flat",
        tolerance=PUBLISHED / 10,
        place="Figure 6: one line for all m / d",
        note="m d / N of m / d = 4 and 8 less that of 1 and 2, at m d = 256 and 1,024. The tolerance, a tenth of "
        "the published constant, is ours. In the full size only.",
        data="searches",
    ),
    Claim(
        "bits per parameter",
        "Bits that a parameter holds at capacity.",
        Quantity("mean", "bits_per_parameter", where=COUNTED),
        None,
        place="beside Figure 6",
        note="recall × 5 N / (2 m d), averaged over the same shapes: beside that of memories with N outputs.",
        extension=True,
        data="searches",
    ),
)

MLP_MEMORY_FEW_OUTPUTS = Study(
    name="mlp-memory-few-outputs",
    title="MLP associative memories with 32 outputs",
    source=source("Figure 6"),
    question="With 32 outputs, however many inputs there are, how many facts does an MLP memory with m hidden units "
    "hold, 99 % of them recalled, and is N = m d / 1.2?",
    method="N inputs and 32 outputs have random embeddings on the unit sphere, and every input a random output. Two "
    "layers of weights with a relu between them are trained as in the study with N outputs, and the largest N is "
    "searched in the same way.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=MLP_TITLES,
)
