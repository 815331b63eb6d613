"""Facts against the split, confirmed: three splits in a larger model, and three with 1,000 exposures.

Our choices: without an MLP, learning rate 0.003, 3 seeds; the smaller model sees each person 1,000 times at 2 bits per
parameter, the larger one 100 times at 1 bit per parameter. Nothing is tuned here.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.language.settings import (
    D_QK,
    D_VO,
    LARGE,
    RATE,
    SMALL,
    STORED,
    Scale,
    StudyGrid,
    fractions_of,
    source,
)

LOAD = 2
D_MODEL = "model.d_model"


def _trial(scale: Scale, load: int, exposures: int, d_qk: int, seed: int) -> Trial:
    n_people = scale.people(load)
    steps = scale.steps(n_people, exposures)
    training = scale.training(steps, RATE)
    return Trial(scale.facts(n_people, seed), scale.shape(d_qk), training, fractions_of(steps), seed=seed)


def _of_models(scales: list[Scale]) -> Where:
    return ((D_MODEL, tuple(scale.d_model for scale in scales)),)


def _slope(scales: list[Scale]) -> Quantity:
    return Quantity("slope", STORED, D_VO, (), _of_models(scales))


def confirming_study(grid: StudyGrid) -> Study:
    """Return the study on one grid."""

    def trials(size: Size) -> list[Trial]:
        """Returns one trial per model, split and seed."""
        own = grid.sizes[size]
        places = [(d_qk, seed) for d_qk in own.few_splits for seed in own.confirming_seeds]
        longer = own.scale, LOAD, own.more_exposures
        larger = own.confirming, own.confirming_load, own.confirming.exposures
        return [_trial(*which, d_qk, seed) for which in (longer, larger) for d_qk, seed in places]

    smaller, larger = grid.of_parameters(), grid.of_parameters(confirming=True)
    all_sizes = list(grid.sizes.values())
    return Study(
        name=f"language-split-confirmed{grid.suffix}",
        title=f"Facts against the split: {larger}, and 1,000 exposures",
        source=source("open questions"),
        question=f"Do wider value-output heads store more facts in a model of {larger}, and after 1,000 exposures?",
        method=f"We train three splits without an MLP: {larger} with 100 exposures of a phone book of "
        f"{_bits(grid.full.confirming_load)} per parameter, and {smaller} with 1,000 exposures of one of "
        f"{_bits(LOAD)} per parameter. The learning rate is 0.003 throughout.",
        trials=trials,
        charts=(
            Chart(
                "stored-by-size",
                "Bits stored per parameter against d_vo, by d_model",
                "lines",
                x=D_VO,
                y=STORED,
                colour=D_MODEL,
            ),
        ),
        summaries=(
            Summary(
                "stored-by-split",
                "Bits stored per parameter, by d_qk and d_model",
                (("stored", Quantity("mean", STORED)),),
                over=(D_QK, D_MODEL),
                y_title="bits per parameter",
            ),
        ),
        claims=(
            Claim(
                "more d_vo stores more in a larger model",
                f"Bits stored rise with d_vo in a model of {larger}.",
                _slope([sizes.confirming for sizes in all_sizes]),
                "greater",
                place="our open questions",
                note="Slope of bits stored per parameter against d_vo.",
                extension=True,
            ),
            Claim(
                "more d_vo stores more after 1,000 exposures",
                "Bits stored rise with d_vo if each person is seen 1,000 times.",
                _slope([sizes.scale for sizes in all_sizes]),
                "greater",
                place="our open questions",
                note=f"Slope of bits stored per parameter against d_vo, in the model of {smaller}.",
                extension=True,
            ),
            Claim(
                "bits per parameter after 1,000 exposures",
                "How many bits per parameter does the best split store after 1,000 exposures?",
                Quantity("greatest", STORED, where=_of_models([sizes.scale for sizes in all_sizes])),
                None,
                place="our open questions",
                note=f"Largest over splits, of each seed, in the model of {smaller} on a phone book of {_bits(LOAD)} "
                "per parameter, which bounds it. Language models store 2 (Allen-Zhu and Li 2024), overloaded attention "
                "layers 1.77 (capacity atlas).",
                extension=True,
            ),
        ),
    )


def _bits(load: int) -> str:
    return "1 bit" if load == 1 else f"{load} bits"


LANGUAGE_SPLIT_CONFIRMED_SMALL, LANGUAGE_SPLIT_CONFIRMED = confirming_study(SMALL), confirming_study(LARGE)
