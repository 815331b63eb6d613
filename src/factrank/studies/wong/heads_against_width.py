"""Heads against width: many narrow heads or few wide ones, at the same n_heads x d_vo?

The paper's rank bound depends on n_heads and d_vo only through their product: with c = min(n_heads d_vo, d_model, |V|),
rank(L) <= min(|K|, |Q|) c + min(|Q|, rank U - c) for any d_qk. If this bound decided what training reaches, all shapes
of this study would recall equally much. With few tokens a different bound is sharper: a head contributes at most |K| +
|Q|, so rank(L) <= n_heads (|K| + |Q|) + min(|Q|, rank U). Only at 5 queries do all shapes have the same bounds under
both. A published summary of the paper says that the choice "depends on predicate diversity" without saying how.

Our choices: n_heads x d_vo = 8, in one family with d_qk = 2 per head (more heads have more query-key weights) and in
another with n_heads x d_qk = 8 (all shapes have the same number of parameters). Tables are full with |K| = |V| = 40;
with 20 keys and values, 4 heads recall everything at 10 queries.
"""

from __future__ import annotations

from factrank.experiments.columns import label
from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_MODEL,
    D_QK,
    MORE_SEEDS,
    N_HEADS,
    N_QUERIES,
    TITLES,
    TRAINING,
    full_table,
    source,
)

TOTAL = 8
"""n_heads x d_vo."""
HEADS = (1, 2, 4, 8)
ONE, MOST = HEADS[0], HEADS[-1]
PER_HEAD = 2
"""d_qk of the first family."""
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (5, 10, 20), "full": (5, 10, 20, 40)}
MODEL_WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8,), "full": (8, 12)}

SAME_D_QK: Where = ((D_QK, PER_HEAD),)
SAME_PARAMETERS: Where = ((f"{N_HEADS} * {D_QK}", TOTAL),)
BOTH_SIZES: Where = ((D_MODEL, 8), (N_QUERIES, (5, 10, 20)))
HEADS_TITLE = f"number of heads, n_heads × d_vo = {TOTAL}"


def shapes(d_model: int) -> list[LayerShape]:
    """Returns the shapes of both families; 4 heads with d_qk = 2 belong to both."""
    sizes = {(heads, d_qk) for heads in HEADS for d_qk in (PER_HEAD, TOTAL // heads)}
    return [LayerShape(d_model, heads, d_qk, TOTAL // heads) for heads, d_qk in sorted(sizes)]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per shape, model width, number of queries and seed."""
    return [
        Trial(full_table(40, n_queries, seed), shape, TRAINING, seed=seed)
        for n_queries in QUERIES[size]
        for d_model in MODEL_WIDTHS[size]
        for shape in shapes(d_model)
        for seed in MORE_SEEDS[size]
    ]


def _lines(column: str, where: Where, name: str, title: str) -> Chart:
    return Chart(
        name, title, "lines", x=N_HEADS, y=column, colour=N_QUERIES, facet=D_MODEL, where=where, x_title=HEADS_TITLE
    )


CHARTS = (
    _lines(ARGMAX, SAME_PARAMETERS, "equal-parameters", "Recall at equal parameters, n_heads × d_qk = 8"),
    _lines(ARGMAX, SAME_D_QK, "equal-d_qk", "Recall with d_qk = 2 in every head"),
    _lines(
        CONFIDENT,
        SAME_PARAMETERS,
        "confident-equal-parameters",
        f"{label(CONFIDENT).capitalize()} at equal parameters, n_heads × d_qk = 8",
    ),
)


def _mean(heads: int, where: Where, within: tuple[str, ...] = (), minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", ARGMAX, within=within, where=((N_HEADS, heads), *where), minus=minus)


def _gain(where: Where, within: tuple[str, ...] = ()) -> Quantity:
    """Returns recall with 8 heads minus recall with one head, on the same tables."""
    return _mean(MOST, where, within, _mean(ONE, where, within))


def _gain_less(where: Where, other: Where) -> Quantity:
    """Returns the difference between two gains, written as a - (b - (c - d))."""
    return _mean(MOST, where, minus=_mean(ONE, where, minus=_mean(ONE, other, minus=_mean(MOST, other))))


SUMMARIES = (
    Summary(
        "gain-of-heads",
        "Recall with 8 heads of d_vo 1 minus recall with one head of d_vo 8",
        (("equal parameters", _gain(SAME_PARAMETERS)), ("d_qk = 2 in every head", _gain(SAME_D_QK))),
        over=(N_QUERIES, D_MODEL),
        y_title="recall gained by 8 heads",
        log_x=True,
    ),
)

CLAIMS = (
    Claim(
        "it depends on the number of queries",
        "What 8 narrow heads gain over one wide head, at 20 queries less at 5, at equal parameters.",
        _gain_less(((D_MODEL, 8), (N_QUERIES, 20), *SAME_PARAMETERS), ((D_MODEL, 8), (N_QUERIES, 5), *SAME_PARAMETERS)),
        None,
        place="design tradeoffs, quoted from a summary",
        quote="Multiple heads with smaller d_head,vo versus fewer heads with larger d_head,vo depends on predicate "
        "diversity (|Q| factor in bounds)",
        note="No direction is published; an interval that excludes 0, on either side, agrees with the sentence. "
        "Recall cannot exceed 1, which limits the gain on small tables. The summary lists every number of queries.",
    ),
    Claim(
        "only the product counts",
        "At equal n_heads × d_vo and equal parameters, 8 heads recall as much as one.",
        _gain((*BOTH_SIZES, *SAME_PARAMETERS), (N_QUERIES,)),
        "flat",
        tolerance=0.02,
        place="Proposition 3.5 and equation 9",
        note="Assumes that the rank bound determines what training reaches. The bound depends only on the product; "
        "the paper does not say that recall does. The tolerance is ours. Mean over 5, 10 and 20 queries, d_model 8.",
        extension=True,
    ),
    Claim(
        "only the product counts, equal d_qk",
        "At equal n_heads × d_vo and d_qk = 2 in every head, 8 heads recall as much as one.",
        _gain((*BOTH_SIZES, *SAME_D_QK), (N_QUERIES,)),
        "flat",
        tolerance=0.02,
        place="Proposition 3.5 and equation 9",
        note="As before. The bound does not depend on d_qk, so it is the same here although more heads have more "
        "query-key weights.",
        extension=True,
    ),
    Claim(
        "more heads, more recall",
        "At equal n_heads × d_vo and equal parameters, recall rises with the number of heads.",
        Quantity("rank correlation", ARGMAX, N_HEADS, (N_QUERIES,), (*BOTH_SIZES, *SAME_PARAMETERS)),
        None,
        place="cf. the design tradeoffs",
        note="Spearman correlation of recall with n_heads at each number of queries, averaged; nothing is published.",
        extension=True,
    ),
)

HEADS_AGAINST_WIDTH = Study(
    name="heads-against-width",
    title="Heads against width: many narrow heads or few wide ones?",
    source=source("Proposition 3.5 and equation 9; design tradeoffs of a summary"),
    question="The rank bound of a layer depends only on the product n_heads × d_vo. At a fixed product, does the "
    "split matter, and does that depend on the number of queries?",
    method="We train layers of 1, 2, 4 and 8 heads with n_heads × d_vo = 8 on full random tables of 40 keys and 40 "
    "values with different numbers of queries. In one family n_heads × d_qk = 8 as well, so all shapes have the same "
    "number of parameters; in the other each head has d_qk = 2. The rank bound is the same for all shapes.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
