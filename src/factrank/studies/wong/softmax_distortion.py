"""Softmax distortion: the rank of softmax>=tau(L) against tau, temperature and precision.

Argmax and softmax can increase rank without limit (Propositions 3.6 and 3.7). The proposed experiment: for a fixed
layer and database, rank(softmax>=tau(L)) for tau from 0.5 to 0.99. The rank of a 0/1 tensor is not known, so we use
three proxies: its largest flattening rank (a certified lower bound), the best certified upper bound, and Proposition
2.1. For at most 20 tensors of 10 x 5 x 10 we also compute the numeric CP rank.

Our choices, where the paper leaves them open: layers of d_model 8 with one head and d_qk = 4 on random tables of 20
keys, 10 queries and 20 values, full (200 facts) or half full (100). At these sizes training ends with only some facts
recalled confidently, so thresholds matter. Temperature divides the logits after training. For precision, the trained
weights are rounded and the layer and its softmax are computed in that precision; training is in float32. A tall table
(80 keys, 2 queries, 80 values) with a layer of rank at most 6 leaves room for inflation that flattenings can certify.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Quantity, Where
from factrank.experiments.study import Size, Study
from factrank.families.attention import Ranks, Readings
from factrank.studies.parts import readings_chart, readings_claim, readings_summary
from factrank.studies.wong.settings import (
    D_VO,
    LAYER_RANK,
    N_FACTS,
    N_KEYS,
    SEEDS,
    TAU,
    TAU_TITLE,
    TAUS,
    TITLES,
    crossed,
    single_head,
    source,
    uniform_table,
)

WIDE, TALL, SMALL = 20, 80, 10
"""Number of keys in the three kinds of table."""
TEMPERATURES = (0.5, 1.0, 2.0)
D_VOS: dict[Size, tuple[int, ...]] = {"quick": (2, 8), "full": (1, 2, 4, 8)}
CP_TAUS = (0.5, TAU)
"""Two tensors per layer, 20 in all."""

READ = (
    Ranks(),
    Readings(taus=TAUS, temperatures=TEMPERATURES, precisions=("float32", "float64", "bfloat16"), ranks=True),
)
READ_CP = (Ranks(), Readings(taus=CP_TAUS, ranks=True, cp=True))


def trials(size: Size) -> list[Trial]:
    """Returns each layer once; its readouts are measured in every combination."""
    shapes = [single_head(8, d_vo, 4) for d_vo in D_VOS[size]]
    listed = []
    for seed in SEEDS[size]:
        wide = [uniform_table(WIDE, 10, 20, n_facts, seed) for n_facts in (100, 200)]
        tall, small = uniform_table(TALL, 2, 80, 160, seed), uniform_table(SMALL, 5, 10, 50, seed)
        listed += crossed(wide, shapes, seed, READ)
        listed += crossed([tall], [single_head(4, 2, 4)], seed, READ)
        listed += crossed([small], [single_head(5, 2, 3)], seed, READ_CP)
    return listed


PROXIES = (("largest flattening", "flattening"), ("best upper bound", "upper"), ("Proposition 2.1", "proposition"))
PLAIN: Where = (("temperature", 1.0), ("precision", "float32"))
ON_WIDE: Where = ((N_KEYS, WIDE),)
RANK_TITLE = "rank of softmax≥τ(L)"
TABLES = (N_FACTS, D_VO)


def _means(where: Where, *more: tuple[str, str]) -> tuple[tuple[str, Quantity], ...]:
    """Returns the mean of each proxy."""
    return tuple((label, Quantity("mean", column, where=where)) for label, column in (*PROXIES, *more))


CHARTS = (
    readings_chart(
        "rank-by-tau",
        "Best upper bound on the rank of softmax≥τ(L) against τ",
        "lines",
        x="tau",
        y="upper",
        colour=D_VO,
        facet=N_FACTS,
        where=(*ON_WIDE, *PLAIN),
        y_title=RANK_TITLE,
    ),
    readings_chart(
        "rank-by-temperature",
        f"Best upper bound on the rank of softmax≥{TAU}(L) against temperature",
        "lines",
        x="temperature",
        y="upper",
        colour=D_VO,
        facet=N_FACTS,
        where=(*ON_WIDE, ("tau", TAU), ("precision", "float32")),
        y_title=RANK_TITLE,
    ),
    readings_chart(
        "rank-by-precision",
        f"Best upper bound on the rank of softmax≥{TAU}(L) in three precisions",
        "bars",
        x="precision",
        y="upper",
        colour=D_VO,
        facet=N_FACTS,
        where=(*ON_WIDE, ("tau", TAU), ("temperature", 1.0)),
        y_title=RANK_TITLE,
    ),
    readings_chart(
        "inflation-of-a-tall-table",
        "Largest flattening of softmax≥τ(L) for a layer of rank at most 6 (80 keys, 2 queries)",
        "lines",
        x="tau",
        y="flattening",
        colour="temperature",
        where=((N_KEYS, TALL), ("precision", "float32")),
        y_title="lower bound on the rank of softmax≥τ(L)",
    ),
    readings_chart(
        "recall-by-tau",
        "Recall at confidence τ of the same layers",
        "lines",
        x="tau",
        y="recall",
        colour=D_VO,
        facet=N_FACTS,
        where=(*ON_WIDE, *PLAIN),
        y_title="recall at confidence τ",
    ),
)


def _less_float32(tau: float) -> Quantity:
    """Returns the effect of bfloat16 at one threshold."""
    where: Where = (*ON_WIDE, ("temperature", 1.0), ("tau", tau))
    other = Quantity("mean", "upper", where=(*where, ("precision", "float32")))
    return Quantity("mean", "upper", where=(*where, ("precision", "bfloat16")), minus=other)


SUMMARIES = (
    readings_summary(
        "proxies-by-tau",
        "Three proxies of the rank of softmax≥τ(L) against τ, averaged over d_vo",
        _means((*ON_WIDE, *PLAIN)),
        over=("tau", N_FACTS),
        y_title=RANK_TITLE,
    ),
    readings_summary(
        "temperatures",
        "Best upper bound at three temperatures",
        (("best upper bound", Quantity("mean", "upper", where=(*ON_WIDE, ("precision", "float32")))),),
        over=("tau", "temperature", N_FACTS),
        y_title=RANK_TITLE,
    ),
    readings_summary(
        "precisions",
        "Best upper bound in three precisions",
        (("best upper bound", Quantity("mean", "upper", where=(*ON_WIDE, ("temperature", 1.0)))),),
        over=("tau", "precision", N_FACTS),
        y_title=RANK_TITLE,
    ),
    readings_summary(
        "numeric-cp",
        "The proxies and the numeric CP rank, 10 keys, 5 queries, 10 values",
        _means(((N_KEYS, SMALL),), ("numeric CP", "cp")),
        over=("tau",),
        y_title=RANK_TITLE,
    ),
    readings_summary(
        "bfloat16-by-tau",
        "Best upper bound in bfloat16 minus that in float32, at each τ",
        tuple((str(tau), _less_float32(tau)) for tau in TAUS),
        over=(),
        x="quantity",
        x_title=TAU_TITLE,
        y_title="rank in bfloat16 minus rank in float32",
    ),
)


def _upper(*where: tuple[str, str | float], minus: Quantity | None = None) -> Quantity:
    """Returns the mean of the best upper bound over all layers on the wide tables, at tau = 0.95."""
    return Quantity("mean", "upper", where=(*ON_WIDE, ("tau", TAU), *where), minus=minus)


def _over_taus(precision: str, minus: Quantity | None = None) -> Quantity:
    """Returns the mean of the best upper bound over all thresholds."""
    where: Where = (*ON_WIDE, ("temperature", 1.0), ("precision", precision))
    return Quantity("mean", "upper", within=("tau",), where=where, minus=minus)


CLAIMS = (
    readings_claim(
        "rank falls with tau",
        "The rank of softmax>=tau(L) falls as tau grows.",
        Quantity("slope", "upper", "tau", within=TABLES, where=(*ON_WIDE, *PLAIN)),
        "falls",
        by_construction="a higher threshold keeps fewer entries",
        place="design trade-offs of a summary",
        quote="Lower τ allows higher effective capacity but looser guarantees",
        note="Best upper bound per unit of tau at each table and d_vo, averaged. At higher tau fewer entries are 1.",
    ),
    readings_claim(
        "softmax raises rank",
        f"The rank of softmax>={TAU}(L) exceeds that of L, proved.",
        Quantity("mean", f"flattening - {LAYER_RANK}", where=((N_KEYS, TALL), *PLAIN, ("tau", TAU))),
        "greater",
        place="Propositions 3.6 and 3.7, quoted from a summary",
        quote="Argmax and softmax operations can arbitrarily inflate tensor rank",
        note="Largest flattening of the readout minus the upper bound on rank(L), which is 6; 80 keys and 2 queries.",
    ),
    readings_claim(
        "coarse arithmetic limits it",
        "The rank of softmax>=tau(L) is lower in bfloat16 than in float32, over all tau.",
        _over_taus("bfloat16", minus=_over_taus("float32")),
        "less",
        place="mechanism 3 of a summary",
        quote="Limited machine precision bounds practical rank inflation",
        note="The summary does not name a precision; bfloat16 has 8 bits of significand, float32 has 24. Difference "
        "of best upper bounds on the same layers, averaged over the 7 thresholds. The claim was first judged at 0.95 "
        "alone, where the difference is negative; at 0.99 it is positive, because rounding the probabilities to "
        "bfloat16 also shifts the threshold.",
    ),
    readings_claim(
        "float64 against float32",
        f"The rank of softmax>={TAU}(L) in float64 less that in float32.",
        _upper(
            ("temperature", 1.0), ("precision", "float64"), minus=_upper(("temperature", 1.0), ("precision", "float32"))
        ),
        None,
        place="limitations of a summary",
        quote="the practical impact of softmax rank inflation depends on numerical precision and temperature scaling",
        note="No direction is published for precisions above that of training.",
    ),
    readings_claim(
        "temperature",
        f"The rank of softmax>={TAU}(L) at temperature 0.5 less that at temperature 2.",
        _upper(
            ("temperature", 0.5), ("precision", "float32"), minus=_upper(("temperature", 2.0), ("precision", "float32"))
        ),
        None,
        place="limitations of a summary",
        quote="the practical impact of softmax rank inflation depends on numerical precision and temperature scaling",
        note="The summary gives no direction. At lower temperatures more entries exceed tau.",
    ),
    readings_claim(
        "numeric CP above the flattening",
        "The numeric CP rank less the largest flattening (20 tensors).",
        Quantity("mean", "cp - flattening", where=((N_KEYS, SMALL),)),
        None,
        place="cf. the third of the proposed experiments",
        note="Distance from the certified lower proxy up to an estimate; nothing is published on this.",
        extension=True,
    ),
    readings_claim(
        "numeric CP below the upper bound",
        "The best upper bound less the numeric CP rank (20 tensors).",
        Quantity("mean", "upper - cp", where=((N_KEYS, SMALL),)),
        None,
        place="cf. the third of the proposed experiments",
        note="Distance from an estimate up to the certified upper proxy; nothing is published on this.",
        extension=True,
    ),
)

SOFTMAX_DISTORTION = Study(
    name="softmax-distortion",
    title="Softmax distortion: the rank of a thresholded readout",
    source=source("Propositions 3.6 and 3.7; third of the proposed experiments"),
    question="For a fixed layer and table, how does the rank of softmax≥τ(L) change with the threshold τ, the "
    "temperature and the arithmetic precision?",
    method="We train single-head layers once on random tables, then take their readouts at 7 thresholds, 3 "
    "temperatures and 3 precisions. Each readout is a 0/1 tensor whose rank is bounded from below by its largest "
    "flattening and from above by the best constructive bound; Proposition 2.1 is a third proxy, and the numeric CP "
    "rank a fourth on 20 small tensors. A tall table, for which the layer has rank at most 6, shows inflation that "
    "can be proved.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
