"""Facts against the split: do wider value-output heads know more at the same size?

Our choices: d_qk + d_vo = 32 from 2:30 to 30:2; without an MLP, with an MLP at equal total parameters (half of the
heads) and at equal attention parameters; phone books of 1, 2 and 4 bits per parameter; 100 exposures; 3 seeds. The
learning rate is chosen for every split and MLP among 3 rates, at 2 bits per parameter, on a seed that is not counted.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study, no_trials
from factrank.studies.language.settings import (
    COUNTED,
    D_QK,
    D_VO,
    MLP_WIDTH,
    N_HEADS,
    N_PEOPLE,
    RATES,
    RECALLED,
    SCALES,
    SEEDS,
    SPLITS,
    STORED,
    STORED_INNER,
    TITLES,
    TUNING_SEEDS,
    fractions_of,
    source,
)
from factrank.studies.language.tuned_rate import TunedRate
from factrank.studies.parts import curves_chart

LOADS: dict[Size, tuple[int, ...]] = {"quick": (2,), "full": (1, 2, 4)}
TUNED_AT = 2
MLPS = ("none", "equal total", "equal attention")


def searches(size: Size) -> list[TunedRate]:
    """Returns one choice of a learning rate per split and MLP."""
    return [_tuned(size, d_qk, mlp) for mlp in MLPS for d_qk in SPLITS[size]]


def _tuned(size: Size, d_qk: int, mlp: str) -> TunedRate:
    of_loads = partial(_trials, size, d_qk, mlp)
    return TunedRate(
        f"d_qk {d_qk}, MLP {mlp}",
        partial(of_loads, (TUNED_AT,)),
        partial(of_loads, LOADS[size]),
        RATES[size],
        TUNING_SEEDS,
        SEEDS,
        STORED,
    )


def _trials(size: Size, d_qk: int, mlp: str, loads: tuple[int, ...], rate: float, seed: int) -> list[Trial]:
    scale, found = SCALES[size], []
    for load in loads:
        n_people = scale.people(load)
        steps = scale.steps(n_people)
        facts, training = scale.facts(n_people, seed), scale.training(steps, rate)
        found.append(Trial(facts, scale.shape(d_qk, mlp), training, fractions_of(steps), seed=seed))
    return found


NO_MLP: Where = ((MLP_WIDTH, 0), *COUNTED)


def _slope(column: str, where: Where, minus: Quantity | None = None) -> Quantity:
    """Return the slope of bits against d_vo, averaged over loads and models."""
    return Quantity("slope", column, D_VO, (N_PEOPLE, N_HEADS, MLP_WIDTH), where, minus)


def _with_mlp(column: str) -> Quantity:
    widths = tuple({SCALES[size].shape(2, "equal total").mlp_width for size in ("quick", "full")})
    return _slope(column, ((MLP_WIDTH, widths), *COUNTED))


CHARTS = (
    Chart(
        "stored-by-d_vo",
        "Bits stored per parameter against d_vo, without an MLP",
        "lines",
        x=D_VO,
        y=STORED,
        colour=N_PEOPLE,
        where=NO_MLP,
    ),
    Chart(
        "stored-by-mlp",
        "Bits stored per parameter against d_vo, by model",
        "lines",
        x=D_VO,
        y=STORED,
        colour=N_PEOPLE,
        facet=f"{N_HEADS} + {MLP_WIDTH}",
        where=COUNTED,
    ),
    curves_chart(
        "stored-by-exposures",
        "Bits stored while training, without an MLP",
        "lines",
        x="epoch",
        y="stored_bits",
        colour=D_VO,
        facet=N_PEOPLE,
        where=NO_MLP,
    ),
)

SUMMARIES = (
    Summary(
        "gain-of-d_vo",
        "Bits stored per parameter gained by one more dimension of d_vo",
        (("gain", Quantity("slope", STORED, D_VO, where=COUNTED)),),
        over=(N_PEOPLE, N_HEADS, MLP_WIDTH),
        y_title="bits per parameter and dimension",
    ),
)

CLAIMS = (
    Claim(
        "more d_vo stores more",
        "Without an MLP, bits stored rise with d_vo at equal parameters.",
        _slope(STORED, NO_MLP),
        "greater",
        place="open questions, quoted from a summary",
        quote="Do rank-based capacity findings generalise to language models trained on diverse tasks?",
        note="Slope of bits stored per parameter against d_vo, averaged over loads.",
    ),
    Claim(
        "more d_vo recalls more",
        "The same by recall instead of the loss.",
        _slope(RECALLED, NO_MLP),
        "greater",
        place="our open questions",
        note="Slope of the bits of recalled facts per parameter against d_vo, averaged over loads.",
        extension=True,
    ),
    Claim(
        "without embeddings",
        "Bits per parameter outside the embeddings rise with d_vo, without an MLP.",
        _slope(STORED_INNER, NO_MLP),
        "greater",
        place="our open questions",
        note="Slope of bits stored per inner parameter against d_vo, averaged over loads.",
        extension=True,
    ),
    Claim(
        "an MLP shrinks the effect",
        "Bits stored rise less with d_vo if there is an MLP.",
        _slope(STORED, NO_MLP, _with_mlp(STORED)),
        "greater",
        place="our open questions",
        note="Slope without an MLP minus the mean slope of both models with one.",
        extension=True,
    ),
    Claim(
        "with an MLP",
        "Do bits stored rise with d_vo if there is an MLP?",
        _with_mlp(STORED),
        None,
        place="our open questions",
        note="Slope of bits stored per parameter against d_vo, averaged over loads and both models with an MLP.",
        extension=True,
    ),
    Claim(
        "most bits per parameter",
        "How many bits per parameter does the best split store without an MLP?",
        Quantity("greatest", STORED, where=NO_MLP),
        None,
        place="our open questions",
        note="Largest over splits and loads, of each seed; Allen-Zhu and Li 2024 report 1 at 100 exposures.",
        extension=True,
    ),
    Claim(
        "best split",
        "Which d_qk stores most without an MLP?",
        Quantity("best", STORED, D_QK, (N_PEOPLE,), NO_MLP),
        None,
        place="our open questions",
        note="The d_qk with the largest mean of bits stored, averaged over loads.",
        extension=True,
    ),
)

LANGUAGE_SPLIT = Study(
    name="language-split",
    title="Facts against the split of heads in small language models",
    source=source("open questions"),
    question="At equal parameters, do small language models with wider value-output heads and narrower query-key heads "
    "store more facts, and does an MLP change that?",
    method="We train decoders of 0.42 million parameters on phone books of 1, 2 and 4 bits per parameter, with d_qk + "
    "d_vo = 32 in each head, without an MLP, with an MLP at equal total parameters, and with the same MLP and all "
    "heads. The learning rate is chosen for each split and MLP on another seed. Bits stored are the bits that the "
    "digits need less, given the name, than 10 log2(10).",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
