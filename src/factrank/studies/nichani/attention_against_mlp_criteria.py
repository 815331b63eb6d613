"""Attention against MLP on the authors' full grid, under their criterion and at the end of the same runs.

Figure 4 (right) of the paper: d = 32, heads of size 8, S = R = 32, D = 8 (1,024 facts); accuracy over the number of
heads H and the MLP width m. Accuracy is 100 % above the line m d = 2300 - H d d_h / 2, that is m = 71.9 - 4 H, if
attention is not too small: H d d_h >= 1280, that is H >= 5.

As in the authors' script: 13 numbers of heads, 13 widths, learning rate 0.01, 16,384 steps on batches of 1,024, an
evaluation every 128 steps on a fixed set of 1,024 test sequences, and the best evaluation counts. From the same runs we
also take the recall of all facts, in 4 noise contexts each, after the last step.

    authors      the smallest m of the grid with more than 99 % of the test set correct at any evaluation
    at the end   the smallest m with 99 % of all (fact, context) pairs correct after the last step

The columns of 8, 12 and 16 heads, which claims about numbers use, have 12 seeds, the others 3 (the authors have one).
Claims and criteria were fixed before the runs.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.nichani.attention_against_mlp import (
    PER_HEAD,
    PUBLISHED_LINE,
    QUICK_SIDE,
    SIDE,
    TRADE,
    line_claims,
    transformer,
)
from factrank.studies.nichani.factual_recall_settings import (
    AT_END,
    AUTHORS,
    MLP,
    N_HEADS,
    RATE,
    TITLES,
    evaluated_trial,
    facts,
)
from factrank.studies.nichani.settings import FEW_SEEDS, MOST_RIGHT, SEEDS, source

JUDGED = (8, 12, 16)
"""Numbers of heads with all seeds."""
HEADS: dict[Size, tuple[int, ...]] = {"quick": (1, 4), "full": (1, *range(2, 17, 2), *range(20, 33, 4))}
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (1, 24), "full": (1, *range(8, 65, 8), *range(80, 129, 16))}


def seeds(size: Size, n_heads: int) -> range:
    """Returns all seeds for the columns that claims use, and few for the others."""
    return SEEDS[size] if size == "quick" or n_heads in JUDGED else FEW_SEEDS


def trials(size: Size) -> list[Trial]:
    """Returns one trial per (H, m) and seed."""
    side = SIDE if size == "full" else QUICK_SIDE
    return [
        evaluated_trial(size, facts(side, side, seed), transformer(size, n_heads, width), seed, RATE)
        for n_heads in HEADS[size]
        for width in WIDTHS[size]
        for seed in seeds(size, n_heads)
    ]


AUTHORS_RECALL, END_RECALL = AUTHORS.column, AT_END.column
COLUMNS = {"authors": AUTHORS_RECALL, "at the end": END_RECALL}
FIRST_SEEDS: Where = (("seed", tuple(FEW_SEEDS)),)
ON_LINE: Where = ((f"{MLP} + {PER_HEAD:g} * {N_HEADS}", 72), (N_HEADS, JUDGED))
"""The grid cells closest to the published line: m = 40, 24 and 8 for 8, 12 and 16 heads."""


def boundary(
    counted: str, where: Where, minus: Quantity | None = None, enough: float = MOST_RIGHT, seeds: Where = ()
) -> Quantity:
    """Returns the smallest m at which enough answers are correct."""
    return Quantity("first", f"{COLUMNS[counted]} - {enough}", MLP, where=(*where, *seeds), minus=minus)


def _on_the_line(counted: str, note: str = "") -> tuple[Claim, ...]:
    def at(n_heads: int, minus: Quantity | None = None) -> Quantity:
        return boundary(counted, ((N_HEADS, n_heads),), minus)

    bounds = {n_heads: at(n_heads) for n_heads in JUDGED}
    return line_claims(bounds, at(8, at(16)), f", {counted}", note, extension=counted != "authors")


def _rises(name: str, statement: str, against: str, within: str) -> Claim:
    return Claim(
        name,
        statement,
        Quantity("slope", AUTHORS_RECALL, against, (within,), FIRST_SEEDS),
        "rises",
        place="Figure 4 (right)",
        quote=TRADE,
        note="Under the authors' criterion; mean over the full grid of 13 by 13. Counted as a published claim in "
        "attention-against-mlp, which has 12 seeds.",
        extension=True,
    )


def _heatmap(name: str, title: str, column: str) -> Chart:
    return Chart(name, title, "heatmap", x=N_HEADS, y=MLP, colour=column, references=(PUBLISHED_LINE,))


CHARTS = (
    _heatmap("best-evaluation", "Fraction of test sequences answered correctly at the best evaluation", AUTHORS_RECALL),
    _heatmap("at-the-end", "Fraction of all facts in 4 contexts answered correctly after the last step", END_RECALL),
)

SUMMARIES = (
    Summary(
        "boundary",
        "Smallest MLP width with enough correct answers, by number of heads (published line: 71.9 - 4 H)",
        (
            ("authors, 99 %", boundary("authors", (), seeds=FIRST_SEEDS)),
            ("authors, 100 %", boundary("authors", (), enough=1.0, seeds=FIRST_SEEDS)),
            ("at the end, 99 %", boundary("at the end", (), seeds=FIRST_SEEDS)),
        ),
        over=(N_HEADS,),
        y_title="smallest MLP width m",
        references=(PUBLISHED_LINE,),
    ),
    Summary(
        "boundary-6-to-16-heads",
        "Smallest MLP width with 99 % correct under the authors' criterion, where the published line is positive and "
        "applies",
        (("authors, 99 %", boundary("authors", ((N_HEADS, tuple(range(6, 17, 2))),), seeds=FIRST_SEEDS)),),
        over=(N_HEADS,),
        y_title="smallest MLP width m",
    ),
    Summary(
        "boundary-by-seed",
        "Smallest MLP width with 99 % correct under the authors' criterion, by seed (published: 40, 24 and 8)",
        (("authors, 99 %", boundary("authors", ((N_HEADS, JUDGED),))),),
        over=("seed", N_HEADS),
        y_title="smallest MLP width m",
    ),
    Summary(
        "recall-on-the-line",
        "Recall at the grid cells closest to the published line, m = 72 - 4 H",
        (
            ("authors", Quantity("mean", AUTHORS_RECALL, where=ON_LINE)),
            ("at the end", Quantity("mean", END_RECALL, where=ON_LINE)),
        ),
        over=(N_HEADS,),
        y_title="recall",
    ),
)

FITS = (
    Fit(
        "line",
        "The boundary under the authors' criterion as a line, 6 to 16 heads (published: 71.9 - 4 H)",
        "boundary-6-to-16-heads",
        ("1", N_HEADS),
    ),
)

CLAIMS = (
    *_on_the_line("authors"),
    _rises("more heads help", "With the same MLP, recall rises with the number of heads.", N_HEADS, MLP),
    _rises("a wider MLP helps", "With the same heads, recall rises with the width of the MLP.", MLP, N_HEADS),
    *_on_the_line("at the end", " After the last step and over all facts, which is not the authors' criterion."),
    Claim(
        "the authors' criterion against the end",
        "How much higher recall is at the best evaluation of the test set than after the last step on all facts.",
        Quantity(
            "mean",
            AUTHORS_RECALL,
            within=(N_HEADS, MLP),
            where=FIRST_SEEDS,
            minus=Quantity("mean", END_RECALL, within=(N_HEADS, MLP), where=FIRST_SEEDS),
        ),
        None,
        place="cf. Figure 4 (right)",
        note="Mean over the grid of 13 by 13.",
        extension=True,
    ),
    Claim(
        "the best evaluation on all facts",
        "How much higher recall on all facts is at the best evaluation than after the last step.",
        Quantity("mean", f"best_{END_RECALL} - {END_RECALL}", within=(N_HEADS, MLP), where=FIRST_SEEDS),
        None,
        place="cf. Figure 4 (right)",
        note="The effect of choosing the best evaluation, without the sampling noise of a test set.",
        extension=True,
    ),
)

ATTENTION_AGAINST_MLP_CRITERIA = Study(
    name="attention-against-mlp-criteria",
    title="Factual recall: heads against MLP width on the authors' grid",
    source=source("Figure 4 (right)"),
    question="1,024 facts can be stored in attention or in the MLP. How wide must the MLP be for each number of "
    "heads, judged by the best of all evaluations and by the last step of the same runs?",
    method="We train transformers with d = 32, heads of size 8 and every combination of 13 numbers of heads and 13 "
    "MLP widths for 16,384 steps on 32 subjects and 32 relations with 8 answers each (16, 4, 10 and 10 in the quick "
    "size), and evaluate them every 128 steps. The boundary is the smallest MLP width with 99 % correct.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
