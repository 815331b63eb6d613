"""Artifacts: how many facts a layer makes up where the table says nothing, against its size.

An artifact is a value that the layer gives with probability at least tau for a key and a query of which the database
says nothing. The follow-up paper (arXiv 2502.17305) finds 5 to 20 times as many of them as training facts, more for
smaller models.

What our sources leave open and we chose: sparse random tables, 100 keys and 20 queries with 100 facts (5 % of the
pairs, so that there are 19 silent pairs for each fact and 19 is the largest multiple possible), 20 or 100 values;
layers of one head with d_model 2 to 64, d_vo = d_model / 2 (1 at least), d_qk = 4; tau = 0.95. How many silent pairs
there are for each fact decides the multiple that is possible, so there are tables of 50, 200 and 400 facts as
well, and the share of silent pairs that are answered stands beside the multiple.
"""

from __future__ import annotations

from factrank.experiments.specs import Measures, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Source, Study
from factrank.studies.wong.settings import (
    CONFIDENT,
    D_MODEL,
    FOLLOW_UP,
    FOLLOW_UP_LINK,
    N_FACTS,
    N_VALUES,
    SEEDS,
    TAU,
    TITLES,
    crossed,
    single_head,
    uniform_table,
)

KEYS, QUERIES, FACTS = 100, 20, 100
TAUS = (TAU, 0.5, 0.8, 0.99)
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (2, 4, 16, 64), "full": (2, 3, 4, 8, 16, 32, 64)}
VALUES: dict[Size, tuple[int, ...]] = {"quick": (20,), "full": (20, 100)}
OTHER_FACTS: dict[Size, tuple[int, ...]] = {"quick": (400,), "full": (50, 200, 400)}
MEASURES = Measures(taus=TAUS, artifacts=True, ranks=True)


def trials(size: Size) -> list[Trial]:
    """Every width on every table, for each seed; other densities with 20 values only."""
    shapes = [single_head(d_model, max(1, d_model // 2), 4) for d_model in WIDTHS[size]]
    listed = []
    for seed in SEEDS[size]:
        tables = [uniform_table(KEYS, QUERIES, values, FACTS, seed) for values in VALUES[size]]
        tables += [uniform_table(KEYS, QUERIES, VALUES[size][0], n_facts, seed) for n_facts in OTHER_FACTS[size]]
        listed += crossed(tables, shapes, seed, MEASURES)
    return listed


MULTIPLE = f"artifacts_{TAU} / {N_FACTS}"
SHARE = f"artifacts_{TAU} / silent_fibers"
PAPER: Where = ((N_FACTS, FACTS),)
HOLDING: Where = (*PAPER, (D_MODEL, (4, 8, 16, 32, 64)))
"""Widths that held more than nine facts in ten by argmax in trials of ours with other seeds."""
MULTIPLE_TITLE = "artifacts for each fact"

CHARTS = (
    Chart(
        "artifacts-by-width",
        f"Artifacts at confidence {TAU} for each fact of the table (at most 19)",
        "lines",
        x=D_MODEL,
        y=MULTIPLE,
        colour=N_VALUES,
        where=PAPER,
        log_x=True,
        y_title=MULTIPLE_TITLE,
    ),
    Chart(
        "recall-by-width",
        f"Recall at confidence {TAU} of the same layers",
        "lines",
        x=D_MODEL,
        y=CONFIDENT,
        colour=N_VALUES,
        where=PAPER,
        log_x=True,
    ),
)

SUMMARIES = (
    Summary(
        "multiples",
        "Artifacts for each fact at several confidences (100 facts, 20 values)",
        tuple(
            (f"τ = {tau}", Quantity("mean", f"artifacts_{tau} / {N_FACTS}", where=(*PAPER, (N_VALUES, 20))))
            for tau in sorted(TAUS)
        ),
        over=(D_MODEL,),
        y_title=MULTIPLE_TITLE,
        log_x=True,
    ),
    Summary(
        "multiples-by-density",
        f"Artifacts at confidence {TAU} for each fact, by the number of facts (20 values)",
        (("multiple", Quantity("mean", MULTIPLE, where=((N_VALUES, 20),))),),
        over=(D_MODEL, N_FACTS),
        y_title=MULTIPLE_TITLE,
        log_x=True,
    ),
    Summary(
        "silent-pairs",
        f"Share of silent pairs answered with confidence {TAU} (20 values)",
        (("share", Quantity("mean", SHARE, where=((N_VALUES, 20),))),),
        over=(D_MODEL, N_FACTS),
        y_title="share of silent pairs",
        log_x=True,
    ),
)

PLACE = "the follow-up paper, in our words"

CLAIMS = (
    Claim(
        "5 to 20 times the facts",
        "Layers make up 5 to 20 artifacts for each fact.",
        Quantity("mean", MULTIPLE, where=PAPER),
        12.5,
        tolerance=7.5,
        place=PLACE,
        note="Published as a range, 5 to 20 times, which 12.5 ± 7.5 stands for; our sources have no quote of it. Mean "
        "over widths and numbers of values. These tables allow 19 at most, so that only the lower end is tested. "
        "Written as two directions, more than 5 and fewer than 20, until the quick size had been run once; both held.",
    ),
    Claim(
        "smaller models make up more",
        "The number of artifacts falls as the layer grows.",
        Quantity("rank correlation", MULTIPLE, D_MODEL, within=(N_VALUES,), where=PAPER),
        "less",
        place=PLACE,
        note="Rank correlation with d_model, over all widths.",
    ),
    Claim(
        "smaller models make up more, among those that hold the facts",
        "The number of artifacts falls as the layer grows, from d_model 4 on.",
        Quantity("rank correlation", MULTIPLE, D_MODEL, within=(N_VALUES,), where=HOLDING),
        "less",
        place=PLACE,
        note="Layers of d_model 2 and 3 hold few facts with confidence, so that they have few confident answers of any "
        "kind; this leaves them out.",
        extension=True,
    ),
    Claim(
        "share of silent pairs",
        f"Share of silent pairs that layers answer with confidence {TAU} (100 facts).",
        Quantity("mean", SHARE, where=HOLDING),
        None,
        place="beside the follow-up paper",
        note="The multiple depends on how many pairs are silent; the share does not. Nothing is published on it.",
        extension=True,
    ),
)

ARTIFACTS = Study(
    name="artifacts",
    title="Artifacts: what layers make up where the table is silent",
    source=Source(FOLLOW_UP, "", FOLLOW_UP_LINK),
    question="How many confident answers does a layer give to pairs of a key and a query of which its table says "
    "nothing, as a multiple of the facts it was trained on, and do smaller layers give more?",
    method="Single-head layers of d_model 2 to 64 are trained on random tables in which 5 % of the 2,000 pairs have a "
    f"fact. An artifact is an answer with probability at least {TAU} to any other pair. Their number is divided by "
    "that of the facts; the share of silent pairs that are answered stands beside it.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
