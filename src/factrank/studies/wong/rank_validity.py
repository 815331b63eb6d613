"""Rank validity: does the rank of a table say which layers hold it, and is rank(D) <= rank(L) needed?

The paper reads memorising a database D as rank(D) <= rank(L), up to what the readout adds, and asks for single-head
layers on databases of known rank, accuracy against d_model + d_vo. Our layers are bounded by the sharper
rank(L) <= min(K, Q) c + min(Q, r_U - c), c = min(d_vo, d_model, V), r_U = min(d_model, V), which holds for all weights;
our tables have certified ranks, so that every violation that is counted is a proved one.

What the paper leaves open and we chose: 20 keys and 10 queries; d_qk = 4, which routes well enough at all these widths.
Tables of known rank are `overlapping-boxes`: all 200 pairs, cut into R boxes with a value each, rank exactly R. Beside
them `disjoint` (ranges of queries share no value: rank = values in use), `uniform` (200 facts: full; fewer: partial;
rank between certified bounds) and `diagonal2` with 20 facts, after the paper's Example 2.4: rank 20, but the least
rank of a tensor that is right on its facts is 2. What rank(D) <= rank(readout(L)) says is a theorem for full tables
only; `boxes` of rank 40 (full), `uniform` with 40 facts and `diagonal2` (both partial) put it to the test at tau 0.95.
"""

from __future__ import annotations

from factrank.experiments.specs import Generated, Measures, Readings, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.wong.settings import (
    ARGMAX,
    D_MODEL,
    D_VO,
    GENERATOR,
    LAYER_RANK,
    RANK,
    SEEDS,
    TAU,
    TITLES,
    crossed,
    single_head,
    source,
    uniform_table,
)

KEYS, QUERIES, VALUES = 20, 10, 20
QK = 4
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (2, 4, 8), "full": (2, 4, 6, 8, 12, 16)}
"""Of d_model; d_vo takes those of them that are no greater, and 1."""
RANKS: dict[Size, tuple[int, ...]] = {"quick": (10, 40, 80), "full": (10, 20, 40, 60, 80, 100)}
RANGES: dict[Size, tuple[int, ...]] = {"quick": (4,), "full": (2, 4, 8)}
FACTS: dict[Size, tuple[int, ...]] = {"quick": (40, 200), "full": (40, 100, 150, 200)}
DIAGONAL = 20
FULL_RANK, FEW_FACTS = 40, 40
"""The full and the partial table whose readouts are looked at."""

PLAIN = Measures(taus=(TAU,), ranks=True)
READ = Measures(taus=(TAU,), ranks=True, readings=Readings(taus=(TAU,), ranks=True))


def trials(size: Size) -> list[Trial]:
    """Every (d_model, d_vo) on every table, for each seed."""
    shapes = [
        single_head(d_model, d_vo, QK) for d_model in WIDTHS[size] for d_vo in (1, *WIDTHS[size]) if d_vo <= d_model
    ]
    listed = []
    for seed in SEEDS[size]:
        read, plain = _tables(size, seed)
        listed += crossed(read, shapes, seed, READ) + crossed(plain, shapes, seed, PLAIN)
    return listed


def _tables(size: Size, seed: int) -> tuple[list[Generated], list[Generated]]:
    """The tables whose readouts are looked at, and the others."""
    boxes = {
        rank: generated("overlapping-boxes", n_keys=KEYS, n_queries=QUERIES, rank=rank, seed=seed)
        for rank in RANKS[size]
    }
    uniform = {n: uniform_table(KEYS, QUERIES, VALUES, n, seed) for n in FACTS[size]}
    disjoint = [
        generated("disjoint", n_keys=KEYS, n_queries=QUERIES, values_per_query=values, seed=seed)
        for values in RANGES[size]
    ]
    read = [boxes.pop(FULL_RANK), uniform.pop(FEW_FACTS), generated("diagonal2", n=DIAGONAL)]
    return read, [*boxes.values(), *uniform.values(), *disjoint]


BOXES: Where = ((GENERATOR, "overlapping-boxes"),)
RANDOM: Where = ((GENERATOR, ("overlapping-boxes", "disjoint", "uniform")),)
"""The tables that are drawn anew for each seed."""
WIDTH_SUM = f"{D_MODEL} + {D_VO}"
MEMORISED, CONFIDENTLY, VIOLATES = "memorised", f"memorised_{TAU}", "violates"
SHAPE = (D_MODEL, D_VO)


def _by(x: str, name: str, title: str) -> Chart:
    return Chart(name, title, "lines", x, ARGMAX, RANK, where=BOXES)


CHARTS = (
    _by(WIDTH_SUM, "recall-by-widths", "Recall against d_model + d_vo, for tables of known rank"),
    _by(LAYER_RANK, "recall-by-layer-rank", "Recall against the bound on the layer's rank"),
    Chart(
        "memorised-by-ranks",
        "Share of layers that hold all 200 facts: above the diagonal rank(D) exceeds rank(L)",
        "heatmap",
        x=LAYER_RANK,
        y=RANK,
        colour=MEMORISED,
        where=BOXES,
        y_title="rank of the table",
    ),
    Chart(
        "recall-by-shape",
        "Recall of every shape, by the rank of the table",
        "heatmap",
        x=D_VO,
        y=D_MODEL,
        colour=ARGMAX,
        facet=RANK,
        where=BOXES,
    ),
    Chart(
        "recall-by-effective-rank",
        "Recall against the certified upper bound of the effective rank, tables of known rank",
        "lines",
        x="effective_upper",
        y=ARGMAX,
        colour=D_MODEL,
        where=(*BOXES, (D_VO, 2)),
        x_title="effective rank at most (d_vo 2)",
    ),
    Chart(
        "recall-by-rank",
        "Recall against the certified lower bound of the table's rank (d_model 8, d_vo 4)",
        "points",
        x="rank_lower",
        y=ARGMAX,
        colour=GENERATOR,
        where=((D_MODEL, 8), (D_VO, 4)),
        x_title="rank at least",
    ),
)


def _told_by(column: str) -> Quantity:
    """How well a size of the table tells the recall of one shape, averaged over shapes."""
    return Quantity("rank correlation", ARGMAX, column, within=SHAPE, where=RANDOM)


def _predicted_by(column: str) -> Quantity:
    """How well a size of the layer tells the recall on tables of one rank, averaged over ranks."""
    return Quantity("rank correlation", ARGMAX, column, within=(RANK,), where=BOXES)


SUMMARIES = (
    Summary(
        "violations",
        "Share of layers that hold all facts although rank(D) > rank(L) is proved",
        (("argmax", Quantity("fraction", VIOLATES, MEMORISED)),),
        over=(D_VO, GENERATOR),
        y_title="share of memorising layers",
    ),
    Summary(
        "violations-of-the-readout",
        f"The same for the rank of softmax>={TAU}(L): impossible for full tables, not for partial ones",
        ((f"softmax>={TAU}", Quantity("fraction", VIOLATES, CONFIDENTLY)),),
        over=(GENERATOR,),
        data="readings",
        x_title="table: overlapping-boxes is full, the others are partial",
        y_title="share of memorising layers",
    ),
    Summary(
        "sizes-of-tables",
        "Rank correlation of recall with each size of the table, within shapes (all random tables)",
        (
            ("rank at least", _told_by("rank_lower")),
            ("rank at most", _told_by("rank_upper")),
            ("completion rank at most", _told_by("completion_upper")),
            ("effective rank at most", _told_by("effective_upper")),
            ("Proposition 2.1", _told_by("proposition")),
            ("bits", _told_by("bits")),
            ("facts", _told_by("facts")),
        ),
        over=(),
        x="quantity",
        x_title="size of the table",
        y_title="rank correlation with recall",
    ),
    Summary(
        "sizes-of-layers",
        "Rank correlation of recall with each size of the layer, within tables of one rank",
        (
            ("d_model + d_vo", _predicted_by(WIDTH_SUM)),
            ("bound on rank(L)", _predicted_by(LAYER_RANK)),
            ("parameters", _predicted_by("parameters")),
        ),
        over=(),
        x="quantity",
        x_title="size of the layer",
        y_title="rank correlation with recall",
    ),
)

CLAIMS = (
    Claim(
        "rises with d_model + d_vo",
        "On tables of known rank, recall rises with d_model + d_vo.",
        Quantity("slope", ARGMAX, WIDTH_SUM, within=(RANK,), where=BOXES),
        "rises",
        place="Proposition 3.5; first of the experiments asked for, quoted from a summary",
        quote="Train single-head attention layers on synthetic databases with known tensor ranks; plot accuracy vs "
        "(d_model + d_head,vo)",
        note="The summary asks for the plot; the direction is that of the bound, which grows with both widths.",
    ),
    Claim(
        "rank(L) predicts recall",
        "On tables of one rank, recall rises with the bound on the rank of the layer.",
        _predicted_by(LAYER_RANK),
        "greater",
        place="mechanism 1 of a summary",
        quote="Empirical results confirm rank(L) bounds predict memorization capacity",
        note="Rank correlation over shapes, averaged over the ranks of the tables; the bound is our sharper one.",
    ),
    Claim(
        "rank counts beyond facts",
        "At an equal number of facts, recall falls as the rank of the table grows.",
        Quantity("slope", ARGMAX, RANK, within=SHAPE, where=BOXES),
        "falls",
        place="mechanism 1 of a summary",
        quote="Database tensor rank captures structural complexity beyond simple triple counts",
        note="Recall per unit of rank at each shape, averaged; all tables have 200 facts. The number of values grows "
        "with the rank in these tables, so that bits do too.",
    ),
    Claim(
        "small d_vo fails despite parameters",
        "A layer with d_model 8 and d_vo 1 holds less than one with fewer parameters, d_model 4 and d_vo 4.",
        Quantity(
            "mean",
            ARGMAX,
            where=(*RANDOM, (D_MODEL, 8), (D_VO, 1)),
            minus=Quantity("mean", ARGMAX, where=(*RANDOM, (D_MODEL, 4), (D_VO, 4))),
        ),
        "less",
        place="failure signatures of a summary",
        quote="Memorization fails despite sufficient parameters: Check if d_head,vo too small relative to database "
        "structure",
        note="Difference of mean recall over all random tables. The pair of shapes is our choice, and the claim was "
        "written after the quick size (seeds 0 to 2) had been run: seeds 3 and on are the test of it.",
    ),
    Claim(
        "rank(D) > rank(L), memorised",
        "Share of memorising layers (argmax, full tables of known rank) with rank(D) > rank(L), proved.",
        Quantity("fraction", VIOLATES, MEMORISED, where=BOXES),
        None,
        place="key results of a summary",
        quote="The rank relationship rank(D) ≤ rank(L) provides meaningful capacity bounds despite softmax distortion "
        "effects",
        note="No share is published: the paper names single layers that violate it under argmax. The share depends on "
        "the ranks and shapes that are tried.",
    ),
    Claim(
        "rank(D) > rank(L), memorised, random tables",
        "The same for uniform tables, full and partial.",
        Quantity("fraction", VIOLATES, MEMORISED, where=((GENERATOR, "uniform"),)),
        None,
        place="key results of a summary",
        note="No share is published. Only a certified lower bound of rank(D) counts, about half of the rank of such "
        "tables, so that this is the least that it can be.",
    ),
    Claim(
        "full tables obey the readout's rank",
        f"No layer with full recall at confidence {TAU} on a full table has rank(D) > rank(softmax>={TAU}(L)).",
        Quantity("fraction", VIOLATES, CONFIDENTLY, where=((GENERATOR, "overlapping-boxes"), (RANK, FULL_RANK))),
        0.0,
        place="beside the rank relationship: a theorem for full tables",
        note="On a full table the readout then is D itself. A check of ours, not a finding.",
        extension=True,
        data="readings",
    ),
    Claim(
        "partial tables need not obey it",
        f"On the diagonal table, some layers with full recall at confidence {TAU} have rank(D) > "
        f"rank(softmax>={TAU}(L)), proved.",
        Quantity("fraction", VIOLATES, CONFIDENTLY, where=((GENERATOR, "diagonal2"),)),
        "greater",
        place="beside Example 2.4",
        note="rank(D) = 20, yet a tensor of rank 2 is right on all facts; our theory says that it can happen, this "
        "that training finds it. The table was chosen for it among five partial ones tried with other seeds; on random "
        "tables of 20 values it was not seen.",
        extension=True,
        data="readings",
    ),
    Claim(
        "rank(L) against d_model + d_vo",
        "Rank correlation of recall with the bound on rank(L) less that with d_model + d_vo.",
        Quantity(
            "rank correlation",
            ARGMAX,
            LAYER_RANK,
            within=(RANK,),
            where=BOXES,
            minus=_predicted_by(WIDTH_SUM),
        ),
        None,
        place="beside the first of the experiments asked for",
        note="Which of the two orders shapes by recall; nothing is published on it.",
        extension=True,
    ),
)

RANK_VALIDITY = Study(
    name="rank-validity",
    title="Rank validity: does the rank of a table say which layers hold it?",
    source=source("Propositions 2.1 and 3.5"),
    question="On tables whose rank is known, does recall follow d_model + d_vo, the bound on the rank of the layer, or "
    "the effective rank of the table; and how often does a trained layer hold a table of greater rank than its own?",
    method="Single-head attention layers are trained on tables with 20 keys and 10 queries: full tables cut into "
    "boxes, whose rank is exactly the number of boxes; tables in which queries share no value; random tables, full and "
    "partial; and a diagonal table. d_model and d_vo vary, d_qk is 4. The rank of each table is bounded with "
    "certificates, and that of the layer from its shape. A layer that answers all facts rightly violates rank(D) <= "
    "rank(L) when the lower bound of the one exceeds the upper bound of the other.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
