"""Attention storage: can the attention map of one head store the facts, and does training find such a solution?

With d_vo = 1 a head writes along one direction, so its answers depend on a single number per (key, query). A closed
form (one head, d_vo = 1, d_qk = |Q|, d_model = 2 |Q| + 1) encodes that number in the attention weight itself, A[k, q] =
(f(k, q) + 1/2) / |V|, and recalls every fact of every table. The hard limit is therefore precision, not the number of
heads or d_vo. The paper treats query-key weights purely as routing and argues that limited precision bounds what
softmax can add.

Our choices: |K| = |V| = 20, full tables, the sizes of the closed form. We train layers in float32, float64 and bfloat16
(with float32 master weights) for 2,000 epochs, and in float32 also for 20,000. The float32 layers are also evaluated in
bfloat16, with weights rounded after training. As a control, layers whose scores are multiplied by 0 attend equally to
both tokens throughout: whatever they recall needs no attention map.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from factrank.experiments.columns import label
from factrank.experiments.specs import Training, TrainingPrecision, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import Readings
from factrank.studies.parts import mean_difference
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_QK,
    MORE_SEEDS,
    N_QUERIES,
    TAU,
    TITLES,
    TRAINING,
    full_table,
    single_head,
    source,
)

QUERIES = 6
"""The number of queries at which precisions are compared; the closed form has d_qk = 6."""
OTHER_QUERIES = (4, 10)
D_QKS: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 6), "full": (1, 2, 4, 6, 13)}
OTHER_D_QKS = (1, 2, 4, 6, 10, 13)
PRECISIONS: tuple[TrainingPrecision, ...] = ("float32", "float64", "bfloat16")
LONG = 20_000
PRECISION, EPOCHS, SCALE = "training.precision", "training.epochs", "training.score_scale"
READ_TWICE = Readings(taus=(TAU,), precisions=("float32", "bfloat16"))


def _trial(n_queries: int, d_qk: int, seed: int, training: Training) -> Trial:
    return Trial(
        full_table(20, n_queries, seed),
        single_head(2 * n_queries + 1, 1, d_qk),
        training,
        seed=seed,
        measures=(READ_TWICE,) if training.precision == "float32" and training.score_scale else (),
    )


def trials(size: Size) -> list[Trial]:
    """Returns every d_qk in each precision, for longer, and without attention; other query counts in float32 only."""
    listed: list[Trial] = []
    for seed in MORE_SEEDS[size]:
        kinds = [replace(TRAINING, precision=precision) for precision in PRECISIONS]
        kinds.append(replace(TRAINING, epochs=LONG))
        listed += [_trial(QUERIES, d_qk, seed, kind) for kind in kinds for d_qk in D_QKS[size]]
        listed.append(_trial(QUERIES, 1, seed, replace(TRAINING, score_scale=0.0)))
        if size == "full":
            listed += [_trial(other, d_qk, seed, TRAINING) for other in OTHER_QUERIES for d_qk in OTHER_D_QKS]
    return listed


TRAINED: Where = ((SCALE, 1.0),)
SIX: Where = ((N_QUERIES, QUERIES), *TRAINED)
SHORT: Where = ((EPOCHS, TRAINING.epochs),)
BOTH_SIZES: Where = ((D_QK, D_QKS["quick"]),)


def _in(precision: str) -> Where:
    return (*SIX, *SHORT, (PRECISION, precision))


def _mean(where: Where, minus: Quantity | None = None, within: tuple[str, ...] = ()) -> Quantity:
    return Quantity("mean", ARGMAX, within=within, where=where, minus=minus)


def _precisions(column: str) -> tuple[tuple[str, Quantity], ...]:
    return tuple((name, Quantity("mean", column, where=_in(name))) for name in PRECISIONS)


def _by_d_qk(name: str, title: str, quantities: tuple[tuple[str, Quantity], ...]) -> Summary:
    return Summary(name, title, quantities, over=(D_QK,))


CHARTS = (
    Chart(
        "recall-by-queries",
        "Recall of one head with d_vo = 1 and d_model = 2 |Q| + 1 after 2,000 epochs in float32",
        "lines",
        x=D_QK,
        y=ARGMAX,
        colour=N_QUERIES,
        where=(*TRAINED, *SHORT, (PRECISION, "float32")),
    ),
)

SUMMARIES = (
    _by_d_qk("recall", "Recall by training precision, 6 queries, 2,000 epochs", _precisions(ARGMAX)),
    _by_d_qk(
        "confident-recall",
        f"{label(CONFIDENT).capitalize()} by training precision, 6 queries, 2,000 epochs",
        _precisions(CONFIDENT),
    ),
    _by_d_qk(
        "longer",
        "Recall after 2,000 and after 20,000 epochs in float32, 6 queries",
        tuple(
            (f"{epochs:,} epochs", _mean((*SIX, (PRECISION, "float32"), (EPOCHS, epochs))))
            for epochs in (TRAINING.epochs, LONG)
        ),
    ),
    Summary(
        "read-in-bfloat16",
        "Recall by argmax of layers trained in float32 and evaluated in float32 or bfloat16, 6 queries",
        (("recall", Quantity("mean", "argmax", where=(*SIX, *SHORT, (PRECISION, "float32")))),),
        over=(D_QK, "precision"),
        data="readings",
    ),
)

CONSTRUCTED = "our closed form"
BOUNDED = "Limited machine precision bounds practical rank inflation"
MECHANISM = "mechanism 3, quoted from a summary"

ours = partial(Claim, extension=True)

CLAIMS = (
    Claim(
        "d_qk helps at d_vo = 1",
        "With d_vo = 1, recall rises with d_qk.",
        Quantity("slope", ARGMAX, D_QK, where=(*_in("float32"), *BOTH_SIZES)),
        "rises",
        place="Figure 4 (diagonals), quoted from a summary",
        quote="Very small d_head,vo requires some minimal d_head,qk for routing",
        note="Recall per dimension of d_qk from 1 to 6; float32, 6 queries, d_model 13.",
    ),
    ours(
        "training finds the closed form",
        "One head with d_vo = 1 and d_qk = |Q| recalls every fact after training in float64.",
        _mean((*_in("float64"), (D_QK, QUERIES))),
        1.0,
        tolerance=0.01,
        place=CONSTRUCTED,
        note="The closed form of this size recalls every fact. Whether training finds it is not published; 1 is what "
        "the weights could reach, and the tolerance is ours.",
    ),
    ours(
        "training finds the closed form in ten times the epochs",
        "The same after 20,000 epochs, in float32.",
        _mean((*SIX, (PRECISION, "float32"), (EPOCHS, LONG), (D_QK, QUERIES))),
        1.0,
        tolerance=0.01,
        place=CONSTRUCTED,
        note="As before. If training were merely slow, recall would be closer to 1 here.",
    ),
    ours(
        "what ten times the epochs change",
        "Recall after 20,000 epochs less recall after 2,000, both in float32, d_qk = |Q|.",
        _mean(
            (*SIX, (PRECISION, "float32"), (EPOCHS, LONG), (D_QK, QUERIES)), _mean((*_in("float32"), (D_QK, QUERIES)))
        ),
        None,
        place=CONSTRUCTED,
        note="Adam at a constant learning rate of 0.01. A negative value means that training drifts away from what it "
        "had found.",
    ),
    ours(
        "the attention map holds facts",
        "At d_vo = 1 and d_qk = 6, recall is greater than that of layers whose attention is held at 1/2.",
        _mean((*_in("float32"), (D_QK, QUERIES)), _mean(((SCALE, 0.0),))),
        "greater",
        place=CONSTRUCTED,
        note="The control layers also have d_vo = 1, with scores multiplied by 0; float32, 6 queries.",
    ),
    ours(
        "float64 holds more than float32",
        "Layers trained in float64 recall more facts than layers trained in float32.",
        _mean((*_in("float64"), *BOTH_SIZES), _mean((*_in("float32"), *BOTH_SIZES), within=(D_QK,)), (D_QK,)),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="Assumes that precision is the limit, which we infer from the quote. d_vo = 1, 6 queries, d_qk 1, 2 and "
        "6, the same tables and seeds.",
    ),
    ours(
        "float32 holds more than bfloat16",
        "Layers trained in float32 recall more facts than layers trained in bfloat16.",
        _mean((*_in("float32"), *BOTH_SIZES), _mean((*_in("bfloat16"), *BOTH_SIZES), within=(D_QK,)), (D_QK,)),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="As before. The bfloat16 layers have float32 master weights and are evaluated in bfloat16.",
    ),
    ours(
        "rounding the weights loses facts",
        "Layers trained in float32 recall more facts when read in float32 than when read in bfloat16.",
        mean_difference(
            "argmax",
            (*_in("float32"), *BOTH_SIZES, ("precision", "float32")),
            (*_in("float32"), *BOTH_SIZES, ("precision", "bfloat16")),
            (D_QK,),
        ),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="The same layers, with weights rounded after training and everything computed in bfloat16; d_qk 1, 2 and "
        "6.",
        data="readings",
    ),
)

ATTENTION_STORAGE = Study(
    name="attention-storage",
    title="Facts in the attention map: d_vo = 1 in three precisions",
    source=source("Propositions 3.6 and 3.7; mechanism 3 of a summary"),
    question="With enough precision, one head with d_vo = 1 could store a whole table in its attention map. Does "
    "training exploit that, and does precision limit recall?",
    method="We train layers with one head, d_vo = 1 and d_model = 2 |Q| + 1, the sizes of a closed form that recalls "
    "every fact, on full random tables of 20 keys, 6 queries and 20 values, with different d_qk, in float32, float64 "
    "and bfloat16. Some are trained ten times as long, some with attention fixed at 1/2, and the float32 layers are "
    "also evaluated in bfloat16. The full size adds tables of 4 and 10 queries in float32.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
