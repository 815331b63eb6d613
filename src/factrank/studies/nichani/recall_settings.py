"""What the studies of factual recall share: the task, the transformer, how it is trained, what columns are called.

As in the authors' public scripts: T = 32 tokens, as many noise tokens as subjects and relations, embeddings that stay
as they are drawn, Adam on batches of 1,024 new sequences, at most 16,384 steps. What we do otherwise: recall is over
all facts, each in 4 noise contexts, and of the last state (the scripts take 1,024 random sequences and the best of all
checkpoints); head sizes are at least 1 (the scripts round them down, to 0 in small models); a run ends at the first
check, every 512 steps, with enough facts right. Steps of the full sizes multiply in tf32, recall is always computed in
full float32. The quick sizes have batches of 128 and fewer steps.

That a size counts by its last state matters. The scripts stop at the first of 128 looks, one every 128 steps, at which
more than 99 % of 1,024 sequences are right, take the best of all looks, and (Figure 4, left) the best of three learning
rates. Ours go on until 99 % of the facts are right in each of their 4 contexts, at the constant rate 0.01. At the end
of training the recall of larger transformers lies between 0.9 and 1 over a wide range of sizes, in no clear order of
sizes and seeds. So our capacities are lower than their protocol would give; by how much was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from factrank.capacity import CapacitySearch, Criterion
from factrank.models import SequenceShape
from factrank.runs.study import Size
from factrank.studies.nichani.settings import MOST_RIGHT
from factrank.training.trial import Generated, Measures, Precision, Training, Trial, generated

HEADS, ANSWERS = 8, 8
RATE, RATES = 0.01, (0.001, 0.003, 0.01)
"""The authors try three and keep the best; pilots of ours chose one."""
STEPS = 16_384
BATCH: dict[Size, int | None] = {"quick": 128, "full": None}
"""Sequences of a batch; 1,024 where it is not said."""
PRECISION: dict[Size, Precision] = {"quick": "float32", "full": "tf32"}
MOST_SEQUENCES = Criterion("recall_sequences", MOST_RIGHT)
"""99 % of all (fact, context): what the authors estimate."""

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, N_HEADS, D_QK, D_VO, MLP = "model.d_model", "model.n_heads", "model.d_qk", "model.d_vo", "model.mlp_width"
N_KEYS, N_QUERIES, ANSWER_COUNT = "database.n_keys", "database.n_queries", "database.answers_per_query"
STRUCTURE, LINEAR, KIND, LEARNING_RATE = "database.structure", "model.linear", "model.kind", "training.learning_rate"
RECALL, FACTS, PARAMETERS, PER_PARAMETER = "recall_sequences", "facts", "parameters", "facts / parameters"
FORM = "form"
ATTENTION_PARAMETERS = f"2 * {D_MODEL} * {N_HEADS} * {D_QK} + 2 * {D_MODEL} * {N_HEADS} * {D_VO}"
MLP_PARAMETERS = f"2 * {D_MODEL} * {MLP}"

MODEL_TITLE, HEADS_TITLE, MLP_TITLE = "model width d", "number of heads H", "MLP width m"
FACTS_TITLE, PARAMETERS_TITLE = "facts held", "parameters 4 H d_h d + 2 m d"
RECALL_TITLE, EPOCH_TITLE = "share of sequences answered rightly", "step"


def facts(n_keys: int, n_queries: int, seed: int, *, answers: int = ANSWERS, structure: str = "random") -> Generated:
    """The facts of the task: S subjects, R relations, D answers of each relation."""
    return generated(
        "answer-sets",
        n_keys=n_keys,
        n_queries=n_queries,
        answers_per_query=answers,
        structure=structure,
        seed=seed,
    )


def transformer(d_model: int, attention: int | float, mlp: int | float, n_heads: int = HEADS) -> SequenceShape:
    """The shape with head size d_h = alpha d / H, at least 1, and MLP width m = beta d.

    >>> transformer(32, 0.5, 2).counted_parameters
    6144
    """
    d_head = max(1, round(attention * d_model / n_heads))
    return SequenceShape(d_model, n_heads, d_qk=d_head, d_vo=d_head, mlp_width=round(mlp * d_model))


def until_held(size: Size, *, steps: int = STEPS, stop_at: float = MOST_RIGHT, rate: float = RATE) -> Training:
    """Training until this share of all facts is right in every context; at most so many steps, 4,096 if quick."""
    return Training(
        epochs=steps if size == "full" else 4096,
        learning_rate=rate,
        batch_size=BATCH[size],
        stop="recall",
        stop_at=stop_at,
        check_every=512 if size == "full" else 256,
        precision=PRECISION[size],
    )


def square(n_facts: int, seed: int) -> Generated:
    """The task with S = R and at most so many facts.

    >>> dict(square(200, 0).arguments)["n_keys"]
    14
    """
    return facts(isqrt(n_facts), isqrt(n_facts), seed)


def capacity_search(
    size: Size,
    shape: SequenceShape,
    seed: int,
    *,
    task: Callable[[int, int], Generated] = square,
    form: str = "",
    rate: float = RATE,
    resolution: float = 1.1,
) -> CapacitySearch:
    """The greatest number of facts that a transformer of this shape holds, to 10 % or to the next task there is.

    A size is a number of facts that the task may have at most; `task` gives it for a size and a seed, and `form`, where
    it is not the one of Figure 4, is a column of its own. `resolution` is that of the full size.
    """
    training = until_held(size, rate=rate)

    def family(n_facts: int) -> list[Trial]:
        return [Trial(task(n_facts, seed), shape, training, seed=seed, measures=Measures())]

    what = f"d {shape.d_model}, d_h {shape.d_vo}, m {shape.mlp_width}, H {shape.n_heads}, rate {rate:g}, seed {seed}"
    return CapacitySearch(
        f"{form}{', ' if form else ''}{what}",
        family,
        guess=max(8, round(0.12 * shape.counted_parameters)),
        criterion=MOST_SEQUENCES,
        least=4,
        probes=4 if size == "full" else 2,
        resolution=resolution if size == "full" else 1.6,
        labels={FORM: form} if form else {},
    )
