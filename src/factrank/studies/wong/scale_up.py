"""Scale-up: do ranks and rank-based predictions extend to 2,000, 6,000 and 20,000 facts?

The paper stops at 200 facts; a published summary proposes 10 to 100 times as many ("Next checks", 1), with rank
estimated by CP with a tolerance and capacity predictions compared with training. We use two kinds of full table:

- Random values (uniform), for the predictions. By rank: a layer with a higher rank bound recalls more, even at the same
  number of parameters. By information: a layer of P parameters stores about b P bits, with b = 2 or 3.6 as found for
  language models (arXiv 2404.05405, 2505.24832), or 2.6 as found for tensors fitted directly.
- Boxes with one value each (overlapping-boxes), whose rank is exactly the number of boxes: does CP with a relative
  residual of 0.001 find it, and do layers of lower rank store such tables?

Our choices: 4 heads with d_qk = d_vo = d_model / 4, compared with layers of the same number of parameters and d_vo = 1,
whose rank is lower; small single-head layers for the boxes, since larger ones recall everything.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial, generated
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape, PlantedCP, Ranks
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    D_MODEL,
    D_VO,
    GENERATOR,
    LAYER_RANK,
    N_KEYS,
    RANK,
    RANK_LOWER,
    RANK_UPPER,
    SEEDS,
    TITLES,
    TRAINING,
    boxes,
    single_head,
    source,
)

TABLES = {2_000: (100, 20, 50), 6_000: (300, 20, 100), 20_000: (500, 40, 200)}
"""Keys, queries and values, by number of facts."""
FACTS_OF: dict[Size, tuple[int, ...]] = {"quick": (2_000,), "full": tuple(TABLES)}
HEADS = 4
WIDTHS: dict[Size, dict[int, tuple[int, ...]]] = {
    "quick": {2_000: (16, 24)},
    "full": {2_000: (8, 16, 24, 32), 6_000: (16, 24, 32, 48), 20_000: (32, 48, 64, 96)},
}
STARVED: dict[Size, dict[int, tuple[int, ...]]] = {
    "quick": {2_000: (24,)},
    "full": {2_000: (16, 24, 32), 6_000: (24, 48), 20_000: (48, 96)},
}
"""Widths at which layers with d_vo = 1 are added."""
PLANTED: dict[Size, dict[int, tuple[int, ...]]] = {
    "quick": {2_000: (50, 200)},
    "full": {2_000: (50, 100, 200, 400), 6_000: (100, 300), 20_000: (100, 200)},
}
"""Ranks of the tables of boxes."""
SMALL_LAYERS = (single_head(3, 1, 2), single_head(6, 3, 4))
TOLERANCE = 1e-3
RANKS = (Ranks(),)
ESTIMATED = (Ranks(), PlantedCP(TOLERANCE))
"""The estimate is a property of the table, so only the trials of one layer compute it."""


def wide(d_model: int) -> LayerShape:
    """Returns a shape with 4 heads and d_qk = d_vo = d_model / 4."""
    return LayerShape(d_model, HEADS, d_model // 4, d_model // 4)


def starved(d_model: int) -> LayerShape:
    """Returns a shape with as many parameters and d_vo = 1."""
    return LayerShape(d_model, HEADS, d_model // 2 - 1, 1)


def trials(size: Size) -> list[Trial]:
    """Returns random tables with both kinds of layer, then tables of planted rank with small layers."""
    listed: list[Trial] = []
    for n_facts in FACTS_OF[size]:
        n_keys, n_queries, n_values = TABLES[n_facts]
        shapes = [*map(wide, WIDTHS[size][n_facts]), *map(starved, STARVED[size][n_facts])]
        for seed in SEEDS[size]:
            table = generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, seed=seed)
            listed += [Trial(table, shape, TRAINING, RANKS, seed=seed) for shape in shapes]
            for rank in PLANTED[size][n_facts]:
                planted = boxes(n_keys, n_queries, rank, seed)
                listed += [
                    Trial(planted, shape, TRAINING, ESTIMATED if at == 0 else RANKS, seed=seed)
                    for at, shape in enumerate(SMALL_LAYERS)
                ]
    return listed


RANDOM: Where = ((GENERATOR, "uniform"),)
BOXES: Where = ((GENERATOR, "overlapping-boxes"),)
WITH_ESTIMATE: Where = (*BOXES, (D_MODEL, SMALL_LAYERS[0].d_model))
STARVED_ROWS: Where = (*RANDOM, (D_VO, 1))
WIDE_ROWS: Where = (*RANDOM, (f"4 * {D_VO} - {D_MODEL}", 0))
BITS = "bits / parameters"
PREDICTED = (2.0, 2.6, 3.6)
"""Bits per parameter of the predictions."""
RECALLED_BITS = f"{ARGMAX} * bits / parameters"
FACTS = "facts"

CHARTS = (
    Chart(
        "recall-by-bits",
        "Random tables, d_vo = d_model / 4: recall against bits per parameter",
        "points",
        x=BITS,
        y=ARGMAX,
        colour=FACTS,
        where=WIDE_ROWS,
        x_title="bits of the table per parameter of the layer",
    ),
    Chart(
        "recall-by-rank",
        "Random tables: recall against the rank bound of the layer",
        "points",
        x=LAYER_RANK,
        y=ARGMAX,
        colour=FACTS,
        where=RANDOM,
        log_x=True,
    ),
    Chart(
        "planted-recall",
        "Tables of planted rank: recall against the rank bound of the layer over the rank of the table",
        "points",
        x=f"{LAYER_RANK} / {RANK}",
        y=ARGMAX,
        colour=FACTS,
        where=BOXES,
        log_x=True,
        x_title="rank bound of the layer / rank of the table",
        references=(ReferenceLine("equal ranks", x=1),),
    ),
)

SUMMARIES = (
    Summary(
        "recall",
        "Random tables: recall by number of parameters",
        (
            ("d_vo = d_model / 4", Quantity("mean", ARGMAX, where=WIDE_ROWS)),
            ("d_vo = 1", Quantity("mean", ARGMAX, where=STARVED_ROWS)),
        ),
        over=("parameters", FACTS),
        x_title="parameters of the layer",
        log_x=True,
    ),
    Summary(
        "bits-recalled",
        "Random tables: most bits recalled per parameter by any layer (recall × bits / parameters)",
        (("bits per parameter", Quantity("greatest", RECALLED_BITS, where=RANDOM)),),
        over=(FACTS,),
        log_x=True,
    ),
    Summary(
        "capacity",
        "Random tables, d_vo = d_model / 4: predicted minus trained recall, assuming b bits per parameter",
        tuple((f"b = {b}", Quantity("mean", f"predicted_{b} - {ARGMAX}", where=WIDE_ROWS)) for b in PREDICTED),
        over=("parameters", FACTS),
        x_title="parameters of the layer",
        y_title="predicted minus trained recall",
        log_x=True,
    ),
    Summary(
        "bounds",
        "Random tables: certified bounds on the rank, and Proposition 2.1",
        (
            ("lower bound", Quantity("mean", RANK_LOWER, where=RANDOM)),
            ("upper bound", Quantity("mean", RANK_UPPER, where=RANDOM)),
            ("Proposition 2.1", Quantity("mean", "proposition", where=RANDOM)),
            ("effective rank, upper bound", Quantity("mean", "effective_upper", where=RANDOM)),
        ),
        over=(FACTS,),
        y_title="rank",
        log_x=True,
        log_y=True,
    ),
    Summary(
        "planted",
        "Tables of planted rank: recall of small layers",
        (("recall", Quantity("mean", ARGMAX, where=BOXES)),),
        over=(RANK, LAYER_RANK, FACTS),
        x_title="planted rank",
        log_x=True,
    ),
    Summary(
        "planted-estimate",
        f"Tables of planted rank: CP rank (relative residual {TOLERANCE:g}) over planted rank",
        (("ratio", Quantity("mean", f"cp_rank / {RANK}", where=WITH_ESTIMATE)),),
        over=(RANK, FACTS),
        x_title="planted rank",
        y_title="CP rank / planted rank",
        log_x=True,
        references=(ReferenceLine("the planted rank", "1"),),
    ),
)

NEXT = "next checks, quoted from a summary"


def _at_width(n_facts: int, d_model: int) -> Claim:
    """Returns the claim that compares wide and starved layers of one width on one size of table."""
    rows: Where = (*RANDOM, (N_KEYS, TABLES[n_facts][0]), (D_MODEL, d_model))
    return Claim(
        f"rank counts at equal parameters, {n_facts:,} facts",
        f"At {n_facts:,} facts and the same number of parameters, layers of greater rank recall more.",
        mean_difference(ARGMAX, (*rows, *WIDE_ROWS), (*rows, *STARVED_ROWS)),
        "greater",
        place="abstract",
        quote="increasing layer capacity without increasing the number of parameters",
        note=f"d_model {d_model}, 4 heads: recall with d_vo = d_qk = {d_model // 4} minus recall with d_vo = 1 and "
        f"d_qk = {d_model // 2 - 1}. The paper stops at 200 facts.",
        extension=True,
    )


def _most_bits(n_facts: int) -> Claim:
    return Claim(
        f"bits per parameter, {n_facts:,} facts",
        f"The most bits that a layer recalls per parameter, {n_facts:,} facts.",
        Quantity("greatest", RECALLED_BITS, where=(*RANDOM, (N_KEYS, TABLES[n_facts][0]))),
        None,
        place="cf. the next checks",
        note="recall × n log2 |V| / parameters, embeddings included, for the best layer on each table. Language "
        "models were found to store about 2 (arXiv 2404.05405) and 3.6 (arXiv 2505.24832) with other models, data and "
        "training, so there is nothing to reproduce.",
        extension=True,
    )


CLAIMS = (
    *(
        Claim(
            f"capacity of {b} bits per parameter",
            f"Predicted less trained recall, for layers that hold {b} bits per parameter.",
            Quantity("mean", f"predicted_{b} - {ARGMAX}", within=(N_KEYS,), where=WIDE_ROWS),
            None,
            place="cf. the next checks",
            note="min(1, b parameters / bits) minus recall for layers with d_vo = d_model / 4, averaged over widths "
            "and table sizes. 2 and 3.6 were found for language models, 2.6 for tensors fitted to tables.",
            extension=True,
        )
        for b in PREDICTED
    ),
    Claim(
        "rank predicts recall",
        "On tables of 2,000 facts and more, recall rises with the bound on the rank of the layer.",
        Quantity("rank correlation", ARGMAX, LAYER_RANK, (N_KEYS,), RANDOM),
        "greater",
        place="mechanism 1, quoted from a summary",
        quote="Empirical results confirm rank(L) bounds predict memorization capacity",
        note="Spearman correlation over all layers at each size, averaged. Wider layers also have more parameters; "
        "see the claims at equal parameters.",
    ),
    _at_width(2_000, 24),
    _at_width(6_000, 24),
    _at_width(20_000, 48),
    Claim(
        "CP finds planted ranks",
        "CP with a relative residual of 0.001 finds the rank of tables whose rank is known.",
        Quantity("mean", f"cp_rank / {RANK}", where=WITH_ESTIMATE),
        1.0,
        tolerance=0.02,
        place=NEXT,
        quote="Implement approximate tensor rank computation methods (e.g., CP decomposition with tolerance)",
        note="CP rank over planted rank, all sizes and ranks. Proposed but not published: the number is true by "
        "construction, the tolerance ours. These tables are easy for CP because their parts do not overlap.",
        extension=True,
    ),
    Claim(
        "layers of smaller rank hold planted tables",
        "Of the layers that hold a whole table of planted rank, how many have a smaller rank than the table?",
        Quantity("fraction", "violates", "memorised", where=BOXES),
        None,
        place="key results, quoted from a summary",
        quote="The rank relationship rank(D) ≤ rank(L) provides meaningful capacity bounds despite softmax distortion "
        "effects",
        note="Argmax. If positive, the inequality does not bound what argmax recalls; the paper says so itself for "
        "argmax, but gives no fraction.",
    ),
    Claim(
        "planted rank predicts recall",
        "Among tables of equally many facts, those of higher planted rank are recalled less by the same layer.",
        Quantity("rank correlation", ARGMAX, RANK, (N_KEYS, D_MODEL), (*BOXES, (D_MODEL, SMALL_LAYERS[0].d_model))),
        "less",
        place="abstract",
        quote="propose the rank of this tensor as a measure of the size of the database",
        note="Spearman correlation of recall with the planted rank for the smallest layer, at each size, averaged.",
    ),
    _most_bits(2_000),
    _most_bits(6_000),
    _most_bits(20_000),
)

SCALE_UP = Study(
    name="scale-up",
    title="Scale-up: 2,000, 6,000 and 20,000 facts",
    source=source("next checks of a summary"),
    question="The paper's tables have at most 200 facts. With 10 to 100 times as many, does the rank of a layer still "
    "predict its recall, how many bits does a parameter store, and can ranks be estimated by CP with a tolerance?",
    method="We train layers with 4 heads of different widths, and layers with the same number of parameters and d_vo "
    "= 1, on full random tables of 100 keys × 20 queries with 50 values, 300 × 20 with 100, and 500 × 40 with 200. "
    "Bounds on the ranks of tables are certified. Tables cut into boxes, each with its own value, have a known rank: "
    f"CP with a relative residual of {TOLERANCE:g} estimates it, and small layers learn them. The quick size has "
    "2,000 facts only.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
