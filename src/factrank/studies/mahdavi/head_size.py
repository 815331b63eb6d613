"""Head size: does a larger query-key size stop helping at the context size?

The paper trains memorisers with 30 heads of size d_h = 10 to 64 on one context of 32 tokens for all examples, 100
classes, with at least 300,000 steps. The theorem has r = min(n, d_h), so that a gain is expected up to d_h ~ n = 32.

What is different: at least 100,000 steps, 20,000 examples only (10,000 and 15,000 are left out), and five of the twelve
head sizes, for want of time.

What is left open: what "stops" means in numbers. We look at the slope of accuracy up to d_h = 30 and from 35 on, which
fits tell with intervals over the head sizes. Theory is of two minds: the rank of the closed form does not depend on d_h
at all (only its conditioning does).

Beyond the paper: the authors divide scores by sqrt(d_model) whatever d_h is, so that smaller heads also start with
smaller scores; dividing by sqrt(d_h), which is more common, stands beside it at d_h = 10 (quick: three sizes). At
d_h = d_model = 64 the two are the same.
"""

from __future__ import annotations

from dataclasses import replace

from factrank.models.memoriser_shape import ScaledBy
from factrank.runs.claims import Claim, Quantity
from factrank.runs.expressions import Where
from factrank.runs.fits import Fit
from factrank.runs.study import Chart, Size, Study
from factrank.runs.summaries import Summary
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZE,
    D_QK,
    HEAD_SIZE_TITLE,
    HELD,
    HELD_TITLE,
    N_EXAMPLES,
    OVER_SIZES,
    PASSES,
    RECALL,
    RECALL_TITLE,
    SCALED_BY,
    Setting,
    left_out,
    seed_of,
    source,
)
from factrank.training.trial import Measures, Trial

HEADS_HERE: dict[Size, int] = {"quick": 2, "full": 30}
LEAST_STEPS: dict[Size, int] = {"quick": 3_000, "full": 100_000}
SIZES: dict[Size, tuple[int, ...]] = {"quick": (80, 120, 160), "full": (10_000, 15_000, 20_000)}
HEAD_SIZES: dict[Size, tuple[int, ...]] = {
    "quick": (1, 2, 8, 16),
    "full": (10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 64),
}
BY_HEAD_SIZE: dict[Size, tuple[int, ...]] = {"quick": (1, 2, 8), "full": (10,)}
"""The sizes that are also run with scores over sqrt(d_h)."""
BELOW_N, BEYOND_N = (1, 2, 8, 10, 15, 20, 25, 30), (35, 40, 45, 50, 55, 60, 64)
"""Of the quick size, where n = 8, and of the full one, where n = 32."""
NOTHING = 0.0007
"""A slope that we call none: 2 % of the examples from d_h = 35 to 64."""


def _trial(setting: Setting, scaled_by: ScaledBy) -> Trial:
    shape = replace(setting.shape(), scaled_by=scaled_by)
    training = setting.training(LEAST_STEPS[setting.size])
    return Trial(setting.examples(), shape, training, seed=setting.seed, measures=Measures())


def trials(size: Size) -> list[Trial]:
    """Every head size on every number of examples; then the same over sqrt(d_h) for some."""
    heads, tokens = HEADS_HERE[size], CONTEXT_SIZE[size]
    scales: tuple[tuple[ScaledBy, tuple[int, ...]], ...] = (
        ("d_model", HEAD_SIZES[size]),
        ("d_qk", BY_HEAD_SIZE[size]),
    )
    settings = [
        (Setting(size, "classification", "shared", n_examples, heads, tokens, seed_of(place, run), d_qk), scaled_by)
        for run in range(PASSES[size])
        for scaled_by, head_sizes in scales
        for place, n_examples in enumerate(sorted(SIZES[size], reverse=True))
        for d_qk in head_sizes
    ]
    return [_trial(setting, scaled_by) for setting, scaled_by in settings if not left_out(setting)]


PLACE = "the experiments on the head size"
AS_AUTHORS: Where = ((SCALED_BY, "d_model"),)
BY_D_QK: Where = ((SCALED_BY, "d_qk"),)


CHARTS = (
    Chart(
        "accuracy",
        "Accuracy by head size, scores over sqrt(d_model)",
        "lines",
        x=D_QK,
        y=RECALL,
        colour=N_EXAMPLES,
        where=AS_AUTHORS,
        x_title=HEAD_SIZE_TITLE,
        y_title=RECALL_TITLE,
    ),
    Chart(
        "memorised-by-scale",
        "Examples memorised by head size, with scores over sqrt(d_model) and over sqrt(d_h)",
        "lines",
        x=D_QK,
        y=HELD,
        colour=SCALED_BY,
        facet=N_EXAMPLES,
        x_title=HEAD_SIZE_TITLE,
        y_title=HELD_TITLE,
    ),
)

SUMMARIES = (
    Summary(
        "accuracy-by-scale",
        "Accuracy by head size, scores over sqrt(d_model) and over sqrt(d_h)",
        (
            ("over sqrt(d_model)", Quantity("mean", RECALL, where=AS_AUTHORS)),
            ("over sqrt(d_h)", Quantity("mean", RECALL, where=BY_D_QK)),
        ),
        over=(D_QK,),
        x_title=HEAD_SIZE_TITLE,
        y_title=RECALL_TITLE,
    ),
    *(
        Summary(
            f"accuracy-{name}",
            f"Accuracy for d_h {text} n",
            (("accuracy", Quantity("mean", RECALL, where=(*AS_AUTHORS, (D_QK, places)))),),
            over=(D_QK,),
            x_title=HEAD_SIZE_TITLE,
            y_title=RECALL_TITLE,
        )
        for name, text, places in (("below-n", "below", BELOW_N), ("beyond-n", "beyond", BEYOND_N))
    ),
)

FITS = tuple(
    Fit(f"line-{name}", f"A line for d_h {text} n", f"accuracy-{name}", ("1", D_QK), intervals=True)
    for name, text in (("below-n", "below"), ("beyond-n", "beyond"))
)

BOTH_SCALES = (D_QK, (*BY_HEAD_SIZE["quick"], *BY_HEAD_SIZE["full"]))


def _slope(places: tuple[int, ...], scale: Where, minus: Quantity | None = None) -> Quantity:
    return Quantity("slope", RECALL, D_QK, where=(*scale, (D_QK, places)), minus=minus)


CLAIMS = (
    Claim(
        "a gain up to n",
        "Larger heads memorise more examples while d_h is below n.",
        _slope(BELOW_N, AS_AUTHORS),
        "rises",
        place=PLACE,
        note=f"Accuracy per unit of d_h, from 10 to 30, where n = 32 (quick: 1 to 8, n = 8). {OVER_SIZES}",
    ),
    Claim(
        "the gain stops at n",
        "From d_h ~ n on larger heads gain less than below it.",
        _slope(BELOW_N, AS_AUTHORS, minus=_slope(BEYOND_N, AS_AUTHORS)),
        "greater",
        place=PLACE,
        note="Accuracy per unit of d_h, from 10 to 30 less from 35 to 64. In the full size only, and with fewer than 3 "
        f"sizes by fits alone. {OVER_SIZES}",
    ),
    Claim(
        "no gain beyond n",
        "From d_h ~ n on larger heads gain nothing.",
        _slope(BEYOND_N, AS_AUTHORS),
        "not rising",
        tolerance=NOTHING,
        place=PLACE,
        note="Accuracy per unit of d_h, from 35 to 64. The tolerance, 2 % of the examples in all, is ours. In the full "
        f"size only. {OVER_SIZES}",
    ),
    Claim(
        "the other scale holds more",
        "How much more is memorised with scores over sqrt(d_h) than over sqrt(d_model).",
        Quantity(
            "mean",
            RECALL,
            where=(*BY_D_QK, BOTH_SCALES),
            minus=Quantity("mean", RECALL, where=(*AS_AUTHORS, BOTH_SCALES)),
        ),
        None,
        place=f"beside {PLACE}",
        note=f"Accuracy at d_h = 10 (quick: over d_h = 1, 2 and 8). {OVER_SIZES}",
        extension=True,
    ),
    Claim(
        "a gain up to n, the other scale",
        "Larger heads memorise more examples while d_h is below n also with scores over sqrt(d_h).",
        _slope(BELOW_N, BY_D_QK),
        "rises",
        place=f"beside {PLACE}",
        note=f"Accuracy per unit of d_h from 1 to 8, with scores over sqrt(d_h), in the quick size only. {OVER_SIZES}",
        extension=True,
    ),
)

HEAD_SIZE_STUDY = Study(
    name="head-size",
    title="Head size: where the gain stops",
    source=source(PLACE),
    question="Do larger query-key sizes help only up to the context size, and does that hang on how scores are scaled?",
    method="Memorisers with 30 heads of size 10 to 64 are trained on one context of 32 tokens for all examples and 100 "
    "classes, with scores divided by sqrt(d_model) as by the authors, and at some sizes by sqrt(d_h).",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
)
