"""Cross-threshold correlation: for which tau does the rank of softmax>=tau(L) correlate best with recall at tau?

According to our sources, Figure 3 of the paper shows that rank and accuracy correspond best at tau = 0.95. They do not
say how this was measured; one proposed check is tau-accuracy against the rank of softmax>=tau(L). We compute that
Spearman correlation over many pairs of a table and a layer, for each tau and each of three proxies of the rank. A tau
counts as best only if the intervals of its differences to all others exclude 0.

Our choices, where the paper leaves them open: 20 keys and 10 queries; random tables of 50 to 200 facts with 20 values,
tables cut into boxes of known rank, and tables whose queries share no value; single-head layers of d_model 4 to 12 with
d_qk 4. The paper itself measures the rank of a tensor by Proposition 2.1, so the claims are judged by it; the summaries
also show the two certified bounds. Correlations over all pairs mix differences between tables and between layers; a
second summary correlates within tables only.
"""

from __future__ import annotations

from factrank.experiments.specs import Generated, Trial, generated
from factrank.experiments.statistics import Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import Ranks, Readings
from factrank.studies.parts import readings_chart, readings_claim, readings_summary
from factrank.studies.wong.settings import (
    D_MODEL,
    D_VO,
    GENERATOR,
    LAYER_RANK,
    N_FACTS,
    RANK,
    SEEDS,
    TAU,
    TAUS,
    TITLES,
    boxes,
    crossed,
    single_head,
    source,
    uniform_table,
)

KEYS, QUERIES, VALUES = 20, 10, 20
FACTS: dict[Size, tuple[int, ...]] = {"quick": (50, 200), "full": (50, 100, 150, 200)}
RANKS: dict[Size, tuple[int, ...]] = {"quick": (80,), "full": (40, 80, 120)}
SHAPES: dict[Size, tuple[tuple[int, int], ...]] = {
    "quick": ((4, 1), (4, 4), (8, 4), (12, 12)),
    "full": ((4, 1), (4, 4), (8, 1), (8, 4), (8, 8), (12, 4), (12, 12)),
}
"""d_model and d_vo."""
OTHER_TAUS = tuple(tau for tau in TAUS if tau != TAU)
LOWER_TAUS, HIGHEST_TAU = tuple(tau for tau in TAUS if tau < TAU), max(TAUS)
MEASURES = (Ranks(), Readings(taus=TAUS, ranks=True))


def trials(size: Size) -> list[Trial]:
    """Returns one trial per shape, table and seed."""
    shapes = [single_head(d_model, d_vo, 4) for d_model, d_vo in SHAPES[size]]
    return [trial for seed in SEEDS[size] for trial in crossed(_tables(size, seed), shapes, seed, MEASURES)]


def _tables(size: Size, seed: int) -> list[Generated]:
    return [
        *(uniform_table(KEYS, QUERIES, VALUES, n_facts, seed) for n_facts in FACTS[size]),
        *(boxes(KEYS, QUERIES, rank, seed) for rank in RANKS[size]),
        generated("disjoint", n_keys=KEYS, n_queries=QUERIES, values_per_query=4, seed=seed),
    ]


PROXIES = {"largest flattening": "flattening", "best upper bound": "upper", "Proposition 2.1": "proposition"}
PUBLISHED_PROXY = "proposition"
TABLES = (GENERATOR, N_FACTS, RANK)
CORRELATION_TITLE = "rank correlation with recall at confidence τ"


def _correlation(column: str, tau: float | None = None, within: tuple[str, ...] = ()) -> Quantity:
    """Returns the Spearman correlation of tau-recall with a column, at one tau or at that of the summary row."""
    where = (("tau", tau),) if tau is not None else ()
    return Quantity("rank correlation", "recall", column, within=within, where=where)


def _less(column: str, tau: float, within: tuple[str, ...] = ()) -> Quantity:
    """Returns the correlation at 0.95 minus that at another tau."""
    other = _correlation(column, tau, within)
    return Quantity("rank correlation", "recall", column, within, where=(("tau", TAU),), minus=other)


CHARTS = (
    readings_chart(
        "recall-by-rank",
        "Recall at confidence τ against the best upper bound on the rank of softmax≥τ(L)",
        "points",
        x="upper",
        y="recall",
        colour=GENERATOR,
        facet="tau",
        where=(("tau", (0.5, TAU, 0.99)),),
        x_title="upper bound on the rank of softmax≥τ(L)",
        y_title="recall at confidence τ",
    ),
    readings_chart(
        "recall-by-proposition",
        "The same with Proposition 2.1, random tables",
        "points",
        x="proposition",
        y="recall",
        colour=N_FACTS,
        facet="tau",
        where=(("tau", (0.5, TAU, 0.99)), (GENERATOR, "uniform")),
        x_title="Proposition 2.1 of softmax≥τ(L)",
        y_title="recall at confidence τ",
    ),
    readings_chart(
        "recall-by-tau",
        "Recall at confidence τ, by number of facts in random tables",
        "lines",
        x="tau",
        y="recall",
        colour=N_FACTS,
        where=((GENERATOR, "uniform"),),
        y_title="recall at confidence τ",
    ),
)


def _differences(label: str, column: str) -> Summary:
    return readings_summary(
        f"best-tau-{column}",
        f"Rank correlation at τ = {TAU} minus that at each other τ: {label}",
        tuple((str(tau), _less(column, tau)) for tau in OTHER_TAUS),
        over=(),
        x="quantity",
        x_title="the other threshold",
        y_title=f"correlation at {TAU} minus that at the other",
    )


def _within_pairs(name: str, facet: str, where: Where, panels: str) -> Chart:
    """Returns small multiples of single pairs: each line is one table and one layer, and its points are thresholds."""
    pairs: Where = (("seed", 0), (GENERATOR, "uniform"), (N_FACTS, (50, 100, 200)))
    return readings_chart(
        name,
        f"Recall against rank as τ rises from 0.5 to 0.99, one line for each pair of a table and a layer: {panels}",
        "lines",
        x="proposition",
        y="recall",
        colour=N_FACTS,
        facet=facet,
        where=(*pairs, *where),
        x_title="Proposition 2.1 of softmax≥τ(L)",
        y_title="recall at confidence τ",
    )


WITHIN_PAIRS = (
    _within_pairs("within-pairs-by-width", D_MODEL, ((D_VO, 4),), "d_vo 4, by d_model"),
    _within_pairs("within-pairs-by-d_vo", D_VO, ((D_MODEL, 8),), "d_model 8, by d_vo"),
)

SUMMARIES = (
    readings_summary(
        "correlations",
        "Rank correlation of recall at confidence τ with the rank of softmax≥τ(L), over all pairs",
        tuple((label, _correlation(column)) for label, column in PROXIES.items()),
        over=("tau",),
        y_title=CORRELATION_TITLE,
    ),
    readings_summary(
        "correlations-within-tables",
        "The same within tables of one kind and size, averaged",
        tuple((label, _correlation(column, within=TABLES)) for label, column in PROXIES.items()),
        over=("tau",),
        y_title=CORRELATION_TITLE,
    ),
    readings_summary(
        "correlations-with-the-layer",
        "Rank correlation of recall at confidence τ with quantities known before training",
        (
            ("bound on rank(L)", _correlation(LAYER_RANK)),
            ("bound on rank(L) / rank of the table at least", _correlation(f"{LAYER_RANK} / rank_lower")),
            ("bound on rank(L) / rank of the table at most", _correlation(f"{LAYER_RANK} / rank_upper")),
        ),
        over=("tau",),
        y_title=CORRELATION_TITLE,
    ),
    readings_summary(
        "within-pairs",
        "Recall gained per unit of rank over the thresholds of each random table and layer of d_model 4, averaged",
        tuple(
            (label, Quantity("slope", "recall", column, (D_VO, N_FACTS), ((D_MODEL, 4), (GENERATOR, "uniform"))))
            for label, column in PROXIES.items()
        ),
        over=(),
        x="quantity",
        x_title="proxy of the rank",
        y_title="recall per unit of rank",
    ),
    *(_differences(label, column) for label, column in PROXIES.items()),
    readings_summary(
        "best-tau-within-tables",
        f"Rank correlation at τ = {TAU} minus that at 0.9 and at {HIGHEST_TAU}, within tables of one kind and size",
        tuple(
            (f"{label}, {tau}", _less(column, tau, TABLES))
            for label, column in PROXIES.items()
            for tau in (0.9, HIGHEST_TAU)
        ),
        over=(),
        x="quantity",
        x_title="proxy of the rank, and the other threshold",
        y_title=f"correlation at {TAU} minus that at the other",
    ),
)

BEST = (
    "Thresholded softmax (softmax≥τ) at τ=0.95 provides optimal balance between rank preservation and memorization "
    "accuracy"
)

CLAIMS = (
    readings_claim(
        "rank goes with recall",
        f"At tau = {TAU}, tau-recall goes with the rank of softmax>=tau(L).",
        _correlation(PUBLISHED_PROXY, TAU),
        "greater",
        place="Figure 3, quoted from a summary",
        note="Whether 0.95 is the best threshold is asked by the next two claims. Rank correlation over all pairs of a "
        "table and a layer, with the rank given by Proposition 2.1.",
    ),
    readings_claim(
        f"{TAU} is better than lower thresholds",
        f"Rank and recall agree better at tau = {TAU} than at lower thresholds.",
        Quantity(
            "rank correlation",
            "recall",
            PUBLISHED_PROXY,
            where=(("tau", TAU),),
            minus=Quantity("rank correlation", "recall", PUBLISHED_PROXY, ("tau",), (("tau", LOWER_TAUS),)),
        ),
        "greater",
        place="Figure 3, quoted from a summary",
        quote=BEST,
        note="Rank correlation minus the mean of those at 0.5 to 0.9, on the same pairs; the summary lists each. Our "
        "sources do not say which values of tau were compared, nor by which measure.",
    ),
    readings_claim(
        f"{TAU} is better than {HIGHEST_TAU}",
        f"Rank and recall agree better at tau = {TAU} than at {HIGHEST_TAU}.",
        _less(PUBLISHED_PROXY, HIGHEST_TAU),
        "greater",
        place="Figure 3, quoted from a summary",
        quote=BEST,
        note="As before, for the one higher threshold that we tried.",
    ),
)

CROSS_THRESHOLD = Study(
    name="cross-threshold",
    title="Cross-threshold correlation: which τ ties rank to recall?",
    source=source("Figure 3; second of the proposed checks"),
    question="Over many pairs of a table and a layer, how well does the rank of softmax≥τ(L) correlate with recall at "
    f"confidence τ, and is τ = {TAU} the best?",
    method="We train single-head layers of several widths on random tables of several sizes, on tables cut into "
    "boxes, and on tables whose queries share no value. For each of 7 thresholds we take the readout of each layer "
    "and correlate three proxies of its rank with the fraction of facts that it recalls. Intervals come from "
    "resampling whole seeds, so differences between thresholds are judged on the same pairs.",
    trials=trials,
    charts=(*CHARTS, *WITHIN_PAIRS),
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
