"""Where the facts are: recall of attention alone and of the MLP alone after joint training.

The paper says that a transformer can use the value matrices or the MLP as its memory; its constructions use one of the
two. Which one does training use? We test the transformers of attention-against-mlp (the same trials) on all facts, once
without the MLP's contribution and once with nothing else.

Our choices, where the paper leaves them open: a part is ablated by dropping its term from x + V2 relu(W1 x + b),
without retraining; a part stores a fact if it alone gets it right in every context.
"""

from __future__ import annotations

from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Study
from factrank.studies.nichani.attention_against_mlp import trials
from factrank.studies.nichani.factual_recall_settings import MLP, N_HEADS, TITLES
from factrank.studies.nichani.settings import source

ATTENTION, ALONE_MLP, TOGETHER = "recall_attention_alone", "recall_mlp_alone", "recall"
NEITHER = f"{TOGETHER} - {ATTENTION} - {ALONE_MLP}"
TRADE = "using the value matrices or the MLP as an associative memory"
WIDE: Where = ((MLP, (*range(8, 65, 8), 96)),)
"""Excludes m = 1, which is practically no MLP."""


def _mean(column: str, where: Where = ()) -> Quantity:
    return Quantity("mean", column, within=(N_HEADS, MLP), where=where)


def _slope(column: str, against: str, within: str) -> Quantity:
    return Quantity("slope", column, against, (within,), WIDE)


def _heatmap(name: str, title: str, column: str) -> Chart:
    return Chart(name, title, "heatmap", x=N_HEADS, y=MLP, colour=column)


CHARTS = (
    _heatmap("attention-alone", "Recall of attention alone", ATTENTION),
    _heatmap("mlp-alone", "Recall of the MLP alone", ALONE_MLP),
    _heatmap("together", "Recall of both", TOGETHER),
)

SUMMARIES = (
    Summary(
        "parts-by-mlp-width",
        "Recall of both, of attention alone and of the MLP alone",
        tuple(
            (label, Quantity("mean", column))
            for label, column in (("both", TOGETHER), ("attention alone", ATTENTION), ("MLP alone", ALONE_MLP))
        ),
        over=(MLP, N_HEADS),
        y_title="recall",
    ),
)


def _ours(name: str, statement: str, quantity: Quantity, published: str | None, note: str) -> Claim:
    return Claim(
        name,
        statement,
        quantity,
        published,  # type: ignore[arg-type]
        place="cf. Figure 4 (right)",
        quote=TRADE,
        note=note,
        extension=True,
    )


CLAIMS = (
    _ours(
        "a wider MLP takes over",
        "The wider the MLP, the more facts it gets right alone.",
        _slope(ALONE_MLP, MLP, N_HEADS),
        "rises",
        "Recall per hidden unit, averaged over numbers of heads, m of 8 and more.",
    ),
    _ours(
        "attention gives way",
        "The wider the MLP, the fewer facts attention gets right alone.",
        _slope(ATTENTION, MLP, N_HEADS),
        "falls",
        "Recall per hidden unit, averaged over numbers of heads, m of 8 and more.",
    ),
    _ours(
        "more heads hold more alone",
        "The more heads, the more facts attention gets right alone.",
        _slope(ATTENTION, N_HEADS, MLP),
        "rises",
        "Recall per head, averaged over MLP widths of 8 and more.",
    ),
    _ours(
        "both are needed",
        "Together they get more facts right than each alone does, even added up.",
        _mean(NEITHER, WIDE),
        "greater",
        "Recall minus both recalls alone: facts that only the sum gets right, minus facts that both get right.",
    ),
    _ours(
        "attention alone",
        "Share of facts that attention alone gets right.",
        _mean(ATTENTION, WIDE),
        None,
        "Mean over all numbers of heads and MLP widths of 8 and more; nothing is published.",
    ),
    _ours(
        "MLP alone",
        "Share of facts that the MLP alone gets right.",
        _mean(ALONE_MLP, WIDE),
        None,
        "Mean over all numbers of heads and MLP widths of 8 and more; nothing is published.",
    ),
)

WHERE_FACTS_ARE = Study(
    name="where-facts-are",
    title="Where the facts are: attention or MLP",
    source=source("cf. Figure 4 (right)"),
    question="When attention and MLP are trained together, which of the two stores the facts?",
    method="The transformers of attention-against-mlp, tested on all facts in the same contexts, once without the "
    "MLP's term and once with that term alone. Nothing is retrained.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
