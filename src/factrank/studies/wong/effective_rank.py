"""Effective rank: tables that count alike but differ in rank and in effective rank: which of them predicts recall?

The paper measures a database by the rank of its tensor, and names bounds on effective rank (the least rank of a tensor
that answers rightly on the facts) as open. The six kinds of table here have 20 keys, 10 queries, 20 values, 200 facts
and hence n log2 |V| = 864 bits each, and meet the same layers:

- uniform: a random value for every pair; bijections: every query a random permutation. Rank between 33 and about 140.
- zipf: random values, common ones first (exponent 1.5). Rank between the others.
- disjoint: every query has two values of its own; structured: the same, with the keys in 5 classes;
  overlapping-boxes: the table cut into 20 boxes with a value each. Rank 20 (structured: up to 20), with different
  effective ranks.

Ranks are brackets certified for each table; where a correlation needs one number, the claim says which end it takes.
"""

from __future__ import annotations

from factrank.experiments.columns import label
from factrank.experiments.specs import Generated, Measures, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
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
MEASURES = Measures(taus=(TAU,), ranks=True)


def tables(seed: int) -> list[Generated]:
    """The six kinds of table, equal in keys, queries, values and facts."""
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
    """Three widths with d_vo = d_qk = d_model / 2 on all tables."""
    shapes = [single_head(width, width // 2, width // 2) for width in WIDTHS]
    return [trial for seed in MORE_SEEDS[size] for trial in crossed(tables(seed), shapes, seed, MEASURES)]


def _points(x: str, name: str, title: str, x_title: str) -> Chart:
    return Chart(
        name,
        title,
        "points",
        x=x,
        y=ARGMAX,
        colour=GENERATOR,
        facet=D_MODEL,
        x_title=x_title,
    )


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
        "Certified brackets of rank and effective rank, means over tables",
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
        "Spearman's correlation of recall with each size of a table, over all six kinds",
        tuple((label, Quantity("rank correlation", ARGMAX, column)) for label, column in PREDICTORS.items()),
        over=(D_MODEL,),
        y_title="rank correlation with recall",
    ),
)

OPEN = "open questions, quoted from a summary"
QUOTE = "The paper lacks good theoretical bounds for the effective rank of databases"
EQUAL_RANK: Where = ((GENERATOR, ("overlapping-boxes", "disjoint")),)

CLAIMS = (
    Claim(
        "higher rank, lower recall",
        "Among tables with equally many facts, values and bits, those of higher rank are recalled less.",
        _correlation(RANK_LOWER),
        "less",
        place="abstract and mechanism 1, quoted from a summary",
        quote="Database tensor rank captures structural complexity beyond simple triple counts",
        note="Spearman's correlation of recall with the certified lower bound of the rank, at each d_model, averaged.",
    ),
    Claim(
        "higher rank, lower recall, by the upper bound",
        "The same with the certified upper bound of the rank.",
        _correlation(RANK_UPPER),
        "less",
        place="abstract and mechanism 1, quoted from a summary",
        quote="propose the rank of this tensor as a measure of the size of the database",
        note="The brackets of random tables are wide, so both ends are given.",
    ),
    Claim(
        "equal rank, different recall",
        "Of two kinds of table of rank 20, how much more is recalled of overlapping boxes than of disjoint ranges?",
        Quantity(
            "mean",
            ARGMAX,
            within=(D_MODEL,),
            where=((GENERATOR, "overlapping-boxes"),),
            minus=Quantity("mean", ARGMAX, within=(D_MODEL,), where=((GENERATOR, "disjoint"),)),
        ),
        None,
        place=OPEN,
        quote="effective rank, which can be much lower than actual rank",
        note="Equal in facts, values, bits and rank (exactly 20). If rank alone were the size of a table, this would "
        "be 0. The paper leaves effective rank open and gives no number.",
    ),
    Claim(
        "higher effective rank, lower recall",
        "Spearman's correlation of recall with the certified upper bound of the effective rank.",
        _correlation(EFFECTIVE),
        None,
        place=OPEN,
        quote=QUOTE,
        note="The paper has no good bounds of effective rank, so that nothing is published about it. Ours are "
        "certified in a fraction of a second per table and not tight: a longer search certifies 7 for random tables of "
        "this size.",
        extension=True,
    ),
    Claim(
        "more bits by query, lower recall",
        "Spearman's correlation of recall with the information of the table, each query with its own range.",
        _correlation("bits_by_query"),
        None,
        place="beside the abstract",
        note="Tables equal in n log2 |V| differ in sum_q n_q log2 |V_q|: from 200 bits to 864. Rank and this number go "
        "together over the six kinds, so that neither can be told from the other by them.",
        extension=True,
    ),
    Claim(
        "effective rank against rank",
        "Does effective rank predict recall better than rank? Its correlation less that of the upper bound of the "
        "rank.",
        _correlation(EFFECTIVE, _correlation(RANK_UPPER)),
        None,
        place=OPEN,
        quote=QUOTE,
        note="Both correlations are expected below 0: a difference below 0 says that effective rank predicts better. "
        "Nothing is published.",
        extension=True,
    ),
    Claim(
        "effective rank at equal rank",
        "Among the two kinds of rank 20, the correlation of recall with the upper bound of the effective rank.",
        Quantity("rank correlation", ARGMAX, EFFECTIVE, (D_MODEL,), EQUAL_RANK),
        None,
        place=OPEN,
        quote=QUOTE,
        note="Overlapping boxes and disjoint ranges, where rank cannot predict anything. Nothing is published.",
        extension=True,
    ),
)

EFFECTIVE_RANK = Study(
    name="effective-rank",
    title="Rank or effective rank: which is the size of a table of facts?",
    source=source("Proposition 2.1 and Example 2.4; open questions of a summary"),
    question="Of tables with equally many facts, values and bits, is it the rank or the effective rank that tells how "
    "many facts a layer recalls?",
    method="Six kinds of full tables with 20 keys, 10 queries and 20 values (200 facts, 864 bits) are learnt by the "
    "same layers. Their ranks differ (about 20, or 33 to 140), and among those of rank 20 the effective ranks differ. "
    "Bounds of both are certified for each table; the trained recall is compared with them.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
