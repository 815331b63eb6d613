"""Rank inflation: the highest rank of a table that a layer of small rank memorises under argmax.

Under argmax a layer of rank 2 can answer any function of one argument, so rank(D) <= rank(L) need not hold; the paper
names a rank-10 layer that memorised a rank-80 database. Here the rank of the table is certified from below and that of
the layer from above, so that each pair found is proved.

What the paper leaves open and we chose: 100 keys and 2 queries, 200 facts (the most that the paper names), because few
queries keep rank(L) <= 2 d_vo + min(2, d_model - d_vo) small while flattenings can certify the rank of the table up to
the number of its values. Tables are cut into R boxes (rank exactly R) or random with 100 values (rank about 100 or
more, by certificate). Layers have one head, d_qk = 4 and d_vo 1 to 9, narrow (d_model = d_vo + 2) or wide (d_model =
16), both with rank(L) <= 2 d_vo + 2 = 4 .. 20; three narrower ones have bounds 2, 3 and 4. In the full size also 200
keys and ranks up to 400.
"""

from __future__ import annotations

from factrank.experiments.specs import Generated, Measures, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape
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
MEASURES = Measures(taus=(TAU,), ranks=True)


def trials(size: Size) -> list[Trial]:
    """Every layer on every table, for each seed; 200 keys in the full size only."""
    narrow = [single_head(d_vo + 2, d_vo, 4) for d_vo in D_VOS[size]]
    wide = [single_head(WIDE, d_vo, 4) for d_vo in D_VOS[size]]
    least = [single_head(d_model, d_vo, 4) for d_model, d_vo in LEAST]
    shapes: list[LayerShape] = [*least, *narrow, *wide]
    listed = []
    for seed in SEEDS[size]:
        tables = [_boxes(KEYS, rank, seed) for rank in RANKS[size]]
        tables.append(uniform_table(KEYS, QUERIES, VALUES, KEYS * QUERIES, seed))
        tables += [_boxes(MORE_KEYS, rank, seed) for rank in MORE_RANKS] if size == "full" else []
        listed += crossed(tables, shapes, seed, MEASURES)
    return listed


def _boxes(n_keys: int, rank: int, seed: int) -> Generated:
    return generated("overlapping-boxes", n_keys=n_keys, n_queries=QUERIES, rank=rank, seed=seed)


PUBLISHED_LAYER, PUBLISHED_TABLE = 10, 80
RANK_TEN: Where = ((D_VO, 4), (D_MODEL, (6, WIDE)), (N_KEYS, KEYS))
"""The layers whose rank is at most 10."""
PAPER_SIZE: Where = ((N_KEYS, KEYS),)
BOXES: Where = ((GENERATOR, "overlapping-boxes"),)
MEMORISED, MEMORISED_RANK, VIOLATES = "memorised", "memorised_rank", "violates"
CONFIDENT_RANK = f"memorised_{TAU} * rank_lower"
GAP = f"{ARGMAX} - {CONFIDENT}"
RANK_TITLE = "greatest rank of a table that was memorised"

CHARTS = (
    Chart(
        "memorised-by-ranks",
        "Share of layers that hold every fact: above the diagonal the table has the greater rank",
        "heatmap",
        x=LAYER_RANK,
        y=RANK,
        colour=MEMORISED,
        facet=N_KEYS,
        where=BOXES,
        y_title="rank of the table",
    ),
    Chart(
        "recall-by-layer-rank",
        "Recall by the rank of the table (200 facts)",
        "lines",
        x=LAYER_RANK,
        y=ARGMAX,
        colour=RANK,
        where=(*PAPER_SIZE, *BOXES),
    ),
    Chart(
        "what-confidence-costs",
        f"Recall by argmax less recall at confidence {TAU} (200 facts)",
        "lines",
        x=LAYER_RANK,
        y=GAP,
        colour=RANK,
        where=(*PAPER_SIZE, *BOXES),
        y_title=f"argmax less confidence {TAU}",
    ),
)

BOUNDS: Where = ((LAYER_RANK, (2, 3, 4, *range(6, 21, 2))),)
"""Those of the shapes; tables of 5 and 10 values lower two of them to 9 and 19, which no other table has."""

SUMMARIES = (
    Summary(
        "greatest-rank",
        "Greatest certified rank of a table that layers of each rank bound memorised, mean over seeds",
        (
            ("argmax", Quantity("greatest", MEMORISED_RANK, where=BOUNDS)),
            (f"softmax>={TAU}", Quantity("greatest", CONFIDENT_RANK, where=BOUNDS)),
        ),
        over=(LAYER_RANK, N_KEYS),
        y_title=RANK_TITLE,
    ),
    Summary(
        "inflation",
        "The same as a multiple of the layer's bound",
        (("argmax", Quantity("greatest", f"{MEMORISED_RANK} / {LAYER_RANK}", where=BOUNDS)),),
        over=(LAYER_RANK, N_KEYS),
        y_title="rank memorised / bound on the layer's",
    ),
)


def _signature() -> Quantity:
    """Mean gap of memorising layers that violate rank(D) <= rank(L), less that of those that obey it."""

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
        note="Greatest certified rank that was memorised in each seed, less 79; averaged over seeds. d_vo 4, d_model 6 "
        "or 16.",
    ),
    Claim(
        "rank raised without limit",
        "Greatest rank memorised as a multiple of the layer's bound (argmax, 200 facts).",
        Quantity("greatest", f"{MEMORISED_RANK} / {LAYER_RANK}", where=PAPER_SIZE),
        None,
        place="key results of a summary",
        quote="Argmax and softmax operations can arbitrarily inflate tensor rank",
        note="The paper's pair is a multiple of 8; no largest is published. Ours is limited by the 200 facts.",
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
        note="Difference of mean gaps, over all layers with full recall by argmax on 200 facts.",
    ),
    Claim(
        "confidence keeps it",
        f"The same with softmax>={TAU} in place of argmax (rank less 79).",
        Quantity("greatest", f"{CONFIDENT_RANK} - {PUBLISHED_TABLE - 1}", where=RANK_TEN),
        "greater",
        place="beside Proposition 3.7",
        note="As the first claim. The thresholded readout of a full table is the table itself: its rank is that of D.",
        extension=True,
    ),
    Claim(
        "wide against narrow",
        "Recall of wide layers (d_model 16) less that of narrow ones (d_model = d_vo + 2), at equal bounds.",
        Quantity(
            "mean",
            ARGMAX,
            within=(D_VO,),
            where=(*PAPER_SIZE, (D_MODEL, WIDE)),
            minus=Quantity("mean", ARGMAX, within=(D_VO,), where=(*PAPER_SIZE, (f"{D_MODEL} - {D_VO}", 2))),
        ),
        None,
        place="beside mechanism 3 of a summary",
        quote="decoupling parameter count from memorization capacity",
        note="Difference of mean recall at each d_vo, averaged; nothing is published on it.",
        extension=True,
    ),
)

RANK_INFLATION = Study(
    name="rank-inflation",
    title="Rank inflation: tables of high rank in layers of low rank",
    source=source("Propositions 3.6 and 3.7"),
    question="What is the highest certified rank of a table that a layer of given rank bound memorises under argmax?",
    method="Single-head layers whose tensors have rank at most 2 to 20 are trained on full tables with 100 keys and 2 "
    "queries (in the full size also 200 keys): tables cut into boxes, whose rank is the number of boxes, and random "
    "ones. A table counts when every fact is answered rightly; its rank is the certified lower bound, the layer's the "
    "upper bound from its shape. For each seed the greatest rank counts.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
