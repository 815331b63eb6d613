"""Rank or information: at equal size and equal bits, what predicts how much a layer recalls?

In our other tables of known rank the number of values, and with it the bits, grows with the rank, and most layers
recall everything. Here all 32 kinds of table have 200 facts, 5 queries and 8 values, and every query uses all 8: 600
bits, by query too. Only what the queries share differs (generator `shared-functions`):

- g of the 5 queries have different functions, and s of the 8 values go to the same keys under all of them. The rank is
  exactly s + 1 + g (7 - s), from 8 to 36, with certified bounds that meet; the planted terms overlap.
- In some kinds, 40 keys form 8, 16 or 24 classes that answer alike. This lowers the number of independent values, c (1
  + (g - 1)(1 - s/8)), far more than the rank: description length and rank are no longer tied.
- In 20 kinds the table is full (40 keys), so completion rank and rank are equal. In 12 kinds every key lacks one query
  (50 keys, again 200 facts). This raises the rank to 31 to 40; the completion rank is still at most s + 1 + g (7 - s).

Layers are single heads with d_model 4 and 8, chosen on tables of seeds from 1,000 up so that most fail.
Correlations are of ranks (Spearman), at each width, with intervals over kinds of table: a kind is one observation,
however many tables of it were drawn.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.specs import Generated, Measure, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import Ranks, Readings
from factrank.studies.parts import readings_chart
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_MODEL,
    RANK_LOWER,
    RANK_UPPER,
    TAU,
    TITLES,
    TRAINING,
    single_head,
    source,
)

QUERIES, VALUES = 5, 8
KEYS = {0: 40, 1: 50}
"""By the number of queries that a key lacks: 200 facts in both cases."""
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (4,), "full": (4, 8)}
SEEDS: dict[Size, range] = {"quick": range(3), "full": range(30)}
READ = 2
"""Number of tables of each full kind whose readouts are measured."""

Kind = tuple[int, int, int | None]
"""Number of functions, of shared values, and of classes of keys (None: every key is its own)."""
FULL_KINDS: tuple[Kind, ...] = (
    (1, 0, None),
    *((functions, shared, None) for functions in (2, 3, 4, 5) for shared in (0, 2, 4)),
    (5, 6, None),
    (5, 0, 8),
    (5, 0, 16),
    (5, 0, 24),
    (3, 0, 8),
    (3, 0, 16),
    (5, 4, 16),
)
PARTIAL_KINDS: tuple[Kind, ...] = (
    (1, 0, None),
    *((functions, shared, None) for functions in (2, 3) for shared in (0, 4)),
    *((4, shared, None) for shared in (0, 2)),
    *((5, shared, None) for shared in (0, 2, 4, 6)),
    (5, 0, 16),
)


def table(kind: Kind, n_missing: int, seed: int) -> Generated:
    """Returns a table of a kind; all its sizes are arguments, which makes them columns."""
    n_functions, n_shared, n_classes = kind
    return generated(
        "shared-functions",
        n_keys=KEYS[n_missing],
        n_queries=QUERIES,
        n_values=VALUES,
        n_functions=n_functions,
        n_shared=n_shared,
        n_classes=n_classes or KEYS[n_missing],
        n_missing=n_missing,
        seed=seed,
    )


def trials(size: Size) -> list[Trial]:
    """Returns one trial per seed, kind of table and width, with d_vo = d_qk = d_model / 2, rounded up."""
    kinds = [(kind, 0) for kind in FULL_KINDS] + [(kind, 1) for kind in PARTIAL_KINDS]
    return [
        Trial(
            table(kind, n_missing, seed),
            single_head(width, -(-width // 2), -(-width // 2)),
            TRAINING,
            seed=seed,
            measures=_measures(seed, n_missing),
        )
        for seed in SEEDS[size]
        for kind, n_missing in kinds
        for width in WIDTHS[size]
    ]


def _measures(seed: int, n_missing: int) -> tuple[Measure, ...]:
    """Returns the ranks of the table; for the first full tables also the rank of the readout."""
    read = seed < READ and not n_missing
    return (Ranks(), Readings(taus=(TAU,), ranks=True)) if read else (Ranks(),)


FUNCTIONS, SHARED, CLASSES, MISSING = "data.n_functions", "data.n_shared", "data.n_classes", "data.n_missing"
KIND = f"10000 * {MISSING} + 1000 * {FUNCTIONS} + 100 * {SHARED} + {CLASSES}"
PLANTED = f"{SHARED} + 1 + {FUNCTIONS} * (7 - {SHARED})"
"""An upper bound of the completion rank, by construction; the rank itself of a full table without classes."""
INDEPENDENT = f"{CLASSES} * (1 + ({FUNCTIONS} - 1) * (1 - {SHARED} / 8))"
"""Number of values that are drawn independently: the information of a table that knows what is shared."""
EFFECTIVE = "effective_upper"
FULL: Where = ((MISSING, 0),)
PARTIAL: Where = ((MISSING, 1),)

PREDICTORS = {
    "rank, at least": RANK_LOWER,
    "rank, at most": RANK_UPPER,
    "completion rank, at most (planted)": PLANTED,
    "effective rank, at most": EFFECTIVE,
    "independent values": INDEPENDENT,
}


def _correlation(
    column: str, where: Where, given: tuple[str, ...] = (), minus: Quantity | None = None, recall: str = ARGMAX
) -> Quantity:
    return Quantity("rank correlation", recall, column, (D_MODEL,), where, minus, given=given)


def _alone(where: Where) -> tuple[tuple[str, Quantity], ...]:
    return tuple(
        (label, Quantity("rank correlation", ARGMAX, column, where=where)) for label, column in PREDICTORS.items()
    )


def _beyond(where: Where, pairs: dict[str, tuple[str, str]]) -> tuple[tuple[str, Quantity], ...]:
    return tuple(
        (label, Quantity("rank correlation", ARGMAX, column, where=where, given=(held,)))
        for label, (column, held) in pairs.items()
    )


CHARTS = (
    Chart(
        "recall-by-rank",
        "Recall against the rank of full tables of 200 facts, 8 values and 600 bits",
        "points",
        x=RANK_UPPER,
        y=ARGMAX,
        colour=FUNCTIONS,
        facet=D_MODEL,
        where=FULL,
        x_title="rank of the table, certified upper bound",
    ),
    Chart(
        "recall-by-independent-values",
        "The same tables against the number of independent values",
        "points",
        x=INDEPENDENT,
        y=ARGMAX,
        colour=FUNCTIONS,
        facet=D_MODEL,
        where=FULL,
        x_title="independent values",
    ),
    readings_chart(
        "ranks-of-readouts",
        f"Rank of softmax≥{TAU}(L) against the rank of the table; on the diagonal if all is recalled with confidence",
        "points",
        x=RANK_UPPER,
        y="upper",
        colour=D_MODEL,
        x_title="rank of the table, certified upper bound",
        y_title=f"rank of softmax≥{TAU}(L), certified upper bound",
        references=(ReferenceLine("equal ranks", "x"),),
    ),
)

SUMMARIES = (
    Summary(
        "what-predicts-recall",
        "Rank correlation of recall with measures of size, full tables of equal bits",
        _alone(FULL),
        over=(D_MODEL,),
        y_title="rank correlation with recall",
        kinds=KIND,
    ),
    Summary(
        "what-predicts-recall-of-partial-tables",
        "Rank correlation of recall with measures of size, partial tables of equal bits",
        _alone(PARTIAL),
        over=(D_MODEL,),
        y_title="rank correlation with recall",
        kinds=KIND,
    ),
    Summary(
        "beyond-the-other",
        "Partial rank correlation of recall with one measure, the other held constant, full tables",
        _beyond(
            FULL,
            {
                "rank at least, given independent values": (RANK_LOWER, INDEPENDENT),
                "rank at most, given independent values": (RANK_UPPER, INDEPENDENT),
                "independent values, given rank at least": (INDEPENDENT, RANK_LOWER),
                "independent values, given rank at most": (INDEPENDENT, RANK_UPPER),
                "effective rank at most, given rank at most": (EFFECTIVE, RANK_UPPER),
            },
        ),
        over=(D_MODEL,),
        y_title="partial rank correlation with recall",
        kinds=KIND,
    ),
    Summary(
        "beyond-the-other-in-partial-tables",
        "Partial rank correlation of recall with one measure, the other held constant, partial tables",
        _beyond(
            PARTIAL,
            {
                "rank, given planted completion rank": (RANK_LOWER, PLANTED),
                "planted completion rank, given rank": (PLANTED, RANK_LOWER),
                "planted completion rank, given independent values": (PLANTED, INDEPENDENT),
                "independent values, given planted completion rank": (INDEPENDENT, PLANTED),
            },
        ),
        over=(D_MODEL,),
        y_title="partial rank correlation with recall",
        kinds=KIND,
    ),
    Summary(
        "recall-by-kind",
        "Recall of each kind of table by layers of d_model 4: all facts present, and one query missing for each key",
        (
            ("full", Quantity("mean", ARGMAX, where=((D_MODEL, 4), *FULL))),
            ("partial", Quantity("mean", ARGMAX, where=((D_MODEL, 4), *PARTIAL))),
        ),
        over=(FUNCTIONS, SHARED, CLASSES),
        y_title="recall",
    ),
    Summary(
        "sizes-of-kinds",
        "Certified ranks of the full kinds of table, means over tables",
        tuple((label, Quantity("mean", column, where=FULL)) for label, column in PREDICTORS.items()),
        over=(FUNCTIONS, SHARED, CLASSES),
        y_title="size",
    ),
)

QUOTE = "propose the rank of this tensor as a measure of the size of the database"
ours = partial(Claim, place="cf. the abstract", quote=QUOTE, extension=True, kinds=KIND)
COMPLETION_QUOTE = "effective rank, which can be much lower than actual rank"

CLAIMS = (
    ours(
        "rank predicts recall at equal bits",
        "Of tables with equal facts, values and bits, those of higher rank are recalled less.",
        _correlation(RANK_UPPER, FULL),
        "less",
        note="Spearman correlation of recall with the certified upper bound, over 20 kinds of full table, at each "
        "width, averaged. The bounds meet in 14 kinds; the lower bound is the next claim.",
    ),
    ours(
        "rank predicts recall at equal bits, by the lower bound",
        "Tables with a higher certified lower bound of the rank are recalled less.",
        _correlation(RANK_LOWER, FULL),
        "less",
        note="As before.",
    ),
    ours(
        "rank counts beyond independent values",
        "At an equal number of independent values, tables of higher rank are recalled less.",
        _correlation(RANK_UPPER, FULL, (INDEPENDENT,)),
        "less",
        note="Partial rank correlation, intervals over 20 kinds. If only information counted, this would be 0.",
    ),
    ours(
        "independent values count beyond rank",
        "At equal rank, tables with more independent values are recalled less.",
        _correlation(INDEPENDENT, FULL, (RANK_UPPER,)),
        "less",
        note="Partial rank correlation, intervals over 20 kinds. If only rank counted, this would be 0.",
    ),
    ours(
        "independent values against rank",
        "Which of the two goes closer with recall: the correlation with independent values less that with the rank?",
        _correlation(INDEPENDENT, FULL, minus=_correlation(RANK_UPPER, FULL)),
        None,
        note="Both correlations should be negative, so a negative difference means that the number of independent "
        "values predicts better. Nothing is published.",
    ),
    ours(
        "effective rank counts beyond rank",
        "Does the certified upper bound of the effective rank predict recall at equal rank?",
        _correlation(EFFECTIVE, FULL, (RANK_UPPER,)),
        None,
        note="In these tables the bound is the number of different functions plus 1 and the lower bound is always 2, "
        "so the bracket says little more than how many queries differ.",
    ),
    ours(
        "rank predicts recall at equal bits, confidently",
        f"Recall at confidence {TAU} falls with the rank of the table at equal bits.",
        _correlation(RANK_UPPER, FULL, recall=CONFIDENT),
        "less",
        note="As the first claim, with softmax>=tau instead of argmax.",
    ),
    ours(
        "completion rank counts beyond rank",
        "Of partial tables of equal rank, those of higher planted completion rank are recalled less.",
        _correlation(PLANTED, PARTIAL, (RANK_LOWER,)),
        "less",
        quote=COMPLETION_QUOTE,
        note="Partial rank correlation over 12 kinds of partial table. The planted number is an upper bound of the "
        "completion rank by construction.",
    ),
    ours(
        "rank counts beyond completion rank",
        "Of partial tables of equal planted completion rank, how does recall change with the rank?",
        _correlation(RANK_LOWER, PARTIAL, (PLANTED,)),
        None,
        quote=COMPLETION_QUOTE,
        note="If a layer only has to be right where facts are, the rank of the 0/1 tensor should not matter: near 0.",
    ),
)

RANK_OR_INFORMATION = Study(
    name="rank-or-information",
    title="Rank or information: what predicts recall at equal bits?",
    source=source("abstract; open questions of a summary"),
    question="Among tables with equally many facts, values and bits, does recall follow the rank, the completion rank, "
    "the effective rank or the number of independent values?",
    method="We train single-head layers that are too small for their tables on 32 kinds of table, 30 tables each, "
    "with 200 facts, 5 queries, 8 values and 600 bits. What the queries share plants the rank, from 8 to 36; classes "
    "of keys that answer alike change the number of independent values; missing facts separate the rank from the "
    "completion rank. Bounds on ranks are certified for every table. Rank correlations are computed at each width, "
    "partial ones with the other measure held constant, and their intervals are over kinds of table. The quick size "
    "has d_model 4 only.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES | {FUNCTIONS: "number of different functions"},
)
