"""Dynamics: does a model learn the relation first and the fact only afterwards?

Figure 5 of the paper: linear attention, one-hot embeddings, S = 16, R = 4, D = 8, T = 32, 20 noise tokens, answers that
are a function of the subject alone within each relation, gradient descent with learning rate 0.1 for 8,192 steps of
1,024 sequences. The loss stays at log 8, the loss of an answer drawn from the correct relation, while the relation-only
loss goes to 0; then it falls.

We read the plateau from the curves: the relation-only loss is at most 0.05 (and the total loss at most 1.05 log 8)
while the total loss is still at least 0.95 log 8. The fall is complete once the total loss is at most 0.05. Curves are
recorded every 64 steps. Up to renaming, answers are the same function of the subject for every seed, so seeds differ
only in their batches and their curves are nearly identical: intervals over seeds have no width.

The score and value tables start at the constant 1e-5, as in the authors' script. The initial value determines the
length of the plateau, so the full size also has 1e-3 and 0.1.
"""

from __future__ import annotations

from functools import partial
from math import log

from factrank.experiments.specs import Curve, Optimiser, Training, Trial
from factrank.experiments.statistics import Quantity, Where
from factrank.experiments.study import Size, Study
from factrank.families.factual_recall import FactualRecallOneHotShape, RelationAlone
from factrank.studies.nichani.factual_recall_settings import TITLES, facts
from factrank.studies.nichani.settings import SEEDS, source
from factrank.studies.parts import curves_chart, curves_claim, curves_summary

SUBJECTS, RELATIONS, ANSWERS, NOISE = 16, 4, 8, 20
STEPS, EVERY = 8192, 64
START, STARTS = 1e-5, (1e-5, 1e-3, 0.1)
BATCH: dict[Size, int] = {"quick": 256, "full": 1024}
SMALL = 0.05
BELOW, ABOVE = round(0.95 * log(ANSWERS), 4), round(1.05 * log(ANSWERS), 4)


def trials(size: Size) -> list[Trial]:
    """Returns the model of Figure 5 for each seed, in the full size also with other initial values."""
    return [
        Trial(
            facts(SUBJECTS, RELATIONS, seed, answers=ANSWERS, structure="structured"),
            FactualRecallOneHotShape(n_noise=NOISE, start_scale=start),
            Training(Optimiser("sgd"), learning_rate=0.1, epochs=STEPS, batch_size=BATCH[size]),
            seed=seed,
            measures=(RelationAlone(), Curve(tuple(range(0, STEPS + 1, EVERY)))),
        )
        for start in (STARTS if size == "full" else (START,))
        for seed in SEEDS[size]
    ]


MAIN: Where = (("model.start_scale", START),)
LOSS, RELATION_LOSS, SUBJECT_LOSS = "loss", "relation_loss", "subject_loss"
IN_TURN = "the model exhibits sequential learning behavior"


def first(column: str, at_most: float, where: Where = MAIN, minus: Quantity | None = None) -> Quantity:
    """Returns the first recorded step at which a loss is at most this value."""
    return Quantity("first", f"{at_most} - {column}", "epoch", where=where, minus=minus)


def _plateau(where: Where = MAIN) -> Quantity:
    """Returns the steps from knowing the relation until the loss leaves log 8."""
    return first(LOSS, BELOW, where, minus=first(RELATION_LOSS, SMALL, where))


CHARTS = tuple(
    curves_chart(
        f"{name}-by-step",
        f"{title} during training, by initial value",
        "lines",
        x="epoch",
        y=column,
        colour="model.start_scale",
        y_title="cross-entropy",
    )
    for name, title, column in (
        ("loss", "Loss", LOSS),
        ("relation-loss", "Relation-only loss", RELATION_LOSS),
        ("subject-loss", "Subject-only loss", SUBJECT_LOSS),
    )
)

SUMMARIES = (
    curves_summary(
        "losses",
        f"Total, relation-only and subject-only loss (log 8 = {log(8):.3f})",
        tuple(
            (name, Quantity("mean", column, where=(*MAIN, ("epoch", tuple(range(0, STEPS + 1, 4 * EVERY))))))
            for name, column in (("total", LOSS), ("relation only", RELATION_LOSS), ("subject only", SUBJECT_LOSS))
        ),
        over=("epoch",),
        y_title="cross-entropy",
    ),
    curves_summary(
        "stages",
        "First recorded step of each stage, by initial value",
        (
            ("total loss at most 1.05 log 8", first(LOSS, ABOVE, ())),
            ("relation-only loss at most 0.05", first(RELATION_LOSS, SMALL, ())),
            ("total loss at most 0.95 log 8", first(LOSS, BELOW, ())),
            ("total loss at most 0.05", first(LOSS, SMALL, ())),
        ),
        over=("model.start_scale",),
        log_x=True,
        x_title="initial value of the tables",
        y_title="step",
    ),
)

published = partial(curves_claim, place="Figure 5", quote=IN_TURN)

CLAIMS = (
    published(
        "the plateau",
        "The loss stays at log 8 for a while after the relation is known.",
        _plateau(),
        "greater",
        note="Steps from a relation-only loss of 0.05 to a total loss of 0.95 log 8.",
    ),
    published(
        "at log 8 when the relation is known",
        "When the relation-only loss reaches 0.05, the total loss has come down to log 8.",
        first(RELATION_LOSS, SMALL, minus=first(LOSS, ABOVE)),
        "greater",
        note="Steps from a total loss of 1.05 log 8 to a relation-only loss of 0.05, with which the plateau begins.",
    ),
    published(
        "the fall",
        "Within the 8,192 steps the loss falls below 0.05.",
        Quantity("mean", f"{SMALL} - {LOSS}", where=(*MAIN, ("epoch", STEPS))),
        "greater",
        note="0.05 minus the final loss.",
    ),
    published(
        "the relation before the subject",
        "The relation-only loss reaches 0.05 before the subject-only loss does.",
        first(SUBJECT_LOSS, SMALL, minus=first(RELATION_LOSS, SMALL)),
        "greater",
        note="In steps.",
    ),
    curves_claim(
        "when the loss falls",
        "The first recorded step with a loss of at most 0.05.",
        first(LOSS, SMALL),
        None,
        place="cf. Figure 5",
        note="The figure shows the fall; we know of no number for it.",
        extension=True,
    ),
    curves_claim(
        "a larger start shortens the plateau",
        "The plateau is longer from a start of 1e-5 than from 1e-3.",
        Quantity(
            "first",
            f"{BELOW} - {LOSS}",
            "epoch",
            where=MAIN,
            minus=first(
                RELATION_LOSS,
                SMALL,
                minus=first(
                    RELATION_LOSS,
                    SMALL,
                    (("model.start_scale", 1e-3),),
                    minus=first(LOSS, BELOW, (("model.start_scale", 1e-3),)),
                ),
            ),
        ),
        "greater",
        place="cf. Figure 5",
        note="Difference between the two lengths, in steps.",
        extension=True,
    ),
)

RECALL_DYNAMICS = Study(
    name="recall-dynamics",
    title="Factual recall: the relation first, then the fact",
    source=source("Figure 5"),
    question="While a model with linear attention learns facts, is there a phase in which it answers from the "
    "relation alone?",
    method="We train one head of linear attention on one-hot embeddings by gradient descent, on 16 subjects and 4 "
    "relations with 8 answers each; which of the 8 is correct depends on the subject alone. The relation-only loss is "
    "that of any answer from the correct relation, the subject-only loss that of any answer that the subject has in "
    "some relation.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
