"""Artifacts: how many facts a layer hallucinates for missing entries of its table, by size of the layer.

An artifact is a value that the layer predicts with probability at least tau for a (key, query) that the database does
not contain. The follow-up paper (arXiv 2502.17305) finds 5 to 20 times as many artifacts as training facts, and more
for smaller models.

Our choices, where the sources leave them open: sparse random tables of 100 keys and 20 queries with 100 facts (5 % of
the pairs: 19 missing entries per fact, hence a ratio of at most 19) and 20 or 100 values; layers with one head, d_model
2 to 64, d_vo = d_model / 2 (at least 1) and d_qk = 4; tau = 0.95. Since the number of missing entries per fact caps the
ratio, we also use tables of 50, 200 and 400 facts, and report the fraction of missing entries that are answered
alongside the ratio.
"""

from __future__ import annotations

from factrank.experiments.specs import TauRecall, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Source, Study
from factrank.families.attention import Hallucinations, Ranks
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
MEASURES = (TauRecall(TAUS), Hallucinations(), Ranks())


def trials(size: Size) -> list[Trial]:
    """Returns one trial per width, table and seed; other densities with 20 values only."""
    shapes = [single_head(d_model, max(1, d_model // 2), 4) for d_model in WIDTHS[size]]
    listed = []
    for seed in SEEDS[size]:
        tables = [uniform_table(KEYS, QUERIES, values, FACTS, seed) for values in VALUES[size]]
        tables += [uniform_table(KEYS, QUERIES, VALUES[size][0], n_facts, seed) for n_facts in OTHER_FACTS[size]]
        listed += crossed(tables, shapes, seed, MEASURES)
    return listed


MULTIPLE = f"hallucinations_{TAU} / {N_FACTS}"
SHARE = f"hallucinations_{TAU} / silent_fibers"
PAPER: Where = ((N_FACTS, FACTS),)
HOLDING: Where = (*PAPER, (D_MODEL, (4, 8, 16, 32, 64)))
"""Widths that recalled more than 90 % of the facts by argmax in pilot trials with other seeds."""
MULTIPLE_TITLE = "artifacts per fact"

CHARTS = (
    Chart(
        "artifacts-by-width",
        f"Artifacts per fact at confidence {TAU} (at most 19)",
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
        "Artifacts per fact at several confidence thresholds (100 facts, 20 values)",
        tuple(
            (f"τ = {tau}", Quantity("mean", f"hallucinations_{tau} / {N_FACTS}", where=(*PAPER, (N_VALUES, 20))))
            for tau in sorted(TAUS)
        ),
        over=(D_MODEL,),
        y_title=MULTIPLE_TITLE,
        log_x=True,
    ),
    Summary(
        "multiples-by-density",
        f"Artifacts per fact at confidence {TAU}, by number of facts (20 values)",
        (("multiple", Quantity("mean", MULTIPLE, where=((N_VALUES, 20),))),),
        over=(D_MODEL, N_FACTS),
        y_title=MULTIPLE_TITLE,
        log_x=True,
    ),
    Summary(
        "silent-pairs",
        f"Fraction of missing entries answered with confidence {TAU} (20 values)",
        (("share", Quantity("mean", SHARE, where=((N_VALUES, 20),))),),
        over=(D_MODEL, N_FACTS),
        y_title="fraction of missing entries",
        log_x=True,
    ),
)

PLACE = "the follow-up paper, paraphrased"

CLAIMS = (
    Claim(
        "5 to 20 times the facts",
        "Layers make up 5 to 20 artifacts for each fact.",
        Quantity("mean", MULTIPLE, where=PAPER),
        12.5,
        tolerance=7.5,
        place=PLACE,
        note="Published as a range, 5 to 20 times, encoded here as 12.5 ± 7.5; our sources do not quote it. Mean over "
        "widths and numbers of values. These tables allow at most 19, so only the lower end is tested. Until the "
        "quick size had been run once, this was two claims, more than 5 and fewer than 20; both were met.",
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
        note="Excludes layers of d_model 2 and 3, which recall few facts with confidence and so give few confident "
        "answers of any kind.",
        extension=True,
    ),
    Claim(
        "share of silent pairs",
        f"Share of silent pairs that layers answer with confidence {TAU} (100 facts).",
        Quantity("mean", SHARE, where=HOLDING),
        None,
        place="cf. the follow-up paper",
        note="The ratio depends on the number of missing entries; the fraction does not. Nothing is published on this.",
        extension=True,
    ),
)

ARTIFACTS = Study(
    name="artifacts",
    title="Artifacts: hallucinated answers to missing entries",
    source=Source(FOLLOW_UP, "", FOLLOW_UP_LINK),
    question="How many confident answers does a layer give to (key, query) pairs that are missing from its table, "
    "relative to the number of facts it was trained on, and do smaller layers give more?",
    method="We train single-head layers of d_model 2 to 64 on random tables in which 5 % of the 2,000 pairs have a "
    f"fact. An artifact is an answer with probability at least {TAU} to any other pair. We report the number of "
    "artifacts per fact, and the fraction of missing entries that are answered.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
