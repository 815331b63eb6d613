"""Capacity on variants of the factual recall task: many subjects, many answers, more heads.

Figures 7 to 9 of the paper repeat Figure 4 (left) with S = R^2 subjects, with D = S answers per relation, and with H =
16 heads; again the largest number of facts grows with the parameters. The paper gives no numbers for them.

We run a reduced grid: alpha = beta = 1 at d = 16 and 32 with learning rate 0.01, together with the same two
transformers on the task of Figure 4 (trials shared with recall-capacity).

Our choices, where the paper leaves them open: for S = R^2, R is the integer nearest to the cube root of the requested
number of facts, and S is as large as fits. With D = S a fact carries log2 S bits instead of 3, so we report bits as
well as facts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.specs import Generated
from factrank.experiments.statistics import Claim, Quantity, Where
from factrank.experiments.study import Size, Study, no_trials
from factrank.families.factual_recall import FactualRecallShape
from factrank.studies.nichani.factual_recall_settings import (
    D_MODEL,
    FACTS,
    FORM,
    HEADS,
    PARAMETERS,
    PER_PARAMETER,
    TITLES,
    capacity_search,
    facts,
    square,
    transformer,
)
from factrank.studies.nichani.settings import SEEDS, source
from factrank.studies.parts import searches_chart, searches_claim, searches_summary

WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8,), "full": (16, 32)}
MORE_HEADS = 2 * HEADS
BITS = "bits_per_parameter"


def many_subjects(n_facts: int, seed: int) -> Generated:
    """Returns the task with S about R^2 and at most `n_facts` facts.

    >>> arguments = dict(many_subjects(1000, 0).arguments)
    >>> arguments["n_keys"], arguments["n_queries"]
    (100, 10)
    """
    n_queries = max(1, round(n_facts ** (1 / 3)))
    return facts(n_facts // n_queries, n_queries, seed)


def many_answers(n_facts: int, seed: int) -> Generated:
    """Returns the task with S = R = D and at most `n_facts` facts."""
    size = isqrt(n_facts)
    return facts(size, size, seed, answers=size)


BASE, SUBJECTS, ANSWER_SETS, MORE = "S = R", "S = R^2", "D = S", "H = 16"
TASKS: dict[str, tuple[Callable[[int, int], Generated], int]] = {
    BASE: (square, HEADS),
    SUBJECTS: (many_subjects, HEADS),
    ANSWER_SETS: (many_answers, HEADS),
    MORE: (square, MORE_HEADS),
}
"""The task and the number of heads of each variant."""


def _shape(d_model: int, n_heads: int) -> FactualRecallShape:
    return transformer(d_model, max(1, n_heads / d_model), 1, n_heads)


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per variant, width and seed."""
    return [
        capacity_search(size, _shape(d_model, n_heads), seed, task=task, form=form)
        for form, (task, n_heads) in TASKS.items()
        for d_model in WIDTHS[size]
        for seed in SEEDS[size]
    ]


def _mean(column: str, form: str, minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", column, within=(D_MODEL,), where=((FORM, form),), minus=minus)


def _grows(form: str, figure: str) -> Claim:
    where: Where = ((FORM, form),)
    return searches_claim(
        f"{form} grows with the parameters",
        f"With {form} the number of facts held rises with the number of parameters.",
        Quantity("slope", FACTS, PARAMETERS, where=where),
        "rises",
        place=figure,
        quote="store information at a rate proportional to their parameter count",
        note="Facts per parameter, from two transformers.",
    )


def _beside(form: str, column: str, what: str) -> Claim:
    return searches_claim(
        f"{form} against S = R: {what}",
        f"How many more {what} per parameter are held with {form} than with S = R, D = 8 and H = 8.",
        _mean(column, form, _mean(column, BASE)),
        None,
        place="cf. Figures 7 to 9",
        note="The paper gives no number for these figures.",
        extension=True,
    )


CHARTS = (
    searches_chart(
        "facts-by-form", "Facts stored by width and variant of the task", "lines", x=D_MODEL, y=FACTS, colour=FORM
    ),
)

SUMMARIES = (
    searches_summary(
        "facts-per-parameter",
        "Facts stored per parameter, by variant of the task",
        (("facts per parameter", Quantity("mean", PER_PARAMETER)),),
        over=(D_MODEL, FORM),
    ),
    searches_summary(
        "bits-per-parameter",
        "Bits of facts per parameter, by variant of the task",
        (("bits per parameter", Quantity("mean", BITS)),),
        over=(D_MODEL, FORM),
    ),
)

CLAIMS = (
    _grows(SUBJECTS, "Figure 7"),
    _grows(ANSWER_SETS, "Figure 8"),
    _grows(MORE, "Figure 9"),
    _beside(SUBJECTS, PER_PARAMETER, "facts"),
    _beside(ANSWER_SETS, PER_PARAMETER, "facts"),
    _beside(ANSWER_SETS, BITS, "bits"),
    _beside(MORE, PER_PARAMETER, "facts"),
)

RECALL_CAPACITY_VARIANTS = Study(
    name="recall-capacity-variants",
    title="Factual recall: many subjects, many answers, more heads",
    source=source("Figures 7 to 9"),
    question="Does the number of facts per parameter depend on how the facts are arranged: more subjects than "
    "relations, more answers per relation, or more and smaller heads?",
    method="As in recall-capacity, with alpha = beta = 1: the largest number of facts of which 99 % are answered "
    "correctly, for tasks with S = R^2, with D = S, and with 16 heads instead of 8, compared with S = R, D = 8, H = 8.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
