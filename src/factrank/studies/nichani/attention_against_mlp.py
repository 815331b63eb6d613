"""Attention against MLP: with a fixed number of facts, how much MLP does each head save?

Figure 4 (right) of the paper: d = 32, heads of size 8, S = R = 32, D = 8 (1,024 facts); accuracy over the number of
heads H and the MLP width m. It is 100 % above the line m d = 2300 - H d d_h / 2, which is m = 71.9 - 4 H, where
attention is not too small: H d d_h >= 1280, which is H >= 5.

The authors' grid has H of 1, 2, 4, ..., 16, 20, ..., 32 and m of 1, 8, ..., 64, 80, ..., 128. Ours has H of 2, 4, 8,
12 and 16 and m of 1, 8, ..., 64 and 96. Left out: the others.

What is left open and we chose: the boundary is the least m of the grid at which 99 % of all (fact, context) are right,
of each seed; grids have steps of 8, so that a tolerance of 8 is the best that can be asked for. A trial counts by its
last state, of 16,384 steps unless all facts are right before; the authors take the best of all evaluations, as the
study attention-against-mlp-criteria does, on their whole grid, to compare with the published line. Seeds that do not
come to 99 % at any m have no boundary, nor has then their mean.

Chosen after the full results had been seen: the boundary of 95 % beside that of 99 %, and recall on the published line,
both as questions of ours.
"""

from __future__ import annotations

from factrank.experiments.specs import Measures, Trial
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.factual_recall import FactualRecallShape
from factrank.studies.nichani.factual_recall_settings import (
    MLP,
    N_HEADS,
    RECALL,
    RECALL_TITLE,
    TITLES,
    facts,
    until_held,
)
from factrank.studies.nichani.settings import MOST_RIGHT, SEEDS, source

D, D_HEAD, SIDE = 32, 8, 32
HEADS: dict[Size, tuple[int, ...]] = {"quick": (1, 4), "full": (2, 4, 8, 12, 16)}
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (1, 8, 24), "full": (1, *range(8, 65, 8), 96)}
QUICK_D, QUICK_HEAD, QUICK_SIDE = 16, 4, 10


def transformer(size: Size, n_heads: int, width: int) -> FactualRecallShape:
    """H heads and an MLP of width m; smaller in the quick size."""
    d_model, d_head = (D, D_HEAD) if size == "full" else (QUICK_D, QUICK_HEAD)
    return FactualRecallShape(d_model, n_heads, d_qk=d_head, d_vo=d_head, mlp_width=width)


def trials(size: Size) -> list[Trial]:
    """Every (H, m) on the facts of each seed; attention alone and the MLP alone are measured too."""
    side = SIDE if size == "full" else QUICK_SIDE
    return [
        Trial(
            facts(side, side, seed),
            transformer(size, n_heads, width),
            until_held(size, stop_at=1.0),
            seed=seed,
            measures=Measures(parts=True),
        )
        for n_heads in HEADS[size]
        for width in WIDTHS[size]
        for seed in SEEDS[size]
    ]


TOTAL, PER_HEAD = 2300, D_HEAD / 2
"""The published line: m d = 2300 - H d d_h / 2."""
TRADE = "the transformer can trade off between using the value matrices or the MLP as an associative memory"


def published(n_heads: int) -> float:
    """The m of the published line.

    >>> published(8)
    39.875
    """
    return TOTAL / D - PER_HEAD * n_heads


def boundary(n_heads: int | None = None, minus: Quantity | None = None, enough: float = MOST_RIGHT) -> Quantity:
    """The least m at which enough is right."""
    where = () if n_heads is None else ((N_HEADS, n_heads),)
    return Quantity("first", f"{RECALL} - {enough}", MLP, where=where, minus=minus)


LAST = (
    " Last states count here, which is not the authors' criterion: attention-against-mlp-criteria has that. A "
    "published claim until those runs were made."
)
ON_LINE: Where = ((f"{MLP} + {PER_HEAD:g} * {N_HEADS}", 72), (N_HEADS, (8, 12, 16)))
"""The cells of the grid nearest to the published line: m = 40, 24 and 8 for 8, 12 and 16 heads."""


def _line(n_heads: int) -> Claim:
    line = published(n_heads)
    return Claim(
        f"the boundary at {n_heads} heads",
        f"With {n_heads} heads, an MLP of width {line:.0f} is enough.",
        boundary(n_heads),
        line,
        tolerance=8,
        place="beside Figure 4 (right)",
        quote=TRADE,
        extension=True,
        note=f"Least m of the grid with 99 % right, mean over seeds; the tolerance is the step of the grid.{LAST}",
    )


CHARTS = (
    Chart(
        "recall-by-heads-and-mlp",
        "Share answered rightly, by heads and MLP width",
        "heatmap",
        x=N_HEADS,
        y=MLP,
        colour=RECALL,
    ),
    Chart(
        "recall-by-mlp-width",
        "Share answered rightly against MLP width",
        "lines",
        x=MLP,
        y=RECALL,
        colour=N_HEADS,
        y_title=RECALL_TITLE,
    ),
)

SUMMARIES = (
    Summary(
        "boundary",
        "Least MLP width with 99 % and with 95 % right (published line: 71.9 - 4 H)",
        (
            ("99 % right", boundary()),
            ("95 % right", boundary(enough=0.95)),
            ("published line", Quantity("mean", f"{TOTAL / D} - {PER_HEAD:g} * {N_HEADS}")),
        ),
        over=(N_HEADS,),
        y_title="least MLP width m",
    ),
    Summary(
        "recall-on-the-line",
        "Share answered rightly at the cells nearest to the published line, m = 72 - 4 H",
        (("share right", Quantity("mean", RECALL, where=ON_LINE)),),
        over=(N_HEADS,),
        y_title=RECALL_TITLE,
    ),
)

FITS = (
    Fit(
        "line",
        "The boundary of 95 % as a line (published for 99 %: 71.9 - 4 H)",
        "boundary",
        ("1", N_HEADS),
        quantity="95 % right",
    ),
)

CLAIMS = (
    _line(8),
    _line(12),
    _line(16),
    Claim(
        "what eight heads save",
        "From 8 to 16 heads the MLP may be narrower by 32 units.",
        boundary(8, minus=boundary(16)),
        published(8) - published(16),
        tolerance=8,
        place="beside Figure 4 (right)",
        quote=TRADE,
        extension=True,
        note="4 units for each head: the MLP has 2 m d parameters, a head of size 8 has d d_h = 8 d value parameters."
        + LAST,
    ),
    Claim(
        "more heads help",
        "With the same MLP, recall rises with the number of heads.",
        Quantity("slope", RECALL, N_HEADS, (MLP,)),
        "rises",
        place="Figure 4 (right)",
        quote=TRADE,
        note="Mean over MLP widths.",
    ),
    Claim(
        "a wider MLP helps",
        "With the same heads, recall rises with the width of the MLP.",
        Quantity("slope", RECALL, MLP, (N_HEADS,)),
        "rises",
        place="Figure 4 (right)",
        quote=TRADE,
        note="Mean over numbers of heads.",
    ),
    Claim(
        "recall on the published line",
        "The share that is right, at the end of training, on the line above which the paper has 100 %.",
        Quantity("mean", RECALL, within=(N_HEADS,), where=ON_LINE),
        None,
        place="beside Figure 4 (right)",
        note="m = 40, 24 and 8 with 8, 12 and 16 heads. Chosen after the full results had been seen, because the last "
        "states of most seeds do not reach 99 % there. In the full size only.",
        extension=True,
    ),
)

ATTENTION_AGAINST_MLP = Study(
    name="attention-against-mlp",
    title="Factual recall: heads against MLP width",
    source=source("Figure 4 (right)"),
    question="1,024 facts may be held by attention or by the MLP: how wide must the MLP be for each number of heads?",
    method="Transformers with d = 32, heads of size 8 and every combination of heads and MLP width are trained on 32 "
    "subjects and 32 relations with 8 answers each (16, 4, 10 and 10 in the quick size), until all facts are right in "
    "all contexts or for 16,384 steps. The boundary is the least MLP width with 99 % right.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
