"""Facts against the split: do wider value-output heads know more at the same size?

Our choices: d_qk + d_vo is constant; 100 exposures; 4 seeds. Small models have phone books of 1, 2 and 4 bits per
parameter without an MLP, and of 2 with an MLP at equal total parameters (half of the heads), with the same MLP and all
heads, and deeper (half of the heads in twice as many layers). Large ones have 1 and 2 bits per parameter without an
MLP, and 1 with an MLP at equal total parameters. The learning rate is chosen for every split and model among 4 rates,
at its smallest load, on a seed that is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study, no_trials
from factrank.studies.language.settings import (
    COUNTED,
    D_QK,
    D_VO,
    HEADS_PER_LAYER,
    LARGE,
    MLP_WIDTH,
    N_HEADS,
    N_PEOPLE,
    QUESTION,
    RECALLED,
    SEEDS,
    SMALL,
    STORED,
    STORED_INNER,
    TUNING_SEEDS,
    StudyGrid,
    StudySizes,
    fractions_of,
    source,
)
from factrank.studies.language.tuned_rate import TunedRate
from factrank.studies.parts import curves_chart, mean_difference

MODELS = {
    "none": "no MLP",
    "equal total": "MLP with half of the heads",
    "equal attention": "MLP with all heads",
    "deeper": "twice the layers",
}
"""Labels of `settings.VARIANTS`."""

PER_D_MODEL = f"{N_HEADS} * {D_VO} / model.d_model"
EXTENSION = partial(Claim, place="our open questions", extension=True)
OF_LANGUAGE_MODELS, OF_LAYERS = (
    ReferenceLine("language models, 1,000 exposures (Allen-Zhu and Li 2024)", "2"),
    ReferenceLine("overloaded attention layers (capacity atlas)", "1.77"),
)


def _searches(sizes: StudySizes) -> list[TunedRate]:
    """Returns one choice of a learning rate per split and variant."""
    return [_tuned(sizes, d_qk, variant) for variant in sizes.loads for d_qk in sizes.splits]


def _tuned(sizes: StudySizes, d_qk: int, variant: str) -> TunedRate:
    of_loads = partial(_trials, sizes, d_qk, variant)
    loads = sizes.loads[variant]
    return TunedRate(
        f"d_qk {d_qk}, {variant}",
        partial(of_loads, loads[:1]),
        partial(of_loads, loads),
        sizes.rates,
        TUNING_SEEDS,
        SEEDS,
        STORED,
    )


def _trials(sizes: StudySizes, d_qk: int, variant: str, loads: tuple[int, ...], rate: float, seed: int) -> list[Trial]:
    scale, found = sizes.scale, []
    for load in loads:
        n_people = scale.people(load)
        steps = scale.steps(n_people)
        facts, training = scale.facts(n_people, seed), scale.training(steps, rate)
        found.append(Trial(facts, scale.shape(d_qk, variant), training, fractions_of(steps), seed=seed))
    return found


def _slope(column: str, where: Where, minus: Quantity | None = None) -> Quantity:
    """Return the slope of bits against d_vo, averaged over loads and models."""
    return Quantity("slope", column, D_VO, (N_PEOPLE, HEADS_PER_LAYER, MLP_WIDTH), where, minus)


def _common_loads(grid: StudyGrid) -> Where:
    """Return the rows at the loads at which all models are trained."""
    loads = {sizes.scale.people(load) for sizes in grid.sizes.values() for load in sizes.common_loads}
    return ((N_PEOPLE, tuple(sorted(loads))),)


def _with_mlp(grid: StudyGrid) -> Where:
    widths = tuple(sizes.scale.mlp_width for sizes in grid.sizes.values())
    return ((MLP_WIDTH, widths), *COUNTED, *_common_loads(grid))


def _equal_widths(grid: StudyGrid) -> tuple[str, tuple[int, ...]]:
    return D_QK, tuple(sizes.scale.head // 2 for sizes in grid.sizes.values())


def _charts(alone: Where) -> tuple[Chart, ...]:
    return (
        Chart(
            "stored-by-d_vo",
            "Bits stored per parameter against d_vo, without an MLP",
            "lines",
            x=D_VO,
            y=STORED,
            colour=N_PEOPLE,
            where=alone,
            references=(OF_LANGUAGE_MODELS, OF_LAYERS),
        ),
        curves_chart(
            "stored-by-exposures",
            "Bits stored while training, without an MLP",
            "lines",
            x="epoch",
            y="stored_bits",
            colour=D_VO,
            facet=N_PEOPLE,
            where=alone,
        ),
    )


def _by_model(grid: StudyGrid, of: Callable[[Where], Quantity]) -> tuple[tuple[str, Quantity], ...]:
    """Return a quantity of each kind of model, of its rows at the loads that all of them have."""
    loads = _common_loads(grid)
    return tuple((MODELS[name], of((*grid.of(name), *loads))) for name in grid.full.loads)


def _summaries(grid: StudyGrid) -> tuple[Summary, ...]:
    bits = _listed([f"{load} bit{'s' * (load > 1)}" for load in grid.full.common_loads])
    return (
        Summary(
            "stored-by-split",
            "Bits stored per parameter without an MLP, by d_vo and people",
            (("stored", Quantity("mean", STORED, where=grid.of("none"))),),
            over=(D_VO, N_PEOPLE),
            y_title="bits per parameter",
        ),
        Summary(
            "stored-by-model",
            f"Bits stored per parameter by d_vo, of phone books of {bits} per parameter",
            _by_model(grid, lambda rows: Quantity("mean", STORED, where=rows)),
            over=(D_VO,),
            y_title="bits per parameter",
        ),
        Summary(
            "gain-of-d_vo",
            "Bits stored per parameter gained by one more dimension of d_vo",
            _by_model(grid, lambda rows: _slope(STORED, rows)),
            over=(),
            x_title="model",
            y_title="bits per parameter and dimension",
        ),
        Summary(
            "best-split",
            "d_qk with the most bits stored",
            _by_model(grid, lambda rows: Quantity("best", STORED, D_QK, (N_PEOPLE,), rows)),
            over=(),
            x_title="model",
            y_title="d_qk",
        ),
    )


def _claims(grid: StudyGrid) -> tuple[Claim, ...]:
    alone = grid.of("none")
    return (
        Claim(
            "more d_vo stores more",
            "Without an MLP, bits stored rise with d_vo at equal parameters.",
            _slope(STORED, alone),
            "greater",
            place="open questions, quoted from a summary",
            quote=QUESTION,
            note="Slope of bits stored per parameter against d_vo, averaged over loads.",
        ),
        EXTENSION(
            "more d_vo recalls more",
            "The same by recall instead of the loss.",
            _slope(RECALLED, alone),
            "greater",
            note="Slope of the bits of recalled facts per parameter against d_vo, averaged over loads.",
        ),
        EXTENSION(
            "without embeddings",
            "Bits per parameter outside the embeddings rise with d_vo, without an MLP.",
            _slope(STORED_INNER, alone),
            "greater",
            note="Slope of bits stored per inner parameter against d_vo, averaged over loads.",
        ),
        *_claims_about_other_models(grid, alone),
        *_claims_about_the_best(grid, alone),
    )


def _claims_about_other_models(grid: StudyGrid, alone: Where) -> tuple[Claim, ...]:
    with_mlp, several = _with_mlp(grid), "equal attention" in grid.full.loads
    models = "both models" if several else "the model"
    deeper = EXTENSION(
        "in deeper models",
        "Do bits stored rise with d_vo in models of half the heads and twice the layers?",
        _slope(STORED, grid.of("deeper")),
        None,
        note="Slope of bits stored per parameter against d_vo, without an MLP, averaged over loads.",
    )
    return (
        EXTENSION(
            "an MLP shrinks the effect",
            "Bits stored rise less with d_vo if there is an MLP.",
            _slope(STORED, (*alone, *_common_loads(grid)), _slope(STORED, with_mlp)),
            "greater",
            note=f"Slope without an MLP minus the {'mean ' * several}slope of {models} with one, at the same loads.",
        ),
        EXTENSION(
            "with an MLP",
            "Do bits stored rise with d_vo if there is an MLP?",
            _slope(STORED, with_mlp),
            None,
            note="Slope of bits stored per parameter against d_vo, averaged over loads "
            f"{'and both models ' * several}with an MLP.",
        ),
        *((deeper,) if "deeper" in grid.full.loads else ()),
    )


def _claims_about_the_best(grid: StudyGrid, alone: Where) -> tuple[Claim, ...]:
    return (
        EXTENSION(
            "most bits per parameter",
            "How many bits per parameter does the best split store without an MLP?",
            Quantity("greatest", STORED, where=alone),
            None,
            note="Largest over splits and loads, of each seed; Allen-Zhu and Li 2024 report 1 at 100 exposures.",
        ),
        EXTENSION(
            "best split",
            "Which d_qk stores most without an MLP?",
            Quantity("best", STORED, D_QK, (N_PEOPLE,), alone),
            None,
            note="The d_qk with the largest mean of bits stored, averaged over loads.",
        ),
        EXTENSION(
            "best width of all values",
            "Which n_heads * d_vo / d_model stores most without an MLP?",
            Quantity("best", STORED, PER_D_MODEL, (N_PEOPLE,), alone),
            None,
            note="For single attention layers the capacity atlas finds 1.3 to 4 from four heads on.",
        ),
        EXTENSION(
            "equal widths against the widest values",
            "Without an MLP, heads of equal widths store more than heads with d_qk = 2.",
            mean_difference(STORED, (*alone, _equal_widths(grid)), (*alone, (D_QK, 2)), (N_PEOPLE,)),
            "greater",
            note="Bits stored per parameter with d_qk = d_vo minus those with d_qk = 2, averaged over loads.",
        ),
    )


def _listed(things: Sequence[object]) -> str:
    *others, last = map(str, things)
    return f"{', '.join(others)} and {last}" if others else last


def split_study(grid: StudyGrid) -> Study:
    """Return the study of facts against the split on one grid."""

    def searches(size: Size) -> list[TunedRate]:
        return _searches(grid.sizes[size])

    loads, others = _listed(grid.full.loads["none"]), _listed(grid.full.common_loads)
    variants = ["with an MLP at equal total parameters"]
    if "equal attention" in grid.full.loads:
        variants.append("with the same MLP and all heads")
    if "deeper" in grid.full.loads:
        variants.append("with half of the heads in twice as many layers")
    return Study(
        name=f"language-split{grid.suffix}",
        title=f"Facts against the split of heads, {grid.of_parameters()}",
        source=source("open questions"),
        question="At equal parameters, do small language models with wider value-output heads and narrower query-key "
        "heads store more facts, and do an MLP or depth change that?",
        method=f"We train decoders of {grid.of_parameters()} on phone books of {loads} bits per parameter without an "
        f"MLP, and of {others} {_listed(variants)}; d_qk + d_vo = {grid.full.scale.head} in each head. The learning "
        "rate is chosen for each split and model on another seed. Bits stored are the bits that the digits need less, "
        "given the name, than 10 log2(10).",
        trials=no_trials,
        searches=searches,
        charts=_charts(grid.of("none")),
        summaries=_summaries(grid),
        claims=_claims(grid),
    )


LANGUAGE_SPLIT_SMALL, LANGUAGE_SPLIT = split_study(SMALL), split_study(LARGE)
