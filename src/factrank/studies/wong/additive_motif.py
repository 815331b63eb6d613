"""Additive motif: how many facts are recalled only by the sum of all paths?

The logits of a layer are a sum of the direct path from the query token and one term per head. A fact exhibits the
additive motif if no path alone answers it correctly (by its own argmax) but the sum does. The abstract of the paper
says that its results "shed light" on the motif; it reports no counts.

Our choices: |K| = |V| = 20, full tables, 1 to 8 heads. In one family each head has d_vo = d_qk = 2 (more heads make a
larger layer); in the other n_heads x d_vo = 8 (the same rank bound).
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import Additive, LayerShape
from factrank.studies.wong.settings import (
    ARGMAX,
    D_VO,
    MORE_SEEDS,
    N_HEADS,
    N_QUERIES,
    TITLES,
    TRAINING,
    full_table,
    source,
)

D_MODEL_WIDTH = 8
HEADS = (1, 2, 3, 4, 6, 8)
DIVISORS = (1, 2, 4, 8)
TOTAL = 8
WIDTH = 2
"""d_qk throughout, and d_vo of the first family."""
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (10,), "full": (5, 10, 20)}

SHARE, DIRECT, BEST_HEAD = "additive_share", "direct_alone", "heads_alone"
SAME_WIDTH: Where = ((D_VO, WIDTH),)
SAME_PRODUCT: Where = ((f"{N_HEADS} * {D_VO}", TOTAL),)
TEN_QUERIES: Where = ((N_QUERIES, 10),)
SEVERAL: Where = ((N_HEADS, (2, 3, 4, 6, 8)),)


def shapes() -> list[LayerShape]:
    """Returns the shapes of both families; 4 heads of d_vo 2 belong to both."""
    sizes = {(heads, WIDTH) for heads in HEADS} | {(heads, TOTAL // heads) for heads in DIVISORS}
    return [LayerShape(D_MODEL_WIDTH, heads, WIDTH, d_vo) for heads, d_vo in sorted(sizes)]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per shape, number of queries and seed."""
    return [
        Trial(full_table(20, n_queries, seed), shape, TRAINING, (Additive(),), seed=seed)
        for n_queries in QUERIES[size]
        for shape in shapes()
        for seed in MORE_SEEDS[size]
    ]


def _lines(column: str, where: Where, name: str, title: str) -> Chart:
    return Chart(name, title, "lines", x=N_HEADS, y=column, colour=N_QUERIES, where=where)


CHARTS = (
    _lines(SHARE, SAME_WIDTH, "additive-share", "Facts recalled only by the sum, d_vo = 2 in every head"),
    _lines(
        SHARE, SAME_PRODUCT, "additive-share-equal-rank", f"Facts recalled only by the sum, n_heads × d_vo = {TOTAL}"
    ),
)


def _paths(where: Where) -> tuple[tuple[str, Quantity], ...]:
    columns = {"all paths": ARGMAX, "only the sum": SHARE, "best head alone": BEST_HEAD, "direct path alone": DIRECT}
    return tuple((label, Quantity("mean", column, where=where)) for label, column in columns.items())


SUMMARIES = (
    Summary(
        "paths",
        "Facts recalled by the sum of all paths, only by the sum, by the best head alone and by the direct path "
        "alone; d_vo = 2 in every head",
        _paths(SAME_WIDTH),
        over=(N_HEADS, N_QUERIES),
        y_title="fraction of facts",
    ),
    Summary(
        "paths-equal-rank",
        f"The same with n_heads × d_vo = {TOTAL}",
        _paths(SAME_PRODUCT),
        over=(N_HEADS, N_QUERIES),
        y_title="fraction of facts",
    ),
    Summary(
        "of-recalled",
        "Fraction of recalled facts that are recalled only by the sum",
        (
            ("d_vo = 2 in every head", Quantity("fraction", SHARE, ARGMAX, where=SAME_WIDTH)),
            (f"n_heads × d_vo = {TOTAL}", Quantity("fraction", SHARE, ARGMAX, where=SAME_PRODUCT)),
        ),
        over=(N_HEADS, N_QUERIES),
        y_title="fraction of recalled facts",
    ),
)

ours = partial(Claim, place="cf. the abstract", extension=True)

CLAIMS = (
    Claim(
        "facts are recalled additively",
        "With several heads, some facts are right by the sum of all paths and by no path alone.",
        Quantity("mean", SHARE, where=(*TEN_QUERIES, *SEVERAL)),
        "greater",
        by_construction="a fraction is not negative, and one case makes it positive",
        place="abstract",
        quote="our results shed light on the `additive motif' of factual recall in transformers",
        note="Mean fraction of facts over all layers with 2 to 8 heads, 10 queries. It cannot be negative, so its "
        "size is more informative than its sign.",
    ),
    Claim(
        "share of what is recalled",
        "Of the facts that layers with several heads recall, how many does only the sum get right?",
        Quantity("fraction", SHARE, ARGMAX, where=(*TEN_QUERIES, *SEVERAL)),
        None,
        place="mechanism 1, quoted from a summary",
        quote="Factual recall operates additively across attention heads",
        note="The paper reports no counts.",
    ),
    ours(
        "by number of heads",
        "Does the additive share rise from 2 heads to 8, each as wide as before?",
        Quantity("slope", SHARE, N_HEADS, where=(*TEN_QUERIES, *SAME_WIDTH, *SEVERAL)),
        None,
        note="Change in the fraction of facts per head, d_vo = 2 in every head; nothing is published on the number of "
        "heads. With more paths it is more likely that one of them is correct by chance.",
    ),
    ours(
        "by number of heads at equal rank",
        "Does the additive share rise from 2 heads to 8 at the same n_heads × d_vo?",
        Quantity("slope", SHARE, N_HEADS, where=(*TEN_QUERIES, *SAME_PRODUCT, *SEVERAL)),
        None,
        note="Change in the fraction of facts per head, n_heads × d_vo = 8; nothing is published on the number of "
        "heads.",
    ),
    ours(
        "one head is not enough alone",
        "In a layer with one head, how many facts does the sum get right that head and direct path each get wrong?",
        Quantity("mean", SHARE, where=(*TEN_QUERIES, (N_HEADS, 1))),
        None,
        note="The least additive layer: two paths, one of which sees only the query token. Nothing is published.",
    ),
)

ADDITIVE_MOTIF = Study(
    name="additive-motif",
    title="The additive motif: facts recalled only by the sum",
    source=source("abstract"),
    question="How many facts does a layer recall that no single path (the direct path or a head) gets right, and how "
    "does that change with the number of heads?",
    method="We train layers with 1 to 8 heads on full random tables of 20 keys and 20 values, then decompose the "
    "logits of every fact into the direct path and the heads. A path is correct on its own if its argmax is the value "
    "of the fact; a fact that no path gets right but the sum does exhibits the additive motif. A random guess is "
    "correct for 1 fact in 20. In one family each head has d_vo = 2, in the other n_heads × d_vo = 8.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
