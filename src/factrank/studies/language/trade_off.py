"""What is lost: the same splits on in-context recall, mixed with facts in three proportions.

Our choices: multi-query associative recall of four numbers of pairs, in 25, 50 and 75 % of the sequences; phone books
of 1 bit per parameter; no MLP, because attention has to do it; learning rate 0.003, 4 seeds. "Costs nothing" means
within 0.02 of the accuracy at the largest d_qk. `held_out_text` asks the same of real text.
"""

from __future__ import annotations

from dataclasses import replace

from factrank.experiments.specs import Curve, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.language.settings import (
    D_QK,
    HARM,
    LARGE,
    RATE,
    SEEDS,
    SMALL,
    STORED,
    TITLES,
    StudyGrid,
    of_mixture,
    source,
)
from factrank.studies.parts import curves_chart, curves_summary

LOAD = 1
FRACTION, SLACK = "data.recall_fraction", 0.02
LEARNED = 0.5
"""In-context accuracy at which we call the task learned."""


def _chart(pairs: tuple[int, ...]) -> tuple[Chart, ...]:
    return (
        Chart(
            "front",
            "Facts against in-context recall, by d_qk",
            "points",
            x="in_context",
            y=STORED,
            colour=D_QK,
            facet=FRACTION,
        ),
        Chart(
            "in-context-by-d_qk",
            "In-context accuracy against d_qk, by fraction of such sequences",
            "lines",
            x=D_QK,
            y="in_context",
            colour=FRACTION,
        ),
        *(
            Chart(
                f"in-context-{n}-by-d_qk",
                f"In-context accuracy with {n} pairs against d_qk",
                "lines",
                x=D_QK,
                y=f"in_context_{n}",
                colour=FRACTION,
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
        ),
    )


def _least(column: str) -> Quantity:
    return Quantity("least", column, D_QK, slack=SLACK)


def _summaries(pairs: tuple[int, ...]) -> tuple[Summary, ...]:
    return (
        Summary(
            "by-split",
            "In-context accuracy and bits stored per parameter, by fraction of in-context recall and d_qk",
            (("in context", Quantity("mean", "in_context")), ("stored", Quantity("mean", STORED))),
            over=(D_QK, FRACTION),
        ),
        Summary(
            "least-d_qk",
            f"Least d_qk within {SLACK} of the accuracy at the largest d_qk, by number of pairs",
            tuple((str(n), _least(f"in_context_{n}")) for n in pairs),
            over=(FRACTION,),
            x="quantity",
            x_title="pairs",
            y_title="d_qk",
        ),
        curves_summary(
            "steps-to-learn",
            f"First step with an in-context accuracy of {LEARNED}",
            (("steps", Quantity("first", f"in_context - {LEARNED}", "epoch")),),
            over=(FRACTION, D_QK),
            x=D_QK,
            y_title="step",
        ),
    )


def _claims(pairs: tuple[int, ...]) -> tuple[Claim, ...]:
    return (
        Claim(
            "narrow query-key heads harm in-context recall",
            "In-context accuracy rises with d_qk.",
            Quantity("slope", "in_context", D_QK, (FRACTION,)),
            "greater",
            place="open questions, quoted from a summary",
            quote=HARM,
            note="Slope of the accuracy over all numbers of pairs against d_qk, averaged over mixtures.",
        ),
        Claim(
            "facts pay for it",
            "In the same models, bits stored fall with d_qk.",
            Quantity("slope", STORED, D_QK, (FRACTION,)),
            "less",
            place="our open questions",
            note="Slope of bits stored per parameter against d_qk, averaged over mixtures.",
            extension=True,
        ),
        *(
            Claim(
                f"least d_qk with {n} pairs",
                f"What is the least d_qk that costs no in-context accuracy with {n} pairs?",
                Quantity("least", f"in_context_{n}", D_QK, (FRACTION,), slack=SLACK),
                None,
                place="our open questions",
                note=f"Within {SLACK} of the accuracy at the largest d_qk, averaged over mixtures.",
                extension=True,
            )
            for n in pairs
        ),
    )


def trade_off_study(grid: StudyGrid) -> Study:
    """Return the study of facts against in-context recall on one grid."""
    pairs = grid.full.mixture.recall.pairs

    def trials(size: Size) -> list[Trial]:
        """Returns one trial per split, fraction of in-context recall and seed."""
        own, scale = grid.sizes[size], of_mixture(grid.sizes[size])
        mixture, n_people = own.mixture, own.scale.people(LOAD)
        return [
            Trial(
                replace(scale.facts(n_people, seed), recall=mixture.recall, recall_fraction=fraction),
                scale.shape(d_qk),
                scale.training(mixture.steps, RATE),
                twentieths(mixture.steps),
                seed=seed,
            )
            for fraction in mixture.fractions
            for d_qk in mixture.splits
            for seed in SEEDS
        ]

    return Study(
        name=f"language-trade-off{grid.suffix}",
        title=f"What narrow query-key heads lose in context, {grid.of_parameters()}",
        source=source("open questions"),
        question="What do small language models lose in in-context recall if query-key heads are narrow, and which "
        "d_qk costs nothing?",
        method="We train decoders without an MLP on mixtures of a phone book and multi-query associative recall of "
        f"{pairs[0]} to {pairs[-1]} pairs, for every split of d_qk + d_vo = {grid.full.scale.head}, and measure both "
        f"on sequences that stay the same. The least d_qk that costs nothing is within {SLACK} of the accuracy at the "
        "largest d_qk.",
        trials=trials,
        charts=_chart(pairs),
        summaries=_summaries(pairs),
        claims=_claims(pairs),
        titles=TITLES,
    )


def twentieths(steps: int) -> Curve:
    """Return the epochs at which curves of mixtures are recorded: every 5 % of the steps."""
    return Curve(tuple(max(1, steps * part // 20) for part in range(1, 21)))


LANGUAGE_TRADE_OFF_SMALL, LANGUAGE_TRADE_OFF = trade_off_study(SMALL), trade_off_study(LARGE)
