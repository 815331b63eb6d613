"""Rank inflation: the highest rank of a table that a low-rank layer memorises under argmax.

Under argmax a layer of rank 2 can answer any function of one argument, so rank(D) <= rank(L) need not hold; the paper
mentions a rank-10 layer that memorised a rank-80 database. Here the rank of the table is certified from below and that
of the layer from above, so every pair found is proved.

Our choices, where the paper leaves them open: 100 keys and 2 queries, 200 facts (the most that the paper mentions).
With few queries rank(L) <= 2 d_vo + min(2, d_model - d_vo) stays small while flattenings certify ranks up to the number
of values. Tables are cut into R boxes (rank exactly R) or random with 100 values (certified rank about 100 or more).
Layers have one head, d_qk = 4 and d_vo 1 to 9, and are narrow (d_model = d_vo + 2) or wide (d_model = 16); both have
rank(L) <= 2 d_vo + 2 = 4 .. 20. Three narrower layers have bounds 2, 3 and 4. The full size adds 200 keys and ranks up
to 400.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape, Ranks
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_MODEL,
    D_VO,
    GENERATOR,
    LAYER_RANK,
    N_KEYS,
    RANK,
    SEEDS,
    TAU,
    TITLES,
    boxes,
    crossed,
    single_head,
    source,
    uniform_table,
)

KEYS, MORE_KEYS, QUERIES, VALUES = 100, 200, 2, 100
RANKS: dict[Size, tuple[int, ...]] = {"quick": (10, 40, 80, 200), "full": (5, 10, 20, 40, 80, 120, 160, 200)}
MORE_RANKS = (200, 300, 400)
D_VOS: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 4, 6), "full": tuple(range(1, 10))}
LEAST = ((1, 1), (2, 1), (2, 2))
"""d_model and d_vo of layers of rank at most 2, 3 and 4."""
WIDE = 16
MEASURES = (Ranks(),)


def trials(size: Size) -> list[Trial]:
    """Returns one trial per layer, table and seed; 200 keys in the full size only."""
    narrow = [single_head(d_vo + 2, d_vo, 4) for d_vo in D_VOS[size]]
    wide = [single_head(WIDE, d_vo, 4) for d_vo in D_VOS[size]]
    least = [single_head(d_model, d_vo, 4) for d_model, d_vo in LEAST]
    shapes: list[LayerShape] = [*least, *narrow, *wide]
    listed = []
    for seed in SEEDS[size]:
        tables = [boxes(KEYS, QUERIES, rank, seed) for rank in RANKS[size]]
        tables.append(uniform_table(KEYS, QUERIES, VALUES, KEYS * QUERIES, seed))
        tables += [boxes(MORE_KEYS, QUERIES, rank, seed) for rank in MORE_RANKS] if size == "full" else []
        listed += crossed(tables, shapes, seed, MEASURES)
    return listed


PUBLISHED_LAYER, PUBLISHED_TABLE = 10, 80
RANK_TEN: Where = ((D_VO, 4), (D_MODEL, (6, WIDE)), (N_KEYS, KEYS))
"""Layers of rank at most 10."""
PAPER_SIZE: Where = ((N_KEYS, KEYS),)
BOXES: Where = ((GENERATOR, "overlapping-boxes"),)
MEMORISED, MEMORISED_RANK, VIOLATES = "memorised", "memorised_rank", "violates"
CONFIDENT_RANK = f"memorised_{TAU} * rank_lower"
GAP = f"{ARGMAX} - {CONFIDENT}"
RANK_TITLE = "highest rank of a memorised table"

CHARTS = (
    Chart(
        "memorised-by-ranks",
        "Fraction of layers that recall every fact; above the diagonal the table has the higher rank",
        "heatmap",
        x=LAYER_RANK,
        y=RANK,
        colour=MEMORISED,
        facet=N_KEYS,
        where=BOXES,
        y_title="rank of the table",
        references=(ReferenceLine("rank(D) = rank(L)", "x"),),
    ),
    Chart(
        "recall-by-layer-rank",
        "Recall by rank of the table (200 facts)",
        "lines",
        x=LAYER_RANK,
        y=ARGMAX,
        colour=RANK,
        where=(*PAPER_SIZE, *BOXES),
    ),
    Chart(
        "what-confidence-costs",
        f"Recall by argmax minus recall at confidence {TAU} (200 facts)",
        "lines",
        x=LAYER_RANK,
        y=GAP,
        colour=RANK,
        where=(*PAPER_SIZE, *BOXES),
        y_title=f"argmax minus confidence {TAU}",
    ),
)

BOUNDS: Where = ((LAYER_RANK, (2, 3, 4, *range(6, 21, 2))),)
"""Bounds of the shapes. Tables of 5 and 10 values lower two of them to 9 and 19, which occur in no other table."""

SUMMARIES = (
    Summary(
        "greatest-rank",
        "Highest certified rank of a table memorised at each rank bound, mean over seeds",
        (
            ("argmax", Quantity("greatest", MEMORISED_RANK, where=BOUNDS)),
            (f"softmax>={TAU}", Quantity("greatest", CONFIDENT_RANK, where=BOUNDS)),
        ),
        over=(LAYER_RANK, N_KEYS),
        y_title=RANK_TITLE,
    ),
    Summary(
        "inflation",
        "The same divided by the rank bound of the layer",
        (("argmax", Quantity("greatest", f"{MEMORISED_RANK} / {LAYER_RANK}", where=BOUNDS)),),
        over=(LAYER_RANK, N_KEYS),
        y_title="rank memorised / rank bound of the layer",
    ),
)


def _signature() -> Quantity:
    """Returns the mean gap of memorising layers that violate rank(D) <= rank(L), minus that of those that obey it."""

    def share(weight: str) -> str:
        return f"{weight} * {ARGMAX} - {weight} * {CONFIDENT}"

    obeying = share(MEMORISED) + f" - {VIOLATES} * {ARGMAX} + {VIOLATES} * {CONFIDENT}"
    return Quantity(
        "fraction",
        share(VIOLATES),
        VIOLATES,
        where=PAPER_SIZE,
        minus=Quantity("fraction", obeying, f"{MEMORISED} - {VIOLATES}", where=PAPER_SIZE),
    )


CLAIMS = (
    Claim(
        "rank 10 holds rank 80",
        "Under argmax, layers of rank at most 10 memorise tables of rank 80 or more (rank less 79).",
        Quantity("greatest", f"{MEMORISED_RANK} - {PUBLISHED_TABLE - 1}", where=RANK_TEN),
        "greater",
        place="Proposition 3.6, quoted from a summary",
        quote="rank-10 layers memorizing rank-80 databases",
        note="Highest certified rank memorised in each seed, minus 79, averaged over seeds. d_vo 4, d_model 6 or 16.",
    ),
    Claim(
        "rank raised without limit",
        "Greatest rank memorised as a multiple of the layer's bound (argmax, 200 facts).",
        Quantity("greatest", f"{MEMORISED_RANK} / {LAYER_RANK}", where=PAPER_SIZE),
        None,
        place="key results of a summary",
        quote="Argmax and softmax operations can arbitrarily inflate tensor rank",
        note="The paper's example is a factor of 8; no maximum is published. Ours is limited by the 200 facts.",
    ),
    Claim(
        "argmax right, confidence low",
        "Among memorising layers, those with rank(D) > rank(L) lose more recall from argmax to confidence "
        f"{TAU} than those that obey it.",
        _signature(),
        "greater",
        place="failure signatures of a summary",
        quote="High argmax accuracy but low softmax≥τ accuracy: Softmax rank distortion; model exploiting threshold "
        "gaps",
        note="Difference of mean gaps over all layers with perfect recall by argmax on 200 facts.",
    ),
    Claim(
        "confidence keeps it",
        f"The same with softmax>={TAU} in place of argmax (rank less 79).",
        Quantity("greatest", f"{CONFIDENT_RANK} - {PUBLISHED_TABLE - 1}", where=RANK_TEN),
        "greater",
        place="cf. Proposition 3.7",
        note="As in the first claim. The thresholded readout of a full table is the table itself, so its rank is "
        "rank(D).",
        extension=True,
    ),
    Claim(
        "wide against narrow",
        "Recall of wide layers (d_model 16) less that of narrow ones (d_model = d_vo + 2), at equal bounds.",
        mean_difference(ARGMAX, (*PAPER_SIZE, (D_MODEL, WIDE)), (*PAPER_SIZE, (f"{D_MODEL} - {D_VO}", 2)), (D_VO,)),
        None,
        place="cf. mechanism 3 of a summary",
        quote="decoupling parameter count from memorization capacity",
        note="Difference of mean recall at each d_vo, averaged; nothing is published on this.",
        extension=True,
    ),
)

RANK_INFLATION = Study(
    name="rank-inflation",
    title="Rank inflation: tables of high rank in layers of low rank",
    source=source("Propositions 3.6 and 3.7"),
    question="What is the highest certified rank of a table that a layer with a given rank bound memorises under "
    "argmax?",
    method="We train single-head layers whose tensors have rank at most 2 to 20 on full tables with 100 keys and 2 "
    "queries (in the full size also 200 keys): tables cut into boxes, whose rank is the number of boxes, and random "
    "ones. A table is memorised if every fact is answered correctly; its rank is the certified lower bound, that of "
    "the layer the upper bound from its shape. We report the highest rank per seed.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
