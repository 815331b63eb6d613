"""Shared settings of the Wong 2025 studies: source, training, column names.

The paper leaves most settings open. Unless a study says otherwise, we train all weights by full-batch Adam with
learning rate 0.01 for 2,000 epochs (the most that the paper mentions). Each seed draws new facts and new weights; all
shapes of a study see the same tables.
"""

from __future__ import annotations

from collections.abc import Iterable

from factrank.experiments.specs import Generated, Measure, Training, Trial, generated
from factrank.experiments.study import Size, Source
from factrank.families.attention import LayerShape

PAPER = "Wong 2025, Paying Attention to Facts: Quantifying the Knowledge Capacity of Attention Layers"
LINK = "https://arxiv.org/abs/2502.05076"
FOLLOW_UP = "Wong 2025, the follow-up to Paying Attention to Facts"
FOLLOW_UP_LINK = "https://arxiv.org/abs/2502.17305"


def source(figure: str) -> Source:
    """Returns the paper as a source, at one of its figures or statements."""
    return Source(PAPER, figure, LINK)


TAU = 0.95
"""The threshold that works best in the paper."""
TAUS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The thresholds of the paper's first experiments."""
TRAINING = Training(epochs=2000, learning_rate=0.01)
SEEDS: dict[Size, range] = {"quick": range(3), "full": range(10)}
MORE_SEEDS: dict[Size, range] = {"quick": range(3), "full": range(20)}
"""For studies with cheap trials."""

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, N_HEADS, D_QK, D_VO = "model.d_model", "model.n_heads", "model.d_qk", "model.d_vo"
GENERATOR, N_KEYS, N_QUERIES = "data.generator", "data.n_keys", "data.n_queries"
N_VALUES, N_FACTS, RANK = "data.n_values", "data.n_facts", "data.rank"
ARGMAX, CONFIDENT = "recall", f"recall_{TAU}"
LAYER_RANK, RANK_LOWER, RANK_UPPER = "layer_rank", "rank_lower", "rank_upper"

TAU_TITLE = "confidence threshold τ"
TITLES = {LAYER_RANK: "bound on the rank of the layer", N_QUERIES: "number of queries", N_HEADS: "number of heads"}
"""Axis titles that differ from the labels of the columns."""


def single_head(d_model: int, d_vo: int, d_qk: int) -> LayerShape:
    """Returns the shape of a layer with one head."""
    return LayerShape(d_model=d_model, n_heads=1, d_qk=d_qk, d_vo=d_vo)


def uniform_table(n_keys: int, n_queries: int, n_values: int, n_facts: int, seed: int) -> Generated:
    """Returns a random table, full if there are as many facts as pairs.

    `n_facts` is always passed, which makes it a column.
    """
    return generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, n_facts=n_facts, seed=seed)


def full_table(size: int, n_queries: int, seed: int) -> Generated:
    """Returns a full random table with as many values as keys."""
    return generated("uniform", n_keys=size, n_queries=n_queries, n_values=size, seed=seed)


def boxes(n_keys: int, n_queries: int, rank: int, seed: int) -> Generated:
    """Returns a full table cut into `rank` boxes with one value each; its rank is exactly `rank`."""
    return generated("overlapping-boxes", n_keys=n_keys, n_queries=n_queries, rank=rank, seed=seed)


def crossed(
    tables: Iterable[Generated],
    shapes: Iterable[LayerShape],
    seed: int,
    measures: tuple[Measure, ...],
    training: Training = TRAINING,
) -> list[Trial]:
    """Returns one trial per table and shape, all with the same seed."""
    kept = list(shapes)
    return [Trial(table, shape, training, seed=seed, measures=measures) for table in tables for shape in kept]
