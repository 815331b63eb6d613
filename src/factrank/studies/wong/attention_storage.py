"""Attention storage: can the attention map of one head hold the facts, and does training find that?

With d_vo = 1 a head writes along one line, so that its answers depend on one number per (key, query). A closed form
(one head, d_vo = 1, d_qk = |Q|, d_model = 2 |Q| + 1) puts that number into the attention weight itself,
A[k, q] = (f(k, q) + 1/2) / |V|, and recalls every fact of every table: neither heads nor d_vo are hard limits,
precision is. The paper reads query-key weights as routing only, and says that limited precision bounds what softmax can
add.

What we chose: |K| = |V| = 20, full tables, the sizes of the closed form. Layers are trained in float32, float64 and
bfloat16 (master weights in float32), for 2,000 epochs and, in float32, for 20,000; the float32 ones are also read in
bfloat16, their weights rounded after training. Layers whose scores are multiplied by 0 weigh both tokens by 1/2 for
ever: what they recall needs no attention map.
"""

from __future__ import annotations

from dataclasses import replace

from factrank.experiments.columns import label
from factrank.experiments.specs import Measures, Readings, Training, TrainingPrecision, Trial, generated
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.wong.settings import (
    ARGMAX,
    CONFIDENT,
    D_QK,
    MORE_SEEDS,
    N_QUERIES,
    TAU,
    TITLES,
    TRAINING,
    single_head,
    source,
)

QUERIES = 6
"""Where all precisions are compared; d_qk = 6 is the closed form's."""
OTHER_QUERIES = (4, 10)
D_QKS: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 6), "full": (1, 2, 4, 6, 13)}
OTHER_D_QKS = (1, 2, 4, 6, 10, 13)
PRECISIONS: tuple[TrainingPrecision, ...] = ("float32", "float64", "bfloat16")
LONG = 20_000
PRECISION, EPOCHS, SCALE = "training.precision", "training.epochs", "training.score_scale"
PLAIN = Measures(taus=(TAU,))
READ_TWICE = Measures(taus=(TAU,), readings=Readings(taus=(TAU,), precisions=("float32", "bfloat16")))


def _trial(n_queries: int, d_qk: int, seed: int, training: Training) -> Trial:
    return Trial(
        generated("uniform", n_keys=20, n_queries=n_queries, n_values=20, seed=seed),
        single_head(2 * n_queries + 1, 1, d_qk),
        training,
        seed=seed,
        measures=READ_TWICE if training.precision == "float32" and training.score_scale else PLAIN,
    )


def trials(size: Size) -> list[Trial]:
    """d_qk in every precision, longer, and without attention; other numbers of queries in float32 only."""
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
        "Recall of one head with d_vo = 1 and d_model = 2 |Q| + 1 in float32, 2,000 epochs",
        "lines",
        x=D_QK,
        y=ARGMAX,
        colour=N_QUERIES,
        where=(*TRAINED, *SHORT, (PRECISION, "float32")),
    ),
)

SUMMARIES = (
    _by_d_qk("recall", "Recall, 6 queries, 2,000 epochs, by precision of training", _precisions(ARGMAX)),
    _by_d_qk(
        "confident-recall",
        f"{label(CONFIDENT).capitalize()}, 6 queries, 2,000 epochs, by precision of training",
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
        "Layers trained in float32, read in float32 and in bfloat16: recall by argmax, 6 queries",
        (("recall", Quantity("mean", "argmax", where=(*SIX, *SHORT, (PRECISION, "float32")))),),
        over=(D_QK, "precision"),
        data="readings",
    ),
)

CONSTRUCTED = "a closed form beside the paper"
BOUNDED = "Limited machine precision bounds practical rank inflation"
MECHANISM = "mechanism 3, quoted from a summary"

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
    Claim(
        "training finds the closed form",
        "One head with d_vo = 1 and d_qk = |Q| recalls every fact after training in float64.",
        _mean((*_in("float64"), (D_QK, QUERIES))),
        1.0,
        tolerance=0.01,
        place=CONSTRUCTED,
        note="The closed form of this size recalls every fact. Whether training does is not published; the number is "
        "what the weights could reach, the tolerance ours.",
        extension=True,
    ),
    Claim(
        "training finds the closed form in ten times the epochs",
        "The same after 20,000 epochs, in float32.",
        _mean((*SIX, (PRECISION, "float32"), (EPOCHS, LONG), (D_QK, QUERIES))),
        1.0,
        tolerance=0.01,
        place=CONSTRUCTED,
        note="As before: were it only slow, it would be nearer.",
        extension=True,
    ),
    Claim(
        "what ten times the epochs change",
        "Recall after 20,000 epochs less recall after 2,000, both in float32, d_qk = |Q|.",
        _mean(
            (*SIX, (PRECISION, "float32"), (EPOCHS, LONG), (D_QK, QUERIES)), _mean((*_in("float32"), (D_QK, QUERIES)))
        ),
        None,
        place=CONSTRUCTED,
        note="Adam at the constant rate 0.01: below 0 it does not stay where it was.",
        extension=True,
    ),
    Claim(
        "the attention map holds facts",
        "At d_vo = 1 and d_qk = 6, recall is greater than that of layers whose attention is held at 1/2.",
        _mean((*_in("float32"), (D_QK, QUERIES)), _mean(((SCALE, 0.0),))),
        "greater",
        place=CONSTRUCTED,
        note="The layers compared have d_vo = 1 too, and scores multiplied by 0; float32, 6 queries.",
        extension=True,
    ),
    Claim(
        "float64 holds more than float32",
        "Layers trained in float64 recall more facts than layers trained in float32.",
        _mean((*_in("float64"), *BOTH_SIZES), _mean((*_in("float32"), *BOTH_SIZES), within=(D_QK,)), (D_QK,)),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="If precision were what bounds them: our inference from the quote. d_vo = 1, 6 queries, d_qk 1, 2 and 6, "
        "the same tables and seeds.",
        extension=True,
    ),
    Claim(
        "float32 holds more than bfloat16",
        "Layers trained in float32 recall more facts than layers trained in bfloat16.",
        _mean((*_in("float32"), *BOTH_SIZES), _mean((*_in("bfloat16"), *BOTH_SIZES), within=(D_QK,)), (D_QK,)),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="As before. The bfloat16 ones have master weights in float32 and are evaluated in bfloat16.",
        extension=True,
    ),
    Claim(
        "rounding the weights loses facts",
        "Layers trained in float32 recall more facts when read in float32 than when read in bfloat16.",
        Quantity(
            "mean",
            "argmax",
            within=(D_QK,),
            where=(*_in("float32"), *BOTH_SIZES, ("precision", "float32")),
            minus=Quantity(
                "mean", "argmax", within=(D_QK,), where=(*_in("float32"), *BOTH_SIZES, ("precision", "bfloat16"))
            ),
        ),
        "greater",
        place=MECHANISM,
        quote=BOUNDED,
        note="The same layers, weights rounded after training and everything computed in bfloat16; d_qk 1, 2 and 6.",
        extension=True,
        data="readings",
    ),
)

ATTENTION_STORAGE = Study(
    name="attention-storage",
    title="Facts in the attention map: d_vo = 1 in three precisions",
    source=source("Propositions 3.6 and 3.7; mechanism 3 of a summary"),
    question="One head with d_vo = 1 could hold a whole table in its attention map, if numbers were precise enough. "
    "Does training make use of that, and does precision limit what is recalled?",
    method="Layers with one head, d_vo = 1 and d_model = 2 |Q| + 1, the sizes of a closed form that recalls every "
    "fact, are trained on full random tables of 20 keys, 6 queries and 20 values with different d_qk, in float32, "
    "float64 and bfloat16. Some are trained ten times as long, some with attention held at 1/2, and those of float32 "
    "are read in bfloat16 as well. In the full size tables of 4 and 10 queries stand beside, in float32.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
