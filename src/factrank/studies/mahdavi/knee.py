"""Knee: does the head size at which the gain stops move with the context size, and with the scale of scores?

Our extension. The theorem has r = min(n, d_h): if that is why larger heads stop helping, the bend is at d_h ~ n,
further right for longer contexts. We train three context sizes n = 16, 32, 48 (below d = 64) with the same six head
sizes, 30 heads, one context for all and 100 classes. There are 625 examples per token, that is 10,000, 20,000 and
30,000, which makes the three about equally hard, since the number of memorised examples grows with n. 100,000 steps, a
third of those of `head-size`; three replicates, with new data and weights.

The authors divide scores by sqrt(d_model) for any d_h, so smaller heads also start with smaller scores. At n = 32 we
also try the more common sqrt(d_h); at d_h = d_model = 64 the two coincide.

The deciding quantity is the gain in accuracy per unit of d_h from 20 to 64. For n = 16 this whole range is beyond n and
the theorem predicts no gain; for n = 48 nearly half of it is below n. These claims were written before the runs. The
gain from 40 to 64 was added when only these two head sizes had been run with all context sizes, before we looked at any
result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memoriser import ScaledBy
from factrank.studies.mahdavi.head_size import HEADS_HERE, NOTHING
from factrank.studies.mahdavi.settings import (
    D_QK,
    N_TOKENS,
    OVER_REPLICATES,
    RECALL,
    REPLICATES,
    SCALED_BY,
    SEEDS_PER_PASS,
    TITLES,
    WIDTH,
    Setting,
    source,
)
from factrank.studies.parts import mean_difference

EXAMPLES_PER_TOKEN: dict[Size, int] = {"quick": 20, "full": 625}
LEAST_STEPS: dict[Size, int] = {"quick": 2_000, "full": 100_000}
TOKENS: dict[Size, tuple[int, ...]] = {"quick": (4, 8), "full": (16, 32, 48)}
OTHER_SCALE: dict[Size, int] = {"quick": 8, "full": 32}
"""The context size at which scores are also divided by sqrt(d_h)."""
HEAD_SIZES: dict[Size, tuple[int, ...]] = {"quick": (2, 4, 8, 16), "full": (10, 20, 30, 40, 50, 64)}


def setting(size: Size, context_size: int, d_qk: int, replicate: int) -> Setting:
    """Returns one run."""
    return Setting(
        size,
        "classification",
        "shared",
        EXAMPLES_PER_TOKEN[size] * context_size,
        HEADS_HERE[size],
        context_size,
        SEEDS_PER_PASS * replicate,
        d_qk,
    )


def _trial(size: Size, one: Setting, scaled_by: ScaledBy) -> Trial:
    trial = one.trial(LEAST_STEPS[size])
    return replace(trial, model=replace(one.shape(), scaled_by=scaled_by))


def trials(size: Size) -> list[Trial]:
    """Returns every head and context size, then scores over sqrt(d_h), except at d_h = d_model, which is the same."""
    both: tuple[tuple[ScaledBy, tuple[int, ...], tuple[int, ...]], ...] = (
        ("d_model", TOKENS[size], HEAD_SIZES[size]),
        ("d_qk", (OTHER_SCALE[size],), tuple(d_qk for d_qk in HEAD_SIZES[size] if d_qk < WIDTH[size])),
    )
    return [
        _trial(size, setting(size, context_size, d_qk, replicate), scaled_by)
        for replicate in range(REPLICATES)
        for scaled_by, context_sizes, head_sizes in both
        for context_size in context_sizes
        for d_qk in head_sizes
    ]


PLACE = "cf. the experiments on the head size"
AS_AUTHORS: Where = ((SCALED_BY, "d_model"),)
BY_D_QK: Where = ((SCALED_BY, "d_qk"),)
SHORT, MIDDLE, LONG = (4, 16), (8, 32), (48,)
"""Context sizes: short and middle for both sizes of the study, long for the full size."""
FROM_20, FROM_40 = (20, 30, 40, 50, 64), (40, 64)
"""Head sizes over which we measure a gain."""
SMALL: Where = ((D_QK, tuple(d_qk for size in HEAD_SIZES for d_qk in HEAD_SIZES[size] if d_qk < WIDTH[size])),)


def _gain(tokens: tuple[int, ...], minus: Quantity | None = None, sizes: tuple[int, ...] = FROM_20) -> Quantity:
    """Returns the accuracy per unit of d_h from 20, or 40, to 64."""
    return Quantity("slope", RECALL, D_QK, where=(*AS_AUTHORS, (D_QK, sizes), (N_TOKENS, tokens)), minus=minus)


CHARTS = tuple(
    Chart(name, f"Accuracy by head size{text}", "lines", x=D_QK, y=RECALL, colour=colour, where=where)
    for name, text, colour, where in (
        ("accuracy-by-tokens", " and context size, 625 examples per token", N_TOKENS, AS_AUTHORS),
        (
            "accuracy-by-scale",
            ", scores over sqrt(d_model) and over sqrt(d_h)",
            SCALED_BY,
            ((N_TOKENS, tuple(OTHER_SCALE.values())),),
        ),
    )
)

SUMMARIES = (
    Summary(
        "accuracy-at-tokens",
        "Accuracy by head size for contexts of 16, 32 and 48 tokens, 625 examples per token",
        tuple(
            (f"n = {n_tokens}", Quantity("mean", RECALL, where=(*AS_AUTHORS, (N_TOKENS, n_tokens))))
            for n_tokens in (*TOKENS["quick"], *TOKENS["full"])
        ),
        over=(D_QK,),
    ),
    Summary(
        "accuracy-at-scale",
        "Accuracy by head size, scores over sqrt(d_model) and over sqrt(d_h)",
        tuple(
            (text, Quantity("mean", RECALL, where=(*where, (N_TOKENS, MIDDLE))))
            for text, where in (("over sqrt(d_model)", AS_AUTHORS), ("over sqrt(d_h)", BY_D_QK))
        ),
        over=(D_QK,),
    ),
)


ours = partial(Claim, place=PLACE, extension=True)


def _claims() -> tuple[Claim, ...]:
    return (
        ours(
            "the knee moves with n",
            "From d_h = 20 on larger heads gain more with 48 tokens than with 16.",
            _gain(LONG, minus=_gain(SHORT)),
            "greater",
            note="Accuracy per unit of d_h from 20 to 64, n = 48 minus n = 16. Full size only. " + OVER_REPLICATES,
        ),
        ours(
            "no gain beyond 16 tokens",
            "With 16 tokens heads larger than 20 gain nothing.",
            _gain(SHORT),
            "not rising",
            tolerance=NOTHING,
            note="Accuracy per unit of d_h from 20 to 64. The tolerance, 3 % of the examples in total, is ours. Full "
            f"size only. {OVER_REPLICATES}",
        ),
        ours(
            "more gain beyond 40 with 48 tokens",
            "From d_h = 40 on larger heads gain more with 48 tokens than with 16.",
            _gain(LONG, _gain(SHORT, sizes=FROM_40), FROM_40),
            "greater",
            note="Accuracy per unit of d_h from 40 to 64, n = 48 minus n = 16. Full size only. " + OVER_REPLICATES,
        ),
        *(
            ours(
                f"gain from 40 to 64, {n_tokens} tokens",
                f"How much accuracy a unit of d_h adds from 40 to 64, with {n_tokens} tokens.",
                _gain(tokens, sizes=FROM_40),
                None,
                note=f"From accuracy at 40 and at 64. Full size only. {OVER_REPLICATES}",
            )
            for n_tokens, tokens in ((16, SHORT), (32, MIDDLE), (48, LONG))
        ),
        ours(
            "the other scale holds more",
            "How much more is memorised with scores over sqrt(d_h) than over sqrt(d_model).",
            mean_difference(RECALL, (*BY_D_QK, *SMALL, (N_TOKENS, MIDDLE)), (*AS_AUTHORS, *SMALL, (N_TOKENS, MIDDLE))),
            None,
            note=f"Accuracy over d_h = 10 to 50 at n = 32 (quick: 2 to 8 at n = 8). {OVER_REPLICATES}",
        ),
        ours(
            "a gain up to n, the other scale",
            "Larger heads memorise more examples while d_h is below n also with scores over sqrt(d_h).",
            Quantity("slope", RECALL, D_QK, where=(*BY_D_QK, (D_QK, (2, 4, 8, 10, 20, 30)))),
            "rises",
            note=f"Accuracy per unit of d_h over 10, 20 and 30 at n = 32 (quick: 2 to 8, n = 8). {OVER_REPLICATES}",
        ),
    )


def knee_study() -> Study:
    """Returns the study of all head and context sizes."""
    return Study(
        name="knee",
        title="Knee: does the best head size move with the context?",
        source=source(PLACE),
        question="Does the head size beyond which nothing is gained move with the context size, and does it depend on "
        "how scores are scaled?",
        method="We train memorisers with 30 heads of six sizes on one context of 16, 32 or 48 tokens for all "
        "examples, 625 examples per token, 100 classes, for 100,000 steps, with scores divided by sqrt(d_model) as "
        "the authors do, and at 32 tokens also by sqrt(d_h).",
        trials=trials,
        charts=CHARTS,
        summaries=SUMMARIES,
        claims=_claims(),
        titles=TITLES,
    )


KNEE = knee_study()
