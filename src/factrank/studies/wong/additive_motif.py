"""Additive motif: how many facts does only the sum of all paths get right?

The logits of a layer are a sum: the direct path from the query token, and one term per head. A fact shows the additive
motif when no path alone answers it rightly (by its own argmax) and the sum does. The paper's abstract says that its
results "shed light" on the motif; it counts nothing.

What we chose: |K| = |V| = 20, full tables; head counts 1 to 8, in one family with d_vo = d_qk = 2 in every head (more
heads are a larger layer), in a second with n_heads x d_vo = 8 (the same bound on rank).
"""

from __future__ import annotations

from factrank.experiments.specs import Measures, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape
from factrank.studies.wong.settings import ARGMAX, D_VO, MORE_SEEDS, N_HEADS, N_QUERIES, TAU, TITLES, TRAINING, source

D_MODEL_WIDTH = 8
HEADS = (1, 2, 3, 4, 6, 8)
DIVISORS = (1, 2, 4, 8)
TOTAL = 8
WIDTH = 2
"""d_qk everywhere, and d_vo of the first family."""
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (10,), "full": (5, 10, 20)}

SHARE, DIRECT, BEST_HEAD = "additive_share", "direct_alone", "heads_alone"
SAME_WIDTH: Where = ((D_VO, WIDTH),)
SAME_PRODUCT: Where = ((f"{N_HEADS} * {D_VO}", TOTAL),)
TEN_QUERIES: Where = ((N_QUERIES, 10),)
SEVERAL: Where = ((N_HEADS, (2, 3, 4, 6, 8)),)


def shapes() -> list[LayerShape]:
    """Both families; 4 heads of d_vo 2 are in both."""
    sizes = {(heads, WIDTH) for heads in HEADS} | {(heads, TOTAL // heads) for heads in DIVISORS}
    return [LayerShape(D_MODEL_WIDTH, heads, WIDTH, d_vo) for heads, d_vo in sorted(sizes)]


def trials(size: Size) -> list[Trial]:
    """Every shape of both families for each number of queries and seed."""
    return [
        Trial(
            generated("uniform", n_keys=20, n_queries=n_queries, n_values=20, seed=seed),
            shape,
            TRAINING,
            seed=seed,
            measures=Measures(taus=(TAU,), additive=True),
        )
        for n_queries in QUERIES[size]
        for shape in shapes()
        for seed in MORE_SEEDS[size]
    ]


def _lines(column: str, where: Where, name: str, title: str) -> Chart:
    return Chart(
        name,
        title,
        "lines",
        x=N_HEADS,
        y=column,
        colour=N_QUERIES,
        where=where,
    )


CHARTS = (
    _lines(SHARE, SAME_WIDTH, "additive-share", "Facts that only the sum gets right, d_vo = 2 in every head"),
    _lines(
        SHARE,
        SAME_PRODUCT,
        "additive-share-equal-rank",
        f"Facts that only the sum gets right, n_heads × d_vo = {TOTAL}",
    ),
)


def _paths(where: Where) -> tuple[tuple[str, Quantity], ...]:
    columns = {"all paths": ARGMAX, "only the sum": SHARE, "best head alone": BEST_HEAD, "direct path alone": DIRECT}
    return tuple((label, Quantity("mean", column, where=where)) for label, column in columns.items())


SUMMARIES = (
    Summary(
        "paths",
        "Facts right by the sum of all paths, by the sum only, by the best head alone, by the direct path alone; "
        "d_vo = 2 in every head",
        _paths(SAME_WIDTH),
        over=(N_HEADS, N_QUERIES),
        y_title="share of facts",
    ),
    Summary(
        "paths-equal-rank",
        f"The same with n_heads × d_vo = {TOTAL}",
        _paths(SAME_PRODUCT),
        over=(N_HEADS, N_QUERIES),
        y_title="share of facts",
    ),
    Summary(
        "of-recalled",
        "Of the facts that are recalled, the share that only the sum gets right",
        (
            ("d_vo = 2 in every head", Quantity("fraction", SHARE, ARGMAX, where=SAME_WIDTH)),
            (f"n_heads × d_vo = {TOTAL}", Quantity("fraction", SHARE, ARGMAX, where=SAME_PRODUCT)),
        ),
        over=(N_HEADS, N_QUERIES),
        y_title="share of recalled facts",
    ),
)

CLAIMS = (
    Claim(
        "facts are recalled additively",
        "With several heads, some facts are right by the sum of all paths and by no path alone.",
        Quantity("mean", SHARE, where=(*TEN_QUERIES, *SEVERAL)),
        "greater",
        place="abstract",
        quote="our results shed light on the `additive motif' of factual recall in transformers",
        note="Mean share of facts over all layers with 2 to 8 heads, 10 queries. It cannot be below 0; how large it is "
        "says more than that it is there.",
    ),
    Claim(
        "share of what is recalled",
        "Of the facts that layers with several heads recall, how many does only the sum get right?",
        Quantity("fraction", SHARE, ARGMAX, where=(*TEN_QUERIES, *SEVERAL)),
        None,
        place="mechanism 1, quoted from a summary",
        quote="Factual recall operates additively across attention heads",
        note="The paper counts no facts.",
    ),
    Claim(
        "by number of heads",
        "Does the additive share rise from 2 heads to 8, each as wide as before?",
        Quantity("slope", SHARE, N_HEADS, where=(*TEN_QUERIES, *SAME_WIDTH, *SEVERAL)),
        None,
        place="beside the abstract",
        note="Share of facts per head, d_vo = 2 in every head; nothing is published about head counts. With more paths "
        "it is likelier that one of them is right alone by luck.",
        extension=True,
    ),
    Claim(
        "by number of heads at equal rank",
        "Does the additive share rise from 2 heads to 8 at the same n_heads × d_vo?",
        Quantity("slope", SHARE, N_HEADS, where=(*TEN_QUERIES, *SAME_PRODUCT, *SEVERAL)),
        None,
        place="beside the abstract",
        note="Share of facts per head, n_heads × d_vo = 8; nothing is published about head counts.",
        extension=True,
    ),
    Claim(
        "one head is not enough alone",
        "In a layer with one head, how many facts does the sum get right that head and direct path each get wrong?",
        Quantity("mean", SHARE, where=(*TEN_QUERIES, (N_HEADS, 1))),
        None,
        place="beside the abstract",
        note="The least additive layer: two paths, of which one sees the query token only. Nothing is published.",
        extension=True,
    ),
)

ADDITIVE_MOTIF = Study(
    name="additive-motif",
    title="The additive motif: facts that only the sum gets right",
    source=source("abstract"),
    question="How many facts does a layer recall that no path alone (the direct path, or a head) gets right, and how "
    "does that change with the number of heads?",
    method="Layers with 1 to 8 heads are trained on full random tables of 20 keys and 20 values. Afterwards the logits "
    "of every fact are taken apart into the direct path and the heads. A path is right alone when its own argmax is "
    "the fact's value; a fact that no path gets right but the sum does shows the additive motif. A guess would be "
    "right for 1 fact in 20. In one family d_vo is 2 in every head, in the other n_heads × d_vo = 8.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
