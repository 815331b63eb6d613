"""Value-output against query-key: which width stores facts?

The rank of a layer's tensor is bounded by d_model, the number of heads, d_vo and the number of queries, but not by d_qk
(Proposition 3.5, equation 9). Figure 4 shows accuracy over (d_vo, d_qk). The paper states directions and no numbers, so
the claims are directions; quotes that are not from the abstract are from a published summary of the paper.

Our choices, where the paper leaves them open: |K| = |V| = 20 and full tables (200 facts for 10 queries, the largest
size that the paper mentions), one head, all weights trained by full-batch Adam with learning rate 0.01 for 2,000 epochs
(the most that the paper mentions), a new database for each seed. "Small" d_vo are 1 to 3, as in the summary; "larger"
ones exceed d_model / 2.

The full size also varies table sizes and heads along the constant-parameter diagonal: |K| = |V| = 40 with 1, 2 and 4
heads, and tables with more keys than values and vice versa. We use 40 keys because with 20 several heads recall
everything. The best split is the d_vo with the highest mean recall; we fit it as a fraction of d_vo + d_qk = d_model +
1.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.columns import label
from factrank.experiments.specs import Trial, generated
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_MODEL,
    D_QK,
    D_VO,
    N_HEADS,
    N_KEYS,
    N_QUERIES,
    N_VALUES,
    SEEDS,
    TAU,
    TITLES,
    TRAINING,
    source,
)

SIZE = 20
"""Number of keys and of values in the grid."""
MODEL_WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8,), "full": (8, 10, 12)}
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (10,), "full": (5, 10, 20)}
HEADS = (1, 2, 4)
WIDER_TABLES = tuple((40, n_queries, 40, d_model) for n_queries in (10, 20, 40) for d_model in (8, 12))
UNEQUAL_TABLES = ((80, 20, 20, 8), (20, 20, 80, 8))
"""Keys, queries, values and d_model of the diagonals that the full size adds to the grid."""

GRID: Where = ((N_KEYS, SIZE), (N_VALUES, SIZE), (N_HEADS, 1))
"""Tables and layers for which every (d_vo, d_qk) is tried."""
PAPER: Where = ((D_MODEL, 8), (N_QUERIES, 10), *GRID)
"""The setting common to both sizes: 200 facts."""
LARGER_D_VO = (5, 6, 7, 8)
SMALL_D_VO = (1, 2, 3)
CONSTANT_PARAMETERS: Where = ((f"{D_QK} + {D_VO} - {D_MODEL}", 1),)
"""d_qk = d_model - d_vo + 1, which keeps 2 d_model (d_qk + d_vo) constant."""
FORTY: Where = ((N_KEYS, 40), (N_VALUES, 40))


def _trial(table: tuple[int, int, int], shape: LayerShape, seed: int) -> Trial:
    n_keys, n_queries, n_values = table
    facts = generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, seed=seed)
    return Trial(facts, shape, TRAINING, seed=seed)


def trials(size: Size) -> list[Trial]:
    """Returns every (d_vo, d_qk) from 1 to d_model per model width, query count and seed; full size: diagonals too.

    The trials of the quick size are among those of the full size, so a full run resumes from a quick one.
    """
    grid = [
        _trial((SIZE, n_queries, SIZE), LayerShape(d_model=d_model, n_heads=1, d_qk=d_qk, d_vo=d_vo), seed)
        for n_queries in QUERIES[size]
        for d_model in MODEL_WIDTHS[size]
        for d_vo in range(1, d_model + 1)
        for d_qk in range(1, d_model + 1)
        for seed in SEEDS[size]
    ]
    return grid if size == "quick" else [*grid, *diagonals()]


def diagonals() -> list[Trial]:
    """Returns the constant-parameter trials with 1, 2 and 4 heads on larger tables and on tables with |K| != |V|."""
    return [
        _trial((n_keys, n_queries, n_values), LayerShape(d_model, n_heads, d_model - d_vo + 1, d_vo), seed)
        for n_keys, n_queries, n_values, d_model in (*WIDER_TABLES, *UNEQUAL_TABLES)
        for n_heads in HEADS
        for d_vo in range(1, d_model + 1)
        for seed in SEEDS["full"]
    ]


def _heat_map(column: str, name: str) -> Chart:
    return Chart(
        name,
        f"{label(column).capitalize()} of every shape, d_model 8",
        "heatmap",
        x=D_VO,
        y=D_QK,
        colour=column,
        facet=N_QUERIES,
        where=((D_MODEL, 8), *GRID),
    )


def _constant(column: str, name: str) -> Chart:
    return Chart(
        name,
        f"{label(column).capitalize()} at constant parameters: d_qk = d_model − d_vo + 1",
        "lines",
        x=D_VO,
        y=column,
        colour=N_QUERIES,
        facet=D_MODEL,
        where=(*GRID, *CONSTANT_PARAMETERS),
    )


def _lines(x: str, colour: str, name: str, title: str) -> Chart:
    return Chart(name, title, "lines", x, ARGMAX, colour, where=PAPER)


CHARTS = (
    _heat_map(ARGMAX, "recall-by-shape"),
    _constant(ARGMAX, "constant-parameters"),
    _lines(D_VO, D_QK, "recall-by-d_vo", "Recall against d_vo, for each d_qk (d_model 8, 10 queries)"),
    _lines(D_QK, D_VO, "recall-by-d_qk", "Recall against d_qk, for each d_vo (d_model 8, 10 queries)"),
    _heat_map(CONFIDENT, "confident-recall-by-shape"),
    _constant(CONFIDENT, "confident-constant-parameters"),
    Chart(
        "constant-parameters-by-heads",
        "Recall at constant parameters, by number of heads (40 keys, 40 values, d_model 8; full size)",
        "lines",
        x=D_VO,
        y=ARGMAX,
        colour=N_QUERIES,
        facet=N_HEADS,
        where=(*FORTY, (D_MODEL, 8), *CONSTANT_PARAMETERS),
    ),
)


def _best(name: str, title: str, where: Where, over: tuple[str, ...]) -> Summary:
    """Returns a summary of the d_vo with the highest mean recall along d_vo + d_qk = d_model + 1."""
    return Summary(
        name, title, (("best d_vo", Quantity("best", ARGMAX, D_VO, where=(*where, *CONSTANT_PARAMETERS))),), over=over
    )


SUMMARIES = (
    _best(
        "best-split",
        "Best d_vo under d_vo + d_qk = d_model + 1, one head, 20 keys and values",
        GRID,
        (N_QUERIES, D_MODEL),
    ),
    _best(
        "best-split-by-heads",
        "Best d_vo under d_vo + d_qk = d_model + 1, by number of heads, 40 keys and values",
        FORTY,
        (N_QUERIES, N_HEADS, D_MODEL),
    ),
    _best(
        "best-split-by-table",
        "Best d_vo under d_vo + d_qk = 9, by keys, values and heads, 20 queries",
        ((D_MODEL, 8), (N_QUERIES, 20)),
        (N_HEADS, N_KEYS, N_VALUES),
    ),
)

SPLIT = f"{D_MODEL} + 1"
"""d_vo + d_qk; its coefficient is the fraction allotted to d_vo."""

UNSEEN: Where = ((f"{N_KEYS} + {N_VALUES}", (80, 100)), (N_HEADS, 1), *CONSTANT_PARAMETERS)
"""One head on tables that the rules were not fitted to: 40 keys and 40 values, 80 and 20, 20 and 80."""
RULES = {
    "two thirds": f"0.667 * ({SPLIT})",
    "constant fraction": f"0.812 * ({SPLIT})",
    "fraction by queries": f"0.976 * ({SPLIT}) - 0.014 * {N_QUERIES} * ({SPLIT})",
}
"""A rule of thumb, and the rules that the fits below found on 20 keys and 20 values, rounded as first published."""


def _rule_error(rule: str, minus: Quantity | None = None) -> Quantity:
    """Returns |best d_vo - d_vo of a rule|, averaged over the tables that the rule was not fitted to."""
    error = f"{D_VO} - ({rule})"
    within = (N_KEYS, N_QUERIES, D_MODEL)
    return Quantity("best", ARGMAX, f"sqrt(({error}) * ({error}))", within, UNSEEN, minus)


OUT_OF_SAMPLE = (
    Summary(
        "rules-out-of-sample",
        "Mean error of rules for the best d_vo on eight one-head settings that they were not fitted to",
        (
            *((label, _rule_error(rule)) for label, rule in RULES.items()),
            (
                "by queries less constant",
                _rule_error(RULES["fraction by queries"], _rule_error(RULES["constant fraction"])),
            ),
        ),
        over=(),
        x="quantity",
        x_title="rule",
        y_title="mean error in dimensions of d_vo",
    ),
)
FITS = (
    Fit(
        "constant-share",
        "Best d_vo as a constant fraction of d_vo + d_qk = d_model + 1, one head",
        "best-split",
        (SPLIT,),
    ),
    Fit(
        "share-by-queries",
        "The same with a fraction that depends on the number of queries",
        "best-split",
        (SPLIT, f"{N_QUERIES} * {D_MODEL} + {N_QUERIES}"),
    ),
    Fit(
        "constant-share-by-heads",
        "Best d_vo as a constant fraction of d_vo + d_qk = d_model + 1; 1, 2 and 4 heads",
        "best-split-by-heads",
        (SPLIT,),
    ),
    Fit(
        "share-by-heads",
        "The same with a fraction that depends on the numbers of queries and heads",
        "best-split-by-heads",
        (SPLIT, f"{N_QUERIES} * {D_MODEL} + {N_QUERIES}", f"{N_HEADS} * {D_MODEL} + {N_HEADS}"),
    ),
)

ours = partial(Claim, place="cf. the abstract", extension=True)

CLAIMS = (
    Claim(
        "rises with d_vo",
        "Recall rises with d_vo.",
        Quantity("slope", ARGMAX, D_VO, within=(D_QK,), where=PAPER),
        "rises",
        place="Figure 4 and Proposition 3.5, quoted from a summary",
        quote="accuracy increases more with d_head,vo changes",
        note="Recall per dimension of d_vo, at each d_qk, averaged.",
    ),
    Claim(
        "d_vo counts more than d_qk",
        "Recall rises more with d_vo than with d_qk.",
        Quantity(
            "slope",
            ARGMAX,
            D_VO,
            within=(D_QK,),
            where=PAPER,
            minus=Quantity("slope", ARGMAX, D_QK, within=(D_VO,), where=PAPER),
        ),
        "greater",
        place="Figure 4, quoted from a summary",
        quote="capacity depends more on d_head,vo than d_head,qk",
        note="Slope against d_vo minus slope against d_qk, over the same grid.",
    ),
    Claim(
        "some d_qk is needed at small d_vo",
        "At small d_vo, recall rises with d_qk.",
        Quantity("slope", ARGMAX, D_QK, within=(D_VO,), where=(*PAPER, (D_VO, SMALL_D_VO))),
        "rises",
        place="Figure 4 (diagonals), quoted from a summary",
        quote="Very small d_head,vo requires some minimal d_head,qk for routing",
        note="d_vo 1 to 3.",
    ),
    Claim(
        "d_qk is neutral at larger d_vo",
        "At larger d_vo, recall no longer rises with d_qk.",
        Quantity("slope", ARGMAX, D_QK, within=(D_VO,), where=(*PAPER, (D_VO, LARGER_D_VO))),
        "not rising",
        tolerance=0.01,
        place="Figure 4 and open questions, quoted from a summary",
        quote="neutral or detrimental at larger d_head,vo",
        note="d_vo 5 to 8. The paper gives no number; we call up to 0.01 of recall per dimension neutral. We chose "
        "this after smaller pilot trials and before the first run of this study; check whether the interval excludes "
        "0.",
    ),
    Claim(
        "moving parameters to VO helps",
        "At the same number of parameters, recall rises as they move from query-key to value-output.",
        Quantity("slope", ARGMAX, D_VO, where=(*PAPER, *CONSTANT_PARAMETERS)),
        "rises",
        place="abstract",
        quote="increasing layer capacity without increasing the number of parameters",
        note="Recall per dimension moved, averaged along d_qk = d_model − d_vo + 1; individual steps may lower it.",
    ),
    ours(
        "the best split favours VO",
        "At the same number of parameters, the best d_vo is greater than its d_qk.",
        Quantity("best", ARGMAX, f"{D_VO} - {D_QK}", where=(*PAPER, *CONSTANT_PARAMETERS)),
        "greater",
        note="d_vo − d_qk at the highest mean recall.",
    ),
    Claim(
        "rises with d_vo, confidently",
        f"Recall at confidence {TAU} rises with d_vo.",
        Quantity("slope", CONFIDENT, D_VO, within=(D_QK,), where=PAPER),
        "rises",
        place="cf. Figure 4",
        note="As in the first claim, for softmax>=tau; our sources do not say which readout Figure 4 shows.",
        extension=True,
    ),
    ours(
        "moving parameters to VO helps, confidently",
        f"At the same number of parameters, recall at confidence {TAU} rises as they move to value-output.",
        Quantity("slope", CONFIDENT, D_VO, where=(*PAPER, *CONSTANT_PARAMETERS)),
        "rises",
        note="Along d_qk = d_model − d_vo + 1, with softmax>=tau instead of argmax.",
    ),
    ours(
        "moving parameters to VO helps in wider layers",
        "The same for d_model 10 and 12 and for 5, 10 and 20 queries.",
        Quantity(
            "slope", ARGMAX, D_VO, within=(D_MODEL, N_QUERIES), where=((D_MODEL, (10, 12)), *GRID, *CONSTANT_PARAMETERS)
        ),
        "rises",
        note="Argmax; full size only. Averaged over the six sizes.",
    ),
    ours(
        "moving parameters to VO helps with several heads",
        "The same for 2 and 4 heads and tables of 40 keys and 40 values.",
        Quantity(
            "slope",
            ARGMAX,
            D_VO,
            within=(D_MODEL, N_QUERIES, N_HEADS),
            where=(*FORTY, (N_HEADS, (2, 4)), *CONSTANT_PARAMETERS),
        ),
        "rises",
        note="Argmax; full size only. d_model 8 and 12, 10, 20 and 40 queries, averaged over the twelve sizes.",
    ),
    ours(
        "the best split with several heads favours VO",
        "At the same number of parameters, the best d_vo of 2 and 4 heads is greater than their d_qk.",
        Quantity(
            "best",
            ARGMAX,
            f"{D_VO} - {D_QK}",
            within=(D_MODEL, N_QUERIES, N_HEADS),
            where=(*FORTY, (N_HEADS, (2, 4)), *CONSTANT_PARAMETERS),
        ),
        "greater",
        note="d_vo − d_qk at the highest mean recall, averaged over the twelve sizes; full size only.",
    ),
)

VO_AGAINST_QK = Study(
    name="vo-against-qk",
    title="Value-output against query-key: which width stores facts?",
    source=source("Figure 4"),
    question="Does an attention layer store more facts when its value-output width d_vo grows than when its query-key "
    "width d_qk grows? And does it store more, at the same number of parameters, when dimensions move from query-key "
    "to value-output?",
    method="We train single-head attention layers on random tables with a value for every key and query: 20 keys, 20 "
    "values, 10 queries (in the full size also 5 and 20). We try every d_vo and d_qk from 1 to d_model, with new "
    "weights and a new table for each seed; all shapes see the same tables. Recall is the fraction of all facts that "
    f"the layer answers correctly, by argmax or with probability at least {TAU}. Moving a dimension from query-key to "
    "value-output leaves the number of parameters unchanged. The full size also tries that diagonal with 1, 2 and 4 "
    "heads on tables of 40 keys and 40 values, 80 and 20, and 20 and 80, and fits a rule to the best split.",
    trials=trials,
    charts=CHARTS,
    summaries=(*SUMMARIES, *OUT_OF_SAMPLE),
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
