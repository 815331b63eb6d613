"""Facts against the split, confirmed: three splits in a model of 1.48 M parameters, and three with 1,000 exposures.

Our choices: without an MLP, 2 bits per parameter, learning rate 0.003, 3 seeds; the smaller model sees each person
1,000 times, the larger one 100 times. Nothing is tuned here.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.studies.language.settings import (
    D_VO,
    FEW_SPLITS,
    LARGE,
    RATE,
    SCALES,
    SEEDS,
    STORED,
    TITLES,
    Scale,
    fractions_of,
    source,
)

LOAD = 2
EXPOSURES: dict[Size, int] = {"quick": 120, "full": 1000}
D_MODEL = "model.d_model"


def trials(size: Size) -> list[Trial]:
    """Returns one trial per model, split and seed."""
    longer = [_trial(SCALES[size], d_qk, EXPOSURES[size], seed) for d_qk in FEW_SPLITS[size] for seed in SEEDS]
    larger = [_trial(LARGE[size], d_qk, LARGE[size].exposures, seed) for d_qk in FEW_SPLITS[size] for seed in SEEDS]
    return longer + larger


def _trial(scale: Scale, d_qk: int, exposures: int, seed: int) -> Trial:
    n_people = scale.people(LOAD)
    steps = scale.steps(n_people, exposures)
    training = scale.training(steps, RATE)
    return Trial(scale.facts(n_people, seed), scale.shape(d_qk), training, fractions_of(steps), seed=seed)


def _slope(widths: tuple[int, ...]) -> Quantity:
    where: Where = ((D_MODEL, widths),)
    return Quantity("slope", STORED, D_VO, (), where)


LARGER = tuple(scale.d_model for scale in LARGE.values())
SMALLER = tuple(scale.d_model for scale in SCALES.values())

CLAIMS = (
    Claim(
        "more d_vo stores more in a larger model",
        "Bits stored rise with d_vo in a model of 1.48 million parameters.",
        _slope(LARGER),
        "greater",
        place="our open questions",
        note="Slope of bits stored per parameter against d_vo.",
        extension=True,
    ),
    Claim(
        "more d_vo stores more after 1,000 exposures",
        "Bits stored rise with d_vo if each person is seen 1,000 times.",
        _slope(SMALLER),
        "greater",
        place="our open questions",
        note="Slope of bits stored per parameter against d_vo, in the model of 0.42 million parameters.",
        extension=True,
    ),
)

LANGUAGE_SPLIT_CONFIRMED = Study(
    name="language-split-confirmed",
    title="Facts against the split: a larger model, and more exposures",
    source=source("open questions"),
    question="Do wider value-output heads store more facts in a model of 1.48 million parameters, and after 1,000 "
    "exposures?",
    method="We train three splits without an MLP on phone books of 2 bits per parameter: 1.48 million parameters with "
    "100 exposures, and 0.42 million parameters with 1,000 exposures. The learning rate is 0.003 throughout.",
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
    claims=CLAIMS,
    titles=TITLES,
)
