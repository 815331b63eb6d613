"""The least d_qk, sharply: minimal routing with 200 tables and a slack of 0.005.

`minimal-routing` finds the smallest d_qk within 0.02 of the baseline on 20 tables, and its intervals are wide: the
slack has to exceed the standard error of the mean recall (docs/claims.md). With 200 tables the standard error of a
paired difference is 0.002 to 0.003 with 20 queries (0.006 to 0.009 with 5). No table is one of `minimal-routing`.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    D_QK,
    D_VO,
    N_QUERIES,
    TITLES,
    TRAINING,
    full_table,
    single_head,
    source,
)

WIDTH = 8
VALUE_WIDTHS = (1, 3)
ROUTING_WIDTHS = (1, 2, 4, 8)
QUERIES = (5, 20)
SLACK = 0.005
SEEDS: dict[Size, range] = {"quick": range(100, 103), "full": range(100, 300)}
FEW, MANY = QUERIES[0], QUERIES[-1]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per seed, number of queries, d_vo and d_qk."""
    return [
        Trial(full_table(20, n_queries, seed), single_head(WIDTH, d_vo, d_qk), TRAINING, seed=seed)
        for seed in SEEDS[size]
        for n_queries in QUERIES
        for d_vo in VALUE_WIDTHS
        for d_qk in ROUTING_WIDTHS
    ]


def _least(where: Where = (), against: str = D_QK, minus: Quantity | None = None) -> Quantity:
    """Returns the smallest d_qk within the slack of the baseline for each d_vo and number of queries, averaged."""
    return Quantity("least", ARGMAX, against, (D_VO, N_QUERIES), where, minus, slack=SLACK)


CHARTS = (
    Chart(
        "recall-by-d_qk",
        "Recall against d_qk, by number of queries: one panel per d_vo",
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
        "shortfall",
        f"Recall at d_qk = {WIDTH} minus recall at a smaller d_qk",
        tuple((str(d_qk), mean_difference(ARGMAX, ((D_QK, WIDTH),), ((D_QK, d_qk),))) for d_qk in ROUTING_WIDTHS[:-1]),
        over=(N_QUERIES, D_VO),
        x="quantity",
        x_title="d_qk",
        y_title=f"recall at d_qk = {WIDTH} minus recall at d_qk",
    ),
)

ours = partial(Claim, extension=True)

CLAIMS = (
    ours(
        "small d_vo needs routing, sharply",
        f"At d_vo 1 and 3, the least d_qk within {SLACK} of the baseline is above 1.",
        _least((), f"{D_QK} - 1"),
        "greater",
        place="cf. Figure 4 (diagonals)",
        quote="Very small d_head,vo requires some minimal d_head,qk for routing",
        note="Smallest d_qk minus 1, averaged over d_vo 1 and 3 and over 5 and 20 queries.",
    ),
    ours(
        "more queries need more d_qk",
        f"The least d_qk is greater with {MANY} queries than with {FEW}.",
        _least(((N_QUERIES, MANY),), minus=_least(((N_QUERIES, FEW),))),
        "greater",
        place="cf. the next checks",
        quote="Measure the minimum d_head,qk required to achieve baseline accuracy for databases with varying numbers "
        "of predicates |Q|.",
        note="Proposed, without a published number; 20 tables and a slack of 0.02 left it undecided.",
    ),
    ours(
        "least d_qk by d_vo",
        "How much more d_qk does d_vo = 3 need than d_vo = 1?",
        Quantity(
            "least",
            ARGMAX,
            D_QK,
            (N_QUERIES,),
            ((D_VO, 3),),
            Quantity("least", ARGMAX, D_QK, (N_QUERIES,), ((D_VO, 1),), slack=SLACK),
            slack=SLACK,
        ),
        None,
        place="cf. the next checks",
        note="Nothing is published.",
    ),
)

LEAST_D_QK = Study(
    name="least-d_qk",
    title="The least d_qk, with 200 tables and a slack of 0.005",
    source=source("Figure 4 (diagonals); next checks of a summary"),
    question="With a value-output width d_vo of 1 or 3, which query-key width d_qk is just enough, to 0.005 of "
    "recall, and does it grow with the number of queries?",
    method="We train single-head layers with d_model 8 on 200 full random tables of 20 keys and 20 values for each of "
    "5 and 20 queries, with d_qk 1, 2, 4 and 8. We report the smallest d_qk whose mean recall is within "
    f"{SLACK} of that at d_qk = 8 on the same tables.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
