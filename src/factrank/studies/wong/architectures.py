"""Architectures: positions, layer norm, MLPs and a second layer, at the same number of parameters.

The paper studies a single bare attention layer and leaves the effect of these components open. All variants here have
the same number of parameters within 2 %, embeddings included: whatever a variant adds is taken from its heads.

Our choices: |K| = |V| = 20 and full tables of 10 or 20 queries; d_model 10 except for the wide MLP. A layer with two
heads, which cost nothing, serves as a yardstick. All models except the plain layer train in lanes, from the same seeds.
"""

from __future__ import annotations

from factrank.experiments.columns import label
from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape, TransformerShape
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    MORE_SEEDS,
    N_HEADS,
    N_QUERIES,
    TAU,
    TITLES,
    TRAINING,
    full_table,
    source,
)

PLAIN, TWO_HEADS = "plain", "two heads"
LAYERS = {PLAIN: LayerShape(10, 1, 5, 5), TWO_HEADS: LayerShape(10, 2, 2, 3)}
VARIANTS: dict[str, LayerShape | TransformerShape] = {
    **LAYERS,
    "positions": TransformerShape(10, 1, 4, 5, positions=True),
    "layer norm": TransformerShape(10, 1, 3, 5, layer_norm=True),
    "narrow MLP": TransformerShape(10, 1, 2, 2, mlp_width=5),
    "wide MLP": TransformerShape(8, 1, 2, 4, mlp_width=12),
    "two layers": TransformerShape(10, 1, 2, 3, n_layers=2),
    "all of them": TransformerShape(8, 1, 1, 2, n_layers=2, mlp_width=3, positions=True, layer_norm=True),
}
"""Each has 695 to 710 parameters at 10 queries and 788 to 800 at 20."""
VARIANTS_OF: dict[Size, tuple[str, ...]] = {
    "quick": (PLAIN, TWO_HEADS, "positions", "wide MLP", "two layers"),
    "full": tuple(VARIANTS),
}
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (10,), "full": (10, 20)}
OPTIONS = ("n_layers", "mlp_width", "positions", "layer_norm")


def trials(size: Size) -> list[Trial]:
    """Returns one trial per variant, number of queries and seed."""
    return [
        Trial(full_table(20, n_queries, seed), VARIANTS[name], TRAINING, seed=seed)
        for n_queries in QUERIES[size]
        for name in VARIANTS_OF[size]
        for seed in MORE_SEEDS[size]
    ]


def rows_of(name: str) -> Where:
    """Returns the condition that selects one variant."""
    if name in LAYERS:
        return (("model.kind", "attention"), (N_HEADS, LAYERS[name].n_heads))
    return tuple((f"model.{option}", getattr(VARIANTS[name], option)) for option in OPTIONS)


def _against_plain(name: str, column: str = ARGMAX, queries: int = 10) -> Quantity:
    fixed: Where = ((N_QUERIES, queries),)
    plain = Quantity("mean", column, where=(*fixed, *rows_of(PLAIN)))
    return Quantity("mean", column, where=(*fixed, *rows_of(name)), minus=plain)


def _means(column: str, name: str) -> Summary:
    return Summary(
        name,
        f"Mean {label(column)} of each variant, at equal parameters",
        tuple((variant, Quantity("mean", column, where=rows_of(variant))) for variant in VARIANTS),
        over=(N_QUERIES,),
        x="quantity",
        x_title="variant",
    )


SUMMARIES = (
    _means(ARGMAX, "recall-by-variant"),
    _means(CONFIDENT, "confident-recall-by-variant"),
    Summary(
        "against-plain",
        "Recall of each variant minus recall of the plain layer, 10 queries",
        tuple((label, _against_plain(label)) for label in VARIANTS if label != PLAIN),
        over=(),
        x="quantity",
        x_title="variant",
        y_title="recall gained over the plain layer",
    ),
)

CHARTS = (
    Chart(
        "recall-and-confidence",
        "Recall and confident recall of every model, by number of layers and MLP width",
        "points",
        x=ARGMAX,
        y=CONFIDENT,
        colour="model.mlp_width",
        facet="model.n_layers",
        where=(("model.kind", "transformer"),),
        references=(ReferenceLine("equal", "x"),),
    ),
)

QUOTE = "The impact of positional embeddings, MLP layers, and having multiple layers is unknown."
PLACE = "open questions, quoted from a summary"
WHY = "The paper leaves this open; nothing is published. Mean recall minus that of the plain layer on the same tables, "


def _open(name: str, note: str, column: str = ARGMAX, queries: int = 10) -> Claim:
    by = "" if column == ARGMAX else ", confidently"
    at = "" if queries == 10 else f", {queries} queries"
    return Claim(
        f"{name}{by}{at}",
        f"What recall{f' at confidence {TAU}' if by else ''} gains by {name} at the same number of parameters{at}.",
        _against_plain(name, column, queries),
        None,
        place=PLACE,
        quote=QUOTE,
        note=f"{WHY}{queries} queries. {note}",
        extension=True,
    )


CLAIMS = (
    _open("positions", "d_qk goes from 5 to 4."),
    _open("wide MLP", "12 hidden units; d_model goes from 10 to 8, d_qk and d_vo to 2 and 4."),
    _open("narrow MLP", "5 hidden units; d_qk and d_vo go to 2 and 2."),
    _open("layer norm", "d_qk goes from 5 to 3."),
    _open("two layers", "d_qk and d_vo go from 5 and 5 to 2 and 3 in each."),
    _open("two heads", "The yardstick: each head has the sizes of one of the two layers."),
    _open("all of them", "Two layers, MLPs of 3 hidden units, positions, layer norm; d_model 8, d_qk 1, d_vo 2."),
    _open("wide MLP", "As above.", CONFIDENT),
    _open("two layers", "As above.", CONFIDENT),
    _open("wide MLP", "The full size only.", queries=20),
    _open("two layers", "The full size only.", queries=20),
    _open("two heads", "The full size only.", queries=20),
)

ARCHITECTURES = Study(
    name="architectures",
    title="Positions, layer norm, MLPs and a second layer at equal parameters",
    source=source("open questions of a summary"),
    question="The paper studies a single bare attention layer. With the same number of parameters, does a model with "
    "positional embeddings, layer norm, an MLP or a second layer recall more facts?",
    method="We train eight models with the same number of parameters, within 2 %, on full random tables of 20 keys "
    "and 20 values. Each variant pays for its addition with narrower heads (the wide MLP and the combination of all "
    "options also with a smaller d_model). Tables, seeds, optimiser and epochs are identical. A single learning rate "
    "may not suit all variants equally well.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
