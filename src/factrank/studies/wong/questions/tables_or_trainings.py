"""Tables or trainings: does recall vary between tables, or between trainings on one table?

Elsewhere each table is trained once, so a table and its initial weights vary together: intervals include both, but do
not tell them apart. Here trainings are nested in tables: every table is trained with several seeds of its own, which no
other table has. No other study has these tables or weights.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.wong.settings import ARGMAX, D_QK, D_VO, TITLES, TRAINING, full_table, single_head, source

WIDTH = 8
WIDTHS = (2, 6)
FIRST_TABLE = 300
TABLES: dict[Size, int] = {"quick": 3, "full": 30}
TRAININGS: dict[Size, int] = {"quick": 2, "full": 4}
TABLE = "data.seed"


def trials(size: Size) -> list[Trial]:
    """Returns one trial per table, training and shape; the seeds of trainings are distinct in all tables."""
    seeds = [
        (FIRST_TABLE + table, TRAININGS["full"] * (FIRST_TABLE + table) + training)
        for table in range(TABLES[size])
        for training in range(TRAININGS[size])
    ]
    return [
        Trial(full_table(20, 10, table), single_head(WIDTH, d_vo, d_qk), TRAINING, seed=training)
        for table, training in seeds
        for d_vo in WIDTHS
        for d_qk in WIDTHS
    ]


CHARTS = (
    Chart(
        "recall-by-table",
        "Recall of every training: one column of points per table, one panel per d_vo",
        "points",
        x=TABLE,
        y=ARGMAX,
        colour=D_QK,
        facet=D_VO,
        x_title="table",
    ),
)

SUMMARIES = (Summary("recall", "Recall of each shape", (("recall", Quantity("mean", ARGMAX)),), over=(D_VO, D_QK)),)

AGAINST_VO = Quantity("slope", ARGMAX, D_VO, (D_QK,))
AGAINST_QK = Quantity("slope", ARGMAX, D_QK, (D_VO,))
ours = partial(Claim, extension=True, place="cf. Figure 4")

CLAIMS = (
    ours(
        "recall, tables and trainings",
        "How much does the recall of a shape vary between tables, and between trainings of one table?",
        Quantity("mean", ARGMAX, within=(D_VO, D_QK)),
        None,
        note="Averaged over the four shapes, which share tables and seeds. Nothing is published.",
    ),
    *(
        ours(
            f"recall at d_vo {d_vo} and d_qk {d_qk}, tables and trainings",
            f"The same for d_vo {d_vo} and d_qk {d_qk}.",
            Quantity("mean", ARGMAX, where=((D_VO, d_vo), (D_QK, d_qk))),
            None,
            note="Nothing is published.",
        )
        for d_vo in WIDTHS
        for d_qk in WIDTHS
    ),
    ours(
        "rises with d_vo on nested trainings",
        "Recall rises with d_vo if tables and weights are drawn separately.",
        AGAINST_VO,
        "rises",
        quote="accuracy increases more with d_head,vo changes",
        note="Recall per dimension of d_vo from 2 to 6, at d_qk 2 and 6, averaged.",
    ),
    ours(
        "d_vo counts more than d_qk on nested trainings",
        "Recall rises more with d_vo than with d_qk if tables and weights are drawn separately.",
        replace(AGAINST_VO, minus=AGAINST_QK),
        "greater",
        quote="capacity depends more on d_head,vo than d_head,qk",
        note="Slope against d_vo minus slope against d_qk, over the same four shapes.",
    ),
)

TABLES_OR_TRAININGS = Study(
    name="tables-or-trainings",
    title="Tables or trainings: what makes recall vary?",
    source=source("Figure 4"),
    question="If tables and initial weights are drawn with separate seeds, which of the two makes recall vary, and do "
    "the findings on d_vo and d_qk hold?",
    method="We train single-head layers with d_model 8, d_vo 2 and 6, and d_qk 2 and 6 on 30 full random tables of 20 "
    "keys, 10 queries and 20 values, each with 4 seeds of its own. Variances are split between tables and trainings as "
    "in a nested analysis of variance; intervals are over tables.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
