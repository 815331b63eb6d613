"""Shared settings of the factual recall studies: task, transformer, training, column names.

As in the authors' public scripts: T = 32 tokens, as many noise tokens as subjects and relations, frozen random
embeddings, Adam on batches of 1,024 fresh sequences, at most 16,384 steps. Heads have size at least 1 (the scripts
round down, to 0 in small models). The full sizes train with tf32 products; recall is always computed in full float32.
The quick sizes have batches of 128 and fewer steps.

There are two protocols.

- `evaluated_trial` follows the authors: a learning rate of 0.001, 0.003 or 0.01, all 16,384 steps, and an evaluation
  every 128 steps on a fixed test set of 1,024 sequences. A task counts as stored under `AUTHORS` if more than 99 % of
  the test set is correct at any evaluation (the scripts stop there), and under `AT_END` if 99 % of all (fact, context)
  pairs are correct after the last step, with 4 noise contexts per fact. Both are read from the same runs.
- `until_held`, which we ran first, uses learning rate 0.01 only and judges the final state. A run ends at the first
  check, every 512 steps, at which 99 % of the facts are correct in all contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from factrank.experiments.capacity import CapacitySearch, Criterion
from factrank.experiments.specs import Best, Curve, Generated, Training, TrainingPrecision, Trial, generated
from factrank.experiments.study import Size
from factrank.families.factual_recall import FactualRecallShape, TestRecall
from factrank.studies.nichani.settings import MOST_RIGHT

HEADS, ANSWERS = 8, 8
RATE, RATES = 0.01, (0.001, 0.003, 0.01)
"""The authors try three and keep the best; we chose one from pilot runs."""
STEPS = 16_384
BATCH: dict[Size, int | None] = {"quick": 128, "full": None}
"""Sequences per batch; None means 1,024."""
PRECISION: dict[Size, TrainingPrecision] = {"quick": "float32", "full": "tf32"}
MOST_SEQUENCES = AT_END = Criterion("recall_sequences", MOST_RIGHT)
"""99 % of all (fact, context) pairs after the last step."""
AUTHORS = Criterion("best_test_recall", MOST_RIGHT)
"""99 % of the test set at any evaluation; with 1,024 sequences that means more than 99 %."""
EVALUATIONS: dict[Size, int] = {"quick": 8, "full": 128}
"""Equally spaced evaluations, after the one before the first step."""
QUICK_STEPS = 1024

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, N_HEADS, D_QK, D_VO, MLP = "model.d_model", "model.n_heads", "model.d_qk", "model.d_vo", "model.mlp_width"
N_KEYS, N_QUERIES, ANSWER_COUNT = "data.n_keys", "data.n_queries", "data.answers_per_query"
STRUCTURE, LINEAR, KIND, LEARNING_RATE = "data.structure", "model.linear", "model.kind", "training.learning_rate"
RECALL, FACTS, PARAMETERS, PER_PARAMETER = "recall_sequences", "facts", "parameters", "facts / parameters"
FORM = "form"
ATTENTION_PARAMETERS = f"2 * {D_MODEL} * {N_HEADS} * {D_QK} + 2 * {D_MODEL} * {N_HEADS} * {D_VO}"
MLP_PARAMETERS = f"2 * {D_MODEL} * {MLP}"

RECALL_TITLE = "fraction of sequences answered correctly"
TITLES = {
    D_MODEL: "model width d",
    N_HEADS: "number of heads H",
    MLP: "MLP width m",
    PARAMETERS: "parameters 4 H d_h d + 2 m d",
    "epoch": "step",
}
"""Axis titles in the notation of the paper."""


def facts(n_keys: int, n_queries: int, seed: int, *, answers: int = ANSWERS, structure: str = "random") -> Generated:
    """Returns the facts of the task: S subjects, R relations and D answers per relation."""
    return generated(
        "answer-sets", n_keys=n_keys, n_queries=n_queries, answers_per_query=answers, structure=structure, seed=seed
    )


def transformer(d_model: int, attention: int | float, mlp: int | float, n_heads: int = HEADS) -> FactualRecallShape:
    """Returns the shape with head size d_h = alpha d / H, at least 1, and MLP width m = beta d.

    >>> transformer(32, 0.5, 2).counted_parameters
    6144
    """
    d_head = max(1, round(attention * d_model / n_heads))
    return FactualRecallShape(d_model, n_heads, d_qk=d_head, d_vo=d_head, mlp_width=round(mlp * d_model))


def until_held(size: Size, *, steps: int = STEPS, stop_at: float = MOST_RIGHT, rate: float = RATE) -> Training:
    """Returns training until this fraction of facts is correct in every context, for at most `steps` (quick: 4,096)."""
    return Training(
        epochs=steps if size == "full" else 4096,
        learning_rate=rate,
        batch_size=BATCH[size],
        stop="recall",
        stop_at=stop_at,
        check_every=512 if size == "full" else 256,
        precision=PRECISION[size],
    )


def evaluated_trial(size: Size, task: Generated, shape: FactualRecallShape, seed: int, rate: float) -> Trial:
    """Returns a run of the authors' protocol: all steps, with the test set and all facts at every evaluation."""
    steps = STEPS if size == "full" else QUICK_STEPS
    return Trial(
        task,
        shape,
        Training(epochs=steps, learning_rate=rate, batch_size=BATCH[size], precision=PRECISION[size]),
        seed=seed,
        measures=(TestRecall(1024), Best(), Curve(tuple(range(0, steps + 1, steps // EVALUATIONS[size])))),
    )


def square(n_facts: int, seed: int) -> Generated:
    """Returns the task with S = R and at most `n_facts` facts.

    >>> dict(square(200, 0).arguments)["n_keys"]
    14
    """
    return facts(isqrt(n_facts), isqrt(n_facts), seed)


def capacity_search(
    size: Size,
    shape: FactualRecallShape,
    seed: int,
    *,
    task: Callable[[int, int], Generated] = square,
    form: str = "",
    rate: float = RATE,
) -> CapacitySearch:
    """Returns the search for the largest number of facts that a transformer stores, to 10 % or the next possible task.

    A size is an upper limit on the number of facts; `task` builds the task from a size and a seed. `form`, if the task
    is not the one of Figure 4, becomes a column.
    """
    training = until_held(size, rate=rate)

    def family(n_facts: int) -> list[Trial]:
        return [Trial(task(n_facts, seed), shape, training, seed=seed)]

    what = f"d {shape.d_model}, d_h {shape.d_vo}, m {shape.mlp_width}, H {shape.n_heads}, rate {rate:g}, seed {seed}"
    return CapacitySearch(
        f"{form}{', ' if form else ''}{what}",
        family,
        guess=max(8, round(0.12 * shape.counted_parameters)),
        criterion=MOST_SEQUENCES,
        least=4,
        probes=4 if size == "full" else 2,
        resolution=1.1 if size == "full" else 1.6,
        labels={FORM: form} if form else {},
    )
