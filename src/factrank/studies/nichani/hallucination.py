"""Hallucination: how many answers follow from the relation alone while a model learns?

For linear attention the paper proves that a model first learns which answers belong to the relation; Figure 5 shows
this as a plateau of the loss. We count it: answers that are wrong but belong to the relation, and answers that do not
change when a noise token replaces the subject. Our extensions: random as well as structured answers, softmax as well as
linear attention, and a whole transformer, with frozen random embeddings and an MLP, in addition to the one-hot model.

Our choices, where the paper leaves them open: the facts of Figure 5 (S = 16, R = 4, D = 8, 20 noise tokens). One-hot
models train by gradient descent for 8,192 steps, with learning rate 0.1 for linear attention, as in the paper, and 2
for softmax (at 0.1 it has learnt only the relation by then); transformers (d = m = 32, 4 heads of size 4) train by Adam
with learning rate 1e-3 for 2,048 steps.
"""

from __future__ import annotations

from factrank.experiments.specs import Curve, Optimiser, Training, Trial
from factrank.experiments.statistics import Claim, Direction, Quantity, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.factual_recall import FactualRecallOneHotShape, FactualRecallShape, RelationAlone
from factrank.studies.nichani.factual_recall_dynamics import ANSWERS, IN_TURN, NOISE, RELATIONS, START, SUBJECTS
from factrank.studies.nichani.factual_recall_settings import KIND, LINEAR, RECALL, STRUCTURE, TITLES, facts
from factrank.studies.nichani.settings import SEEDS, source
from factrank.studies.parts import curves_chart, curves_claim, curves_summary

ONE_HOT, TRANSFORMER = "one_hot", "sequence"
STRUCTURES = ("structured", "random")
STEPS, EVERY = {ONE_HOT: 8192, TRANSFORMER: 2048}, {ONE_HOT: 128, TRANSFORMER: 32}
BATCH: dict[Size, int] = {"quick": 128, "full": 1024}
KINDS: dict[Size, tuple[tuple[str, bool], ...]] = {
    "quick": ((ONE_HOT, True), (TRANSFORMER, False)),
    "full": ((ONE_HOT, True), (ONE_HOT, False), (TRANSFORMER, True), (TRANSFORMER, False)),
}


def model(kind: str, linear: bool) -> FactualRecallOneHotShape | FactualRecallShape:
    """Returns the model of a kind, with linear or softmax attention."""
    if kind == ONE_HOT:
        return FactualRecallOneHotShape(n_noise=NOISE, linear=linear, start_scale=START)
    return FactualRecallShape(32, 4, d_qk=4, d_vo=4, mlp_width=32, n_noise=NOISE, linear=linear)


def training(kind: str, linear: bool, size: Size) -> Training:
    """Returns the training of a kind of model."""
    optimiser, rate = (Optimiser("sgd"), 0.1 if linear else 2.0) if kind == ONE_HOT else (Optimiser(), 0.001)
    return Training(optimiser, learning_rate=rate, epochs=STEPS[kind], batch_size=BATCH[size])


def trials(size: Size) -> list[Trial]:
    """Returns one trial per kind of model, kind of answers and seed."""
    return [
        Trial(
            facts(SUBJECTS, RELATIONS, seed, answers=ANSWERS, structure=structure),
            model(kind, linear),
            training(kind, linear, size),
            seed=seed,
            measures=(RelationAlone(), Curve(tuple(range(0, STEPS[kind] + 1, EVERY[kind])))),
        )
        for kind, linear in KINDS[size]
        for structure in STRUCTURES
        for seed in SEEDS[size]
    ]


KNOWN = 0.9
IN_RANGE, WRONG_IN_RANGE, ALONE = "in_range", "wrong_in_range", "relation_alone"


def case(kind: str, linear: bool, structure: str) -> Where:
    """Returns the condition that selects one kind of model and of answers."""
    return ((KIND, kind), (LINEAR, linear), (STRUCTURE, structure))


def first(column: str, where: Where = (), minus: Quantity | None = None) -> Quantity:
    """Returns the first recorded step at which a fraction is at least 0.9."""
    return Quantity("first", f"{column} - {KNOWN}", "epoch", where=where, minus=minus)


def _relation_first(kind: str, linear: bool, structure: str, words: str) -> Claim:
    where = case(kind, linear, structure)
    published = (kind, linear, structure) == (ONE_HOT, True, "structured")
    return curves_claim(
        f"the relation first: {words}",
        f"Answers are within the right relation before they are right: {words}.",
        first(RECALL, where, minus=first(IN_RANGE, where)),
        "greater",
        place="Figure 5" if published else "cf. Figure 5",
        quote=IN_TURN if published else "",
        note="Steps from 90 % of answers within the relation to 90 % correct answers.",
        extension=not published,
    )


def _share(name: str, statement: str, column: str, where: Where, published: float | Direction | None) -> Claim:
    return curves_claim(
        name,
        statement,
        Quantity("greatest", column, where=where),
        published,
        tolerance=0.03 if isinstance(published, float) else 0.0,
        place="cf. Figure 5",
        note="Greatest fraction at any recorded step, per seed. A model that draws from 8 answers is wrong 7 times "
        "out of 8; nothing is published for transformers.",
        extension=True,
    )


def _lines(column: str, title: str, kind: str) -> Chart:
    return curves_chart(
        f"{column.replace('_', '-')}-{kind.replace('_', '-')}",
        f"{title}: {'one-hot models' if kind == ONE_HOT else 'transformers'}",
        "lines",
        x="epoch",
        y=column,
        colour=LINEAR,
        facet=STRUCTURE,
        where=((KIND, kind),),
        y_title="fraction of answers",
    )


CHARTS = tuple(
    _lines(column, title, kind)
    for kind in (ONE_HOT, TRANSFORMER)
    for column, title in (
        (WRONG_IN_RANGE, "Wrong answers that belong to the relation"),
        (ALONE, "Answers explained by the relation alone"),
        (RECALL, "Correct answers"),
    )
)

CASES = (KIND, LINEAR, STRUCTURE)
SUMMARIES = (
    curves_summary(
        "steps",
        "Steps until 90 % of answers are within the relation, and until 90 % are correct",
        (("within the relation", first(IN_RANGE)), ("right", first(RECALL))),
        over=CASES,
        x="quantity",
        y_title="steps",
    ),
    curves_summary(
        "greatest-share",
        "Greatest fraction of wrong answers that belong to the relation",
        (("wrong within the relation", Quantity("greatest", WRONG_IN_RANGE)),),
        over=CASES,
        y_title="fraction of answers",
    ),
)

CLAIMS = (
    _relation_first(ONE_HOT, True, "structured", "linear attention, structured answers"),
    _relation_first(ONE_HOT, True, "random", "linear attention, random answers"),
    _relation_first(ONE_HOT, False, "structured", "softmax attention, structured answers"),
    _relation_first(ONE_HOT, False, "random", "softmax attention, random answers"),
    _relation_first(TRANSFORMER, False, "random", "a transformer, random answers"),
    _share(
        "hallucination at its height: linear attention",
        "On the plateau 7 of 8 answers are wrong and belong to the relation.",
        WRONG_IN_RANGE,
        case(ONE_HOT, True, "structured"),
        0.875,
    ),
    _share(
        "hallucination at its height: a transformer",
        "The greatest share of wrong answers that belong to the relation, in a transformer with softmax attention.",
        WRONG_IN_RANGE,
        case(TRANSFORMER, False, "random"),
        None,
    ),
    curves_claim(
        "transformers hallucinate less",
        "At its height, hallucination is rarer in a transformer trained by Adam than in the one-hot model.",
        Quantity(
            "greatest",
            WRONG_IN_RANGE,
            where=case(TRANSFORMER, False, "random"),
            minus=Quantity("greatest", WRONG_IN_RANGE, where=case(ONE_HOT, True, "random")),
        ),
        "less",
        place="cf. Figure 5",
        note="Greatest fraction at any recorded step, random answers; softmax transformer minus linear one-hot model.",
        extension=True,
    ),
)

HALLUCINATION = Study(
    name="hallucination",
    title="Hallucination: answers that follow from the relation alone",
    source=source("Figure 5 and its theorem"),
    question="How many answers does a model give from the relation alone while it learns, and does that depend on "
    "linear attention, one-hot embeddings, or answers that are the same in all relations?",
    method="We train the models of Figure 5, the same with softmax attention, and transformers on 64 facts. At every "
    "recorded step all facts are tested in 4 contexts. An answer is within the relation if it is one of its 8 "
    "answers, and explained by the relation alone if it does not change when a noise token replaces the subject.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
