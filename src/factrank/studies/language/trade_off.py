"""What is lost: the same splits on in-context recall, mixed with facts in three proportions.

Our choices: multi-query associative recall of four numbers of pairs, in 25, 50 and 75 % of the sequences; phone books
of 1 bit per parameter; no MLP, because attention has to do it; learning rate 0.003, 4 seeds. "Costs nothing" means
within 0.02 of the accuracy of the best split. At equal parameters a narrower d_qk is a wider d_vo, so in the mixture of
equal parts d_qk is also narrowed alone. Three models on seed 100 (d_qk 2, 6 and 22), trained before the claims were
fixed, showed that the widest d_qk is not the most accurate. `held_out_text` asks the same of real text.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from factrank.experiments.specs import Curve, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.language.settings import (
    D_QK,
    EQUAL_WIDTHS,
    HARM,
    LARGE,
    RATE,
    SEEDS,
    SMALL,
    STORED,
    StudyGrid,
    cost_of_narrowing,
    equal_parameters,
    mixed_shapes,
    narrowed_alone,
    of_mixture,
    source,
)
from factrank.studies.parts import curves_chart, curves_summary, mean_difference

LOAD = 1
FRACTION, SLACK = "data.recall_fraction", 0.02
LEARNED = 0.5
"""In-context accuracy at which we call the task learned."""


def _charts(pairs: tuple[int, ...], splits: Where, narrowed: Where) -> tuple[Chart, ...]:
    return (
        Chart(
            "front",
            "Facts against in-context recall, by d_qk",
            "points",
            x="in_context",
            y=STORED,
            colour=D_QK,
            facet=FRACTION,
            where=splits,
        ),
        Chart(
            "in-context-by-d_qk",
            "In-context accuracy against d_qk at equal parameters, by fraction of such sequences",
            "lines",
            x=D_QK,
            y="in_context",
            colour=FRACTION,
            where=splits,
        ),
        Chart(
            "in-context-narrowed",
            "In-context accuracy against d_qk, with d_vo as it is",
            "lines",
            x=D_QK,
            y="in_context",
            where=narrowed,
        ),
        *(
            Chart(
                f"in-context-{n}-by-d_qk",
                f"In-context accuracy with {n} pairs against d_qk",
                "lines",
                x=D_QK,
                y=f"in_context_{n}",
                colour=FRACTION,
                where=splits,
            )
            for n in pairs
        ),
        curves_chart(
            "phase-change",
            "In-context accuracy while training",
            "lines",
            x="epoch",
            y="in_context",
            colour=D_QK,
            facet=FRACTION,
            where=splits,
        ),
    )


def _least(column: str, splits: Where, within: tuple[str, ...] = ()) -> Quantity:
    return Quantity("least near best", column, D_QK, within, splits, slack=SLACK)


def _summaries(pairs: tuple[int, ...], splits: Where, narrowed: Where) -> tuple[Summary, ...]:
    return (
        Summary(
            "by-split",
            "In-context accuracy and bits stored per parameter, by fraction of in-context recall and d_qk",
            (
                ("in context", Quantity("mean", "in_context", where=splits)),
                ("stored", Quantity("mean", STORED, where=splits)),
            ),
            over=(D_QK, FRACTION),
        ),
        Summary(
            "narrowed",
            "In-context accuracy by d_qk, with d_vo as it is",
            (("in context", Quantity("mean", "in_context", where=narrowed)),),
            over=(D_QK,),
            y_title="in-context accuracy",
        ),
        Summary(
            "least-d_qk",
            f"Least d_qk within {SLACK} of the accuracy of the best split, by number of pairs",
            tuple((str(n), _least(f"in_context_{n}", splits)) for n in pairs),
            over=(FRACTION,),
            x="quantity",
            x_title="pairs",
            y_title="d_qk",
        ),
        curves_summary(
            "steps-to-learn",
            f"First step with an in-context accuracy of {LEARNED}",
            (("steps", Quantity("first", f"in_context - {LEARNED}", "epoch", where=splits)),),
            over=(FRACTION, D_QK),
            x=D_QK,
            y_title="step",
        ),
    )


def _claims(grid: StudyGrid) -> tuple[Claim, ...]:
    pairs, splits, half = grid.full.mixture.recall.pairs, equal_parameters(grid), grid.full.scale.head // 2
    extension = partial(Claim, place="our open questions", extension=True)
    return (
        Claim(
            "narrow query-key heads harm in-context recall",
            "In-context accuracy falls if d_qk alone is reduced to 2.",
            cost_of_narrowing(grid, "in_context", FRACTION),
            "greater",
            place="open questions, quoted from a summary",
            quote=HARM,
            note=f"Accuracy over all numbers of pairs with d_qk = d_vo = {half} minus the same with d_qk = 2, in the "
            "mixture of equal parts.",
        ),
        extension(
            "narrow query-key heads at equal parameters",
            f"If d_vo takes what d_qk gives up, in-context accuracy is lower with d_qk = 2 than with d_qk = {half}.",
            mean_difference("in_context", (*splits, EQUAL_WIDTHS), (*splits, (D_QK, 2)), (FRACTION,)),
            "greater",
            note="Difference of the accuracy over all numbers of pairs, averaged over mixtures.",
        ),
        extension(
            "best split for in-context recall",
            "Which d_qk has the highest in-context accuracy at equal parameters?",
            Quantity("best", "in_context", D_QK, (FRACTION,), splits),
            None,
            note="The d_qk with the highest mean accuracy, averaged over mixtures.",
        ),
        extension(
            "facts pay for it",
            "In the same models, bits stored fall with d_qk.",
            Quantity("slope", STORED, D_QK, (FRACTION,), splits),
            "less",
            note="Slope of bits stored per parameter against d_qk at equal parameters, averaged over mixtures.",
        ),
        *(
            extension(
                f"least d_qk with {n} pairs",
                f"What is the least d_qk that costs no in-context accuracy with {n} pairs?",
                _least(f"in_context_{n}", splits, (FRACTION,)),
                None,
                note=f"Within {SLACK} of the accuracy of the best split, averaged over mixtures.",
            )
            for n in pairs
        ),
    )


def trade_off_study(grid: StudyGrid) -> Study:
    """Return the study of facts against in-context recall on one grid."""
    pairs = grid.full.mixture.recall.pairs
    splits, narrowed = equal_parameters(grid), narrowed_alone(grid, FRACTION)

    def trials(size: Size) -> list[Trial]:
        """Returns one trial per split, fraction of in-context recall and seed."""
        own, scale = grid.sizes[size], of_mixture(grid.sizes[size])
        mixture, n_people = own.mixture, own.scale.people(LOAD)
        return [
            Trial(
                replace(scale.facts(n_people, seed), recall=mixture.recall, recall_fraction=fraction),
                shape,
                scale.training(mixture.steps, RATE),
                twentieths(mixture.steps),
                seed=seed,
            )
            for fraction, shape in mixed_shapes(own)
            for seed in SEEDS
        ]

    return Study(
        name=f"language-trade-off{grid.suffix}",
        title=f"What narrow query-key heads lose in context, {grid.of_parameters()}",
        source=source("open questions"),
        question="What do small language models lose in in-context recall if query-key heads are narrow, and which "
        "d_qk costs nothing?",
        method="We train decoders without an MLP on mixtures of a phone book and multi-query associative recall of "
        f"{pairs[0]} to {pairs[-1]} pairs, for every split of d_qk + d_vo = {grid.full.scale.head} and, in the mixture "
        f"of equal parts, for narrower d_qk with d_vo = {grid.full.scale.head // 2}. Both are measured on sequences "
        f"that stay the same. The least d_qk that costs nothing is within {SLACK} of the accuracy of the best split.",
        trials=trials,
        charts=_charts(pairs, splits, narrowed),
        summaries=_summaries(pairs, splits, narrowed),
        claims=_claims(grid),
    )


def twentieths(steps: int) -> Curve:
    """Return the epochs at which curves of mixtures are recorded: every 5 % of the steps."""
    return Curve(tuple(max(1, steps * part // 20) for part in range(1, 21)))


LANGUAGE_TRADE_OFF_SMALL, LANGUAGE_TRADE_OFF = trade_off_study(SMALL), trade_off_study(LARGE)
