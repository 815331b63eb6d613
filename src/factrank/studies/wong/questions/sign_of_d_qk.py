"""The sign of d_qk: when does a wider query-key circuit help, and when does it hurt?

The paper leaves open why d_qk helps at small d_vo and is neutral or detrimental at larger d_vo. Our tables of 20 keys
hinted that at large d_vo it hurts with 5 queries and helps with 20. There, more queries also meant more facts, so the
number of queries and the load were confounded. Here both vary independently: |Q| = 5, 10 and 20, each with 100, 200
and 400 facts, |K| = n / |Q|, in full tables of 20 values. Layers with equal load have the same number of facts, the
same bits and the same shape; only the embeddings of keys and queries differ in number.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.wong.settings import (
    ARGMAX,
    D_QK,
    D_VO,
    N_FACTS,
    N_QUERIES,
    TITLES,
    TRAINING,
    single_head,
    source,
    uniform_table,
)

WIDTH, VALUES = 8, 20
QUERIES = (5, 10, 20)
LOADS: dict[Size, tuple[int, ...]] = {"quick": (200,), "full": (100, 200, 400)}
VALUE_WIDTHS = (2, 8)
ROUTING_WIDTHS = (1, 4, 8)
SEEDS: dict[Size, range] = {"quick": range(3), "full": range(100)}
FEW, MANY = QUERIES[0], QUERIES[-1]
SMALL, LARGE = VALUE_WIDTHS[0], VALUE_WIDTHS[-1]
LIGHT, HEAVY = LOADS["full"][0], LOADS["full"][-1]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per seed, load, number of queries, d_vo and d_qk; |K| is the load divided by |Q|."""
    return [
        Trial(
            uniform_table(n_facts // n_queries, n_queries, VALUES, n_facts, seed),
            single_head(WIDTH, d_vo, d_qk),
            TRAINING,
            seed=seed,
        )
        for seed in SEEDS[size]
        for n_facts in LOADS[size]
        for n_queries in QUERIES
        for d_vo in VALUE_WIDTHS
        for d_qk in ROUTING_WIDTHS
    ]


def _slope(where: Where, within: tuple[str, ...], minus: Quantity | None = None) -> Quantity:
    """Returns recall per dimension of d_qk, averaged over groups of equal load."""
    return Quantity("slope", ARGMAX, D_QK, within, where, minus)


def _at(n_queries: int, d_vo: int, minus: Quantity | None = None) -> Quantity:
    return _slope(((N_QUERIES, n_queries), (D_VO, d_vo)), (N_FACTS,), minus)


CHARTS = (
    Chart(
        "recall-by-d_qk",
        f"Recall against d_qk at d_vo = {LARGE}, by number of queries: one panel per number of facts",
        "lines",
        x=D_QK,
        y=ARGMAX,
        colour=N_QUERIES,
        facet=N_FACTS,
        where=((D_VO, LARGE),),
    ),
    Chart(
        "recall-by-d_qk-small",
        f"Recall against d_qk at d_vo = {SMALL}, by number of queries: one panel per number of facts",
        "lines",
        x=D_QK,
        y=ARGMAX,
        colour=N_QUERIES,
        facet=N_FACTS,
        where=((D_VO, SMALL),),
    ),
)

SUMMARIES = (
    Summary(
        "map",
        "Recall gained per dimension of d_qk, by queries, d_vo and facts",
        (("slope", Quantity("slope", ARGMAX, D_QK)),),
        over=(N_QUERIES, D_VO, N_FACTS),
        y_title="recall per dimension of d_qk",
    ),
    Summary(
        "recall",
        "Mean recall over d_qk, by queries, d_vo and facts",
        (("recall", Quantity("mean", ARGMAX)),),
        over=(N_QUERIES, D_VO, N_FACTS),
        y_title="mean recall",
    ),
)

QUOTE = "increasing d_head,qk improve accuracy at small d_head,vo but become neutral or detrimental at larger"
ours = partial(Claim, place="cf. the open questions", quote=QUOTE, extension=True)

CLAIMS = (
    ours(
        "few queries, large d_vo: d_qk hurts",
        f"With {FEW} queries and d_vo = {LARGE}, recall falls as d_qk grows.",
        _at(FEW, LARGE),
        "falls",
        note="Recall per dimension of d_qk at each load, averaged. Our earlier tables hinted at -0.003 to -0.006.",
    ),
    ours(
        "many queries, large d_vo: d_qk helps",
        f"With {MANY} queries and d_vo = {LARGE}, recall rises with d_qk.",
        _at(MANY, LARGE),
        "rises",
        note="Our earlier tables hinted at +0.006 to +0.011.",
    ),
    ours(
        "more queries gain more at equal load",
        f"At equal load and d_vo = {LARGE}, recall gains more from d_qk with {MANY} queries than with {FEW}.",
        _at(MANY, LARGE, _at(FEW, LARGE)),
        "greater",
        note="Difference of the slopes against d_qk on tables with equally many facts and bits, averaged over loads.",
    ),
    ours(
        "more load gains more at equal queries",
        f"How much more does recall gain from d_qk with {HEAVY} facts than with {LIGHT}, at equal queries and d_vo = "
        f"{LARGE}?",
        _slope(
            ((N_FACTS, HEAVY), (D_VO, LARGE)), (N_QUERIES,), _slope(((N_FACTS, LIGHT), (D_VO, LARGE)), (N_QUERIES,))
        ),
        None,
        note="The other half of the confounded hint. We expected no sign.",
    ),
    ours(
        "small d_vo: d_qk helps",
        f"At d_vo = {SMALL}, recall rises with d_qk.",
        _slope(((D_VO, SMALL),), (N_QUERIES, N_FACTS)),
        "rises",
        note="Averaged over all nine tables of equal weight.",
    ),
    ours(
        "d_qk counts more at small d_vo",
        f"Recall gains more from d_qk at d_vo = {SMALL} than at d_vo = {LARGE}, at equal queries and load.",
        _slope(((D_VO, SMALL),), (N_QUERIES, N_FACTS), _slope(((D_VO, LARGE),), (N_QUERIES, N_FACTS))),
        "greater",
        note="The open question states the sign; it was published for one kind of table.",
    ),
)

SIGN_OF_D_QK = Study(
    name="sign-of-d_qk",
    title="The sign of d_qk: when does routing width help, and when does it hurt?",
    source=source("open questions of a summary"),
    question="At equal load, does more query-key width help or hurt, and does its sign follow from the number of "
    "queries, from the number of facts, or from d_vo?",
    method="We train single-head layers with d_model 8 on full random tables of 20 values: 5, 10 and 20 queries, each "
    "with 100, 200 and 400 facts (the number of keys is their quotient), d_vo 2 and 8, d_qk 1, 4 and 8, and 100 tables "
    "for each. The effect of d_qk is the slope of recall against it. Tables with equally many facts have equal "
    "bits, so queries and load vary independently. The quick size has 200 facts only.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
