"""What the studies of this paper share: where they come from, how layers are trained, what columns are called.

The paper is silent on most settings. What we chose for all studies unless one says otherwise: all weights are trained,
by Adam with learning rate 0.01 on all facts at once, for 2,000 epochs (the most that the paper names); a new table of
facts and new weights for each seed, and the same tables for all shapes of a study.
"""

from __future__ import annotations

from collections.abc import Iterable

from factrank.experiments.specs import Generated, Measures, Training, Trial, generated
from factrank.experiments.study import Size, Source
from factrank.families.attention import LayerShape

PAPER = "Wong 2025, Paying Attention to Facts: Quantifying the Knowledge Capacity of Attention Layers"
LINK = "https://arxiv.org/abs/2502.05076"
FOLLOW_UP = "Wong 2025, the follow-up to Paying Attention to Facts"
FOLLOW_UP_LINK = "https://arxiv.org/abs/2502.17305"


def source(figure: str) -> Source:
    """The paper, at one of its figures or statements."""
    return Source(PAPER, figure, LINK)


TAU = 0.95
"""The threshold that the paper finds best."""
TAUS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The thresholds that the paper's first experiments ask for."""
TRAINING = Training(epochs=2000, learning_rate=0.01)
SEEDS: dict[Size, range] = {"quick": range(3), "full": range(10)}
MORE_SEEDS: dict[Size, range] = {"quick": range(3), "full": range(20)}
"""For studies whose trials cost little."""

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, N_HEADS, D_QK, D_VO = "model.d_model", "model.n_heads", "model.d_qk", "model.d_vo"
GENERATOR, N_KEYS, N_QUERIES = "database.generator", "database.n_keys", "database.n_queries"
N_VALUES, N_FACTS, RANK = "database.n_values", "database.n_facts", "database.rank"
ARGMAX, CONFIDENT = "recall", f"recall_{TAU}"
LAYER_RANK, RANK_LOWER, RANK_UPPER = "layer_rank", "rank_lower", "rank_upper"

TAU_TITLE = "confidence threshold τ"
TITLES = {LAYER_RANK: "bound on the rank of the layer", N_QUERIES: "number of queries", N_HEADS: "number of heads"}
"""What axes call columns otherwise than their labels do."""


def single_head(d_model: int, d_vo: int, d_qk: int) -> LayerShape:
    """A layer with one head."""
    return LayerShape(d_model=d_model, n_heads=1, d_qk=d_qk, d_vo=d_vo)


def uniform_table(n_keys: int, n_queries: int, n_values: int, n_facts: int, seed: int) -> Generated:
    """A random table; with as many facts as pairs it is full. The number is always given, so that it is a column."""
    return generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, n_facts=n_facts, seed=seed)


def crossed(
    tables: Iterable[Generated],
    shapes: Iterable[LayerShape],
    seed: int,
    measures: Measures,
    training: Training = TRAINING,
) -> list[Trial]:
    """Every shape on every table, all with one seed."""
    kept = list(shapes)
    return [Trial(table, shape, training, seed=seed, measures=measures) for table in tables for shape in kept]
