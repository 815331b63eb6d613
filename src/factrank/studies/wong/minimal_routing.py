"""Minimal routing: how small can the query-key width be when the value-output width is small?

A published summary of the paper proposes this check ("Next checks", 3): fix d_vo at 1, 2 or 3, lower d_qk, and find the
smallest d_qk that still reaches the baseline for different numbers of queries.

Our choices, where the summary leaves them open: the baseline is mean recall at d_qk = d_model = 8, and "reaches" means
within 0.02 of it on the same tables; |K| = |V| = 20, full tables, one head. d_vo = 6 is included as a value that is not
small. At 2 queries recall is near 1 for every d_qk; at 40 it is low throughout.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    D_QK,
    D_VO,
    MORE_SEEDS,
    N_QUERIES,
    TITLES,
    TRAINING,
    full_table,
    single_head,
    source,
)

WIDTH = 8
SMALL, LARGER = (1, 2, 3), 6
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (5, 10, 20), "full": (2, 5, 10, 15, 20, 30, 40)}
SLACK = 0.02
FEW, MANY = 5, 20
"""Numbers of queries that claims compare; part of both sizes."""


def trials(size: Size) -> list[Trial]:
    """Returns one trial per d_qk from 1 to d_model, d_vo, number of queries and seed."""
    return [
        Trial(full_table(20, n_queries, seed), single_head(WIDTH, d_vo, d_qk), TRAINING, seed=seed)
        for n_queries in QUERIES[size]
        for d_vo in (*SMALL, LARGER)
        for d_qk in range(1, WIDTH + 1)
        for seed in MORE_SEEDS[size]
    ]


def _least(where: Where = (), against: str = D_QK, minus: Quantity | None = None) -> Quantity:
    """Returns the smallest d_qk within the slack of the baseline for each d_vo and number of queries, averaged."""
    return Quantity("least", ARGMAX, against, (D_VO, N_QUERIES), where, minus, slack=SLACK)


def _mean(d_qk: int, where: Where, minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", ARGMAX, within=(D_VO, N_QUERIES), where=((D_QK, d_qk), *where), minus=minus)


COMPARED: Where = ((N_QUERIES, (5, 10, 20)),)
"""Part of both sizes."""
SMALL_ONLY: Where = ((D_VO, SMALL),)

CHARTS = (
    Chart(
        "recall-by-d_qk",
        "Recall against d_qk at d_vo 1, 2, 3 and 6, by number of queries",
        "lines",
        x=D_QK,
        y=ARGMAX,
        colour=N_QUERIES,
        facet=D_VO,
    ),
)

SUMMARIES = (
    Summary(
        "least-d_qk",
        f"Smallest d_qk within {SLACK} of the recall at d_qk = {WIDTH}",
        (("least d_qk", Quantity("least", ARGMAX, D_QK, slack=SLACK)),),
        over=(N_QUERIES, D_VO),
    ),
    Summary(
        "gain-of-d_qk",
        f"Recall at d_qk = {WIDTH} minus recall at d_qk = 1",
        (("gain", mean_difference(ARGMAX, ((D_QK, WIDTH),), ((D_QK, 1),))),),
        over=(N_QUERIES, D_VO),
        y_title=f"recall gained from d_qk 1 to {WIDTH}",
    ),
)

CLAIMS = (
    Claim(
        "small d_vo needs routing",
        "At d_vo 1 to 3, the least d_qk that reaches the baseline is above 1.",
        _least((*COMPARED, *SMALL_ONLY), f"{D_QK} - 1"),
        "greater",
        place="Figure 4 (diagonals), quoted from a summary",
        quote="Very small d_head,vo requires some minimal d_head,qk for routing",
        note="Smallest d_qk minus 1, averaged over d_vo 1 to 3 and over 5, 10 and 20 queries.",
    ),
    Claim(
        "starved routing costs recall",
        "At d_vo 1 to 3, recall is lower at d_qk = 1 than at d_qk = d_model.",
        _mean(WIDTH, (*COMPARED, *SMALL_ONLY), _mean(1, (*COMPARED, *SMALL_ONLY))),
        "greater",
        place="failure signatures, quoted from a summary",
        quote="Accuracy degrades when d_head,qk reduced aggressively at small d_head,vo",
        note="Recall at d_qk = 8 minus recall at d_qk = 1, for 5, 10 and 20 queries.",
    ),
    Claim(
        "routing counts more at small d_vo",
        "Recall gains more from d_qk at d_vo 1 to 3 than at d_vo = 6.",
        Quantity(
            "slope",
            ARGMAX,
            D_QK,
            (D_VO, N_QUERIES),
            (*COMPARED, *SMALL_ONLY),
            Quantity("slope", ARGMAX, D_QK, (D_VO, N_QUERIES), (*COMPARED, (D_VO, LARGER))),
        ),
        "greater",
        place="open questions, quoted from a summary",
        quote="increasing d_head,qk improve accuracy at small d_head,vo but become neutral or detrimental at larger",
        note="Slope of recall against d_qk at d_vo 1 to 3 minus that at d_vo = 6; 5, 10 and 20 queries.",
    ),
    Claim(
        "least d_qk by number of queries",
        "How much more d_qk 20 queries need than 5, at d_vo 1 to 3.",
        _least(((N_QUERIES, MANY), *SMALL_ONLY), minus=_least(((N_QUERIES, FEW), *SMALL_ONLY))),
        None,
        place="next checks, quoted from a summary",
        quote="Measure the minimum d_head,qk required to achieve baseline accuracy for databases with varying numbers "
        "of predicates |Q|.",
        note="The summary proposes the measurement and the paper gives no number, so there is nothing to compare with.",
    ),
    Claim(
        "gain of d_qk by number of queries",
        "How much more recall 20 queries gain from d_qk = 8 over d_qk = 1 than 5 queries do, at d_vo 1 to 3.",
        _mean(
            WIDTH,
            ((N_QUERIES, MANY), *SMALL_ONLY),
            _mean(
                1,
                ((N_QUERIES, MANY), *SMALL_ONLY),
                _mean(1, ((N_QUERIES, FEW), *SMALL_ONLY), _mean(WIDTH, ((N_QUERIES, FEW), *SMALL_ONLY))),
            ),
        ),
        None,
        place="cf. the next checks",
        note="Not part of the proposed check. The smallest d_qk is where a step occurs; this is the height of the "
        "step.",
        extension=True,
    ),
)

MINIMAL_ROUTING = Study(
    name="minimal-routing",
    title="Minimal routing: how little query-key width is enough?",
    source=source("Figure 4 (diagonals); next checks of a summary"),
    question="With a value-output width d_vo of 1, 2 or 3, how small can the query-key width d_qk be before recall "
    "drops, and does that depend on the number of queries?",
    method="We train single-head layers with d_model 8 on full random tables of 20 keys and 20 values with different "
    "numbers of queries, for every d_qk from 1 to 8. The baseline is mean recall at d_qk = 8; we report the smallest "
    f"d_qk whose mean recall on the same tables is within {SLACK} of it. d_vo = 6 is included as a value that is not "
    "small. The smallest d_qk is a step of a noisy curve and has a wide interval with few seeds, so we also report "
    "the recall gained from d_qk = 1 to d_qk = 8.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
