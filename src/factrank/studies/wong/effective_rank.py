"""Effective rank: for tables of equal size but different rank and effective rank, which of the two predicts recall?

The paper measures a database by the rank of its tensor and leaves bounds on effective rank (the lowest rank of a tensor
that answers all facts correctly) open. The six kinds of table here all have 20 keys, 10 queries, 20 values, 200 facts
and hence n log2 |V| = 864 bits, and are learnt by the same layers:

- uniform: a random value for every pair; bijections: a random permutation for every query. Rank between 33 and about
  140.
- zipf: random values with Zipf frequencies (exponent 1.5). Rank between the others.
- disjoint: two values of its own for every query; structured: the same with keys in 5 classes; overlapping-boxes: the
  table cut into 20 boxes with one value each. Rank 20 (structured: up to 20), with different effective ranks.

Ranks are certified intervals for each table; if a correlation needs a single number, the claim states which end it
uses.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.columns import label
from factrank.experiments.specs import Generated, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import Ranks
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_MODEL,
    GENERATOR,
    MORE_SEEDS,
    RANK_LOWER,
    RANK_UPPER,
    TAU,
    TITLES,
    crossed,
    single_head,
    source,
)

KEYS, QUERIES, VALUES = 20, 10, 20
WIDTHS = (4, 6, 8)
EFFECTIVE = "effective_upper"
MEASURES = (Ranks(),)


def tables(seed: int) -> list[Generated]:
    """Returns the six kinds of table, with equal numbers of keys, queries, values and facts."""
    size = {"n_keys": KEYS, "n_queries": QUERIES, "seed": seed}
    return [
        generated("uniform", n_values=VALUES, **size),
        generated("bijections", **size),
        generated("zipf", n_values=VALUES, n_facts=KEYS * QUERIES, exponent=1.5, **size),
        generated("disjoint", values_per_query=VALUES // QUERIES, **size),
        generated("structured", values_per_query=VALUES // QUERIES, n_classes=5, **size),
        generated("overlapping-boxes", rank=VALUES, **size),
    ]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per width (d_vo = d_qk = d_model / 2), table and seed."""
    shapes = [single_head(width, width // 2, width // 2) for width in WIDTHS]
    return [trial for seed in MORE_SEEDS[size] for trial in crossed(tables(seed), shapes, seed, MEASURES)]


def _points(x: str, name: str, title: str, x_title: str) -> Chart:
    return Chart(name, title, "points", x=x, y=ARGMAX, colour=GENERATOR, facet=D_MODEL, x_title=x_title)


CHARTS = (
    _points(RANK_UPPER, "recall-by-rank", "Recall against the rank of the table", "rank, certified upper bound"),
    _points(
        EFFECTIVE,
        "recall-by-effective-rank",
        "Recall against the effective rank of the table",
        "effective rank, certified upper bound",
    ),
)


def _by_kind(column: str) -> Quantity:
    return Quantity("mean", column)


PREDICTORS = {
    "rank, lower bound": RANK_LOWER,
    "rank, upper bound": RANK_UPPER,
    "Proposition 2.1": "proposition",
    "effective rank, upper bound": EFFECTIVE,
    "bits by query": "bits_by_query",
}


def _correlation(column: str, minus: Quantity | None = None) -> Quantity:
    return Quantity("rank correlation", ARGMAX, column, (D_MODEL,), minus=minus)


SUMMARIES = (
    Summary(
        "recall-by-kind",
        "Recall by kind of table",
        (("argmax", _by_kind(ARGMAX)), (f"confidence {TAU}", _by_kind(CONFIDENT))),
        over=(GENERATOR, D_MODEL),
        y_title=label(ARGMAX),
    ),
    Summary(
        "ranks-by-kind",
        "Certified bounds on rank and effective rank, means over tables",
        tuple(
            (label, _by_kind(column))
            for label, column in {**PREDICTORS, "effective rank, lower bound": "effective_lower"}.items()
        ),
        over=(GENERATOR,),
        y_title="rank",
        log_y=True,
    ),
    Summary(
        "what-predicts-recall",
        "Spearman correlation of recall with measures of table size, over all six kinds",
        tuple((label, Quantity("rank correlation", ARGMAX, column)) for label, column in PREDICTORS.items()),
        over=(D_MODEL,),
        y_title="rank correlation with recall",
    ),
)

OPEN = "open questions, quoted from a summary"
QUOTE = "The paper lacks good theoretical bounds for the effective rank of databases"
EQUAL_RANK: Where = ((GENERATOR, ("overlapping-boxes", "disjoint")),)

ours = partial(Claim, place=OPEN, quote=QUOTE, extension=True)

CLAIMS = (
    Claim(
        "higher rank, lower recall",
        "Among tables with equally many facts, values and bits, those of higher rank are recalled less.",
        _correlation(RANK_LOWER),
        "less",
        place="abstract and mechanism 1, quoted from a summary",
        quote="Database tensor rank captures structural complexity beyond simple triple counts",
        note="Spearman correlation of recall with the certified lower bound on the rank, at each d_model, averaged.",
    ),
    Claim(
        "higher rank, lower recall, by the upper bound",
        "The same with the certified upper bound of the rank.",
        _correlation(RANK_UPPER),
        "less",
        place="abstract and mechanism 1, quoted from a summary",
        quote="propose the rank of this tensor as a measure of the size of the database",
        note="The bounds on random tables are far apart, so we report both.",
    ),
    Claim(
        "equal rank, different recall",
        "Of two kinds of table of rank 20, how much more is recalled of overlapping boxes than of disjoint ranges?",
        mean_difference(ARGMAX, ((GENERATOR, "overlapping-boxes"),), ((GENERATOR, "disjoint"),), (D_MODEL,)),
        None,
        place=OPEN,
        quote="effective rank, which can be much lower than actual rank",
        note="Equal in facts, values, bits and rank (exactly 20). If rank alone measured the size of a table, this "
        "would be 0. The paper leaves effective rank open and gives no number.",
    ),
    ours(
        "higher effective rank, lower recall",
        "Spearman's correlation of recall with the certified upper bound of the effective rank.",
        _correlation(EFFECTIVE),
        None,
        note="Nothing is published, since the paper has no good bounds on effective rank. Ours are certified in a "
        "fraction of a second per table and are not tight: a longer search certifies 7 for random tables of this size.",
    ),
    Claim(
        "more bits by query, lower recall",
        "Spearman's correlation of recall with the information of the table, each query with its own range.",
        _correlation("bits_by_query"),
        None,
        place="cf. the abstract",
        note="Tables equal in n log2 |V| differ in sum_q n_q log2 |V_q|, from 200 bits to 864. Over the six kinds "
        "this number grows with the rank, so these tables cannot separate the two.",
        extension=True,
    ),
    ours(
        "effective rank against rank",
        "Does effective rank predict recall better than rank? Its correlation less that of the upper bound of the "
        "rank.",
        _correlation(EFFECTIVE, _correlation(RANK_UPPER)),
        None,
        note="Both correlations should be negative, so a negative difference means that effective rank predicts "
        "better. Nothing is published.",
    ),
    ours(
        "effective rank at equal rank",
        "Among the two kinds of rank 20, the correlation of recall with the upper bound of the effective rank.",
        Quantity("rank correlation", ARGMAX, EFFECTIVE, (D_MODEL,), EQUAL_RANK),
        None,
        note="Overlapping boxes and disjoint ranges, between which rank cannot discriminate. Nothing is published.",
    ),
)

EFFECTIVE_RANK = Study(
    name="effective-rank",
    title="Rank or effective rank: which measures the size of a table of facts?",
    source=source("Proposition 2.1 and Example 2.4; open questions of a summary"),
    question="Among tables with equally many facts, values and bits, does rank or effective rank predict how many "
    "facts a layer recalls?",
    method="The same layers learn six kinds of full tables with 20 keys, 10 queries and 20 values (200 facts, 864 "
    "bits). Their ranks differ (about 20, or 33 to 140), and those of rank 20 differ in effective rank. Bounds on "
    "both are certified for each table and compared with recall after training.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
