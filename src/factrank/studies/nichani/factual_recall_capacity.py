"""Capacity on the factual recall task: how many facts per parameter does a one-layer transformer store?

Figure 4 (left) of the paper: H = 8 heads of size d_h = alpha d / H, an MLP of width m = beta d, D = 8 answers per
relation, S = R. The largest S R with 99 % correct answers is about 0.15 facts per parameter (of 4 H d_h d + 2 m d).

The authors' grid is d = 8 to 2^7.5 in half steps and alpha, beta in {1/4, 1/2, 1, 2, 4}, each with the best of three
learning rates. Ours is alpha, beta in {1/2, 1, 2} at d = 16 and 32, only 1 and 2 at d = 8 (8 heads of size alpha d / 8
cannot be smaller than 1), and only alpha = beta at d = 64. The learning rate is 0.01, the best of the three in pilot
runs on other seeds; at d = 16, alpha = beta = 1 we also run the other two. We leave out half steps of d, d above 64,
most of d = 64, and alpha and beta of 1/4 and 4.

Here a size is judged by its final state at one learning rate; the authors' script takes the best over all evaluations
and three rates. The study recall-capacity-criteria follows their protocol on the same transformers and compares with
the published number; this one was run first and has more seeds. Final recall falls slowly with the number of facts and
varies between seeds, so over a wide range of sizes only some seeds reach 99 %; in one search of six a size that is
stored lies above one that is not.

Our choices, where the paper leaves them open: a search narrows to 10 % in facts, or to neighbouring S, and reports its
lower end, which was run and stored.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.columns import label
from factrank.experiments.statistics import Claim, Fit, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Size, Study, no_trials
from factrank.families.factual_recall import FactualRecallShape
from factrank.studies.nichani.factual_recall_settings import (
    ATTENTION_PARAMETERS,
    D_MODEL,
    D_VO,
    FACTS,
    HEADS,
    LEARNING_RATE,
    MLP,
    MLP_PARAMETERS,
    PARAMETERS,
    PER_PARAMETER,
    RATE,
    RATES,
    RECALL,
    RECALL_TITLE,
    TITLES,
    capacity_search,
    transformer,
)
from factrank.studies.nichani.settings import SEEDS, source
from factrank.studies.parts import mean_difference, searches_chart, searches_claim, searches_summary

SHARES = (0.5, 1, 2)
PUBLISHED = 0.15
COMPARED = 16
"""The width at which learning rates are compared."""
QUICK = tuple(product((8,), (1, 4), (1, 4)))


def shapes(size: Size) -> list[FactualRecallShape]:
    """Returns the transformers, one per (d, alpha, beta)."""
    if size == "quick":
        return [transformer(*cell) for cell in QUICK]
    cells = [
        *product((8,), SHARES[1:], SHARES[1:]),
        *product((16, 32), SHARES, SHARES),
        *((64, share, share) for share in SHARES),
    ]
    return [transformer(*cell) for cell in cells]


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per transformer and seed, and for one transformer also with the other learning rates."""
    wanted = [(shape, RATE) for shape in shapes(size)]
    if size == "full":
        wanted += [(transformer(COMPARED, 1, 1), rate) for rate in RATES if rate != RATE]
    return [capacity_search(size, shape, seed, rate=rate) for shape, rate in wanted for seed in SEEDS[size]]


MAIN: Where = ((LEARNING_RATE, RATE),)
CELL = (D_MODEL, D_VO, MLP)
MIDDLE: Where = ((D_MODEL, COMPARED), (D_VO, COMPARED // HEADS), (MLP, COMPARED))
LARGE: Where = ((D_MODEL, 32), (D_VO, 8), (MLP, 64))
FIRST_SIZES = (729, 1156, 1849, 2916)
"""Sizes of its first round of searches, which all seeds ran."""
PROPORTIONAL = "store information at a rate proportional to their parameter count"
TRADE = "the transformer can trade off between using the value matrices or the MLP as an associative memory"


def _mean(column: str, where: Where, minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", column, within=CELL, where=(*MAIN, *where), minus=minus)


def _gain(against: str, within: str) -> Quantity:
    return Quantity("slope", FACTS, against, (D_MODEL, within), (*MAIN, (D_MODEL, (8, 16, 32))))


PER_PARAMETER_LINE = ReferenceLine(f"published: {PUBLISHED} per parameter", f"{PUBLISHED} * x")
"""The line of facts against parameters that the authors' script draws."""

CHARTS = (
    searches_chart(
        "facts-by-parameters",
        "Facts stored against parameters",
        "points",
        x=PARAMETERS,
        y=FACTS,
        colour=D_MODEL,
        where=MAIN,
        log_x=True,
        log_y=True,
        references=(PER_PARAMETER_LINE,),
    ),
    searches_chart(
        "facts-by-mlp-width",
        "Facts stored by MLP width, head size and model width",
        "lines",
        x=MLP,
        y=FACTS,
        colour=D_VO,
        facet=D_MODEL,
        where=MAIN,
    ),
)

SUMMARIES = (
    searches_summary(
        "facts-held",
        "Facts stored, by head size, MLP width and model width",
        (("facts", Quantity("mean", FACTS, where=MAIN)),),
        over=(MLP, D_VO, D_MODEL),
        y_title=label(FACTS, "searches"),
        log_y=True,
    ),
    searches_summary(
        "facts-per-parameter",
        f"Facts stored per parameter (published: about {PUBLISHED})",
        (("facts per parameter", Quantity("mean", PER_PARAMETER, where=MAIN)),),
        over=(MLP, D_VO, D_MODEL),
        references=(ReferenceLine(f"published: {PUBLISHED}", str(PUBLISHED)),),
    ),
    Summary(
        "recall-at-the-end",
        "Fraction correct at the end of training by number of facts, d = 32, d_h = 8, m = 64 (12,288 parameters)",
        (("share right", Quantity("mean", RECALL, where=(*MAIN, *LARGE, (FACTS, FIRST_SIZES)))),),
        over=(FACTS,),
        x_title="facts in the task",
        y_title=RECALL_TITLE,
        log_x=True,
    ),
    searches_summary(
        "facts-by-learning-rate",
        f"Facts stored at d = m = {COMPARED} for each learning rate",
        (("facts", Quantity("mean", FACTS, where=MIDDLE)),),
        over=(LEARNING_RATE,),
        y_title=label(FACTS, "searches"),
        log_x=True,
    ),
)

FITS = (
    Fit(
        "per-parameter",
        f"Facts stored as a multiple of the number of parameters (published: about {PUBLISHED})",
        "facts-held",
        (f"{4 * HEADS} * {D_MODEL} * {D_VO} + 2 * {D_MODEL} * {MLP}",),
        intervals=True,
    ),
    Fit(
        "by-part",
        "Facts stored as a sum over value parameters H d d_h and MLP parameters m d",
        "facts-held",
        (f"{HEADS} * {D_MODEL} * {D_VO}", f"{D_MODEL} * {MLP}"),
        intervals=True,
    ),
)


def trade_claims(where: Where, by: str = "", also: str = "", *, extension: bool = False) -> tuple[Claim, ...]:
    """Returns the claims that a wider MLP and larger heads each hold more facts."""
    return tuple(
        searches_claim(
            name,
            statement,
            Quantity("slope", FACTS, against, (D_MODEL, fixed), (*where, (D_MODEL, (8, 16, 32)))),
            "rises",
            place="Figure 4 (left); abstract",
            quote=TRADE,
            note=f"Facts per {unit}{by}, averaged over {averaged}.{also}",
            extension=extension,
        )
        for name, statement, against, fixed, unit, averaged in (
            (
                "a wider MLP holds more",
                "With the same attention, a wider MLP holds more facts.",
                MLP,
                D_VO,
                "hidden unit",
                "model widths and head sizes",
            ),
            (
                "larger heads hold more",
                "With the same MLP, larger heads hold more facts.",
                D_VO,
                MLP,
                "unit of head size",
                "model and MLP widths",
            ),
        )
    )


ours = partial(searches_claim, place="cf. Figure 4 (left)", extension=True)

CLAIMS = (
    ours(
        "facts per parameter",
        f"A transformer holds about {PUBLISHED} facts for each parameter.",
        _mean(PER_PARAMETER, ()),
        PUBLISHED,
        tolerance=0.03,
        quote=PROPORTIONAL,
        note="Mean over transformers. The published number belongs to a line that the authors' script draws next to "
        "the points of a figure; we chose a fifth of it as the tolerance. Searches report lower ends, up to 10 % "
        "below the capacity. Here the final state at learning rate 0.01 counts, which is not the authors' criterion; "
        "see recall-capacity-criteria for theirs. This was a published claim until those runs were made.",
    ),
    searches_claim(
        "facts against parameters",
        f"The line of facts against parameters rises by about {PUBLISHED}.",
        Quantity("slope", FACTS, PARAMETERS, where=MAIN),
        PUBLISHED,
        tolerance=0.03,
        place="Figure 4 (left)",
        quote=PROPORTIONAL,
        note="The same number read as a slope with a free intercept, which the largest transformers dominate. Here "
        "the final state counts; the authors' script takes the best evaluation.",
        extension=True,
    ),
    *trade_claims(MAIN),
    ours(
        "an MLP parameter against one of attention",
        "How many more facts a parameter of the MLP adds than one of attention.",
        Quantity(
            "slope",
            FACTS,
            MLP_PARAMETERS,
            (D_MODEL, D_VO),
            (*MAIN, (D_MODEL, (8, 16, 32))),
            _gain(ATTENTION_PARAMETERS, MLP),
        ),
        None,
        note="Facts per added parameter. Half of the attention parameters are query-key weights, which store no facts.",
    ),
    ours(
        "facts per parameter in wider models",
        "How many more facts per parameter models of width 32 hold than those of width 16.",
        _mean(PER_PARAMETER, ((D_MODEL, 32),), _mean(PER_PARAMETER, ((D_MODEL, 16),))),
        None,
        note="The paper says proportional to the parameters, up to logarithms; it gives no number.",
    ),
    ours(
        "bits per parameter",
        "Bits of facts, log2 D = 3 each, for each parameter.",
        _mean("bits_per_parameter", ()),
        None,
        note="The minimum that any model must store for these facts, divided by the counted parameters; not published.",
    ),
    ours(
        "searches out of order",
        "The share of searches in which a size that holds lies above one that does not.",
        Quantity("mean", "1 - monotone", where=MAIN),
        None,
        note="Near the capacity it is partly chance whether 99 % are correct at the end. Added after we had seen the "
        "full results.",
    ),
    ours(
        "the learning rate",
        f"How many more facts are held with learning rate {RATE} than with 0.003.",
        mean_difference(FACTS, (*MAIN, *MIDDLE), ((LEARNING_RATE, 0.003), *MIDDLE)),
        None,
        note=f"At d = m = {COMPARED}; the authors take the best of three rates.",
    ),
)

RECALL_CAPACITY = Study(
    name="recall-capacity",
    title="Factual recall: facts per parameter",
    source=source("Figure 4 (left)"),
    question="How many facts does a one-layer transformer store on the factual recall task, and does that depend on "
    "anything but its number of parameters?",
    method="For each transformer (model width, head size, MLP width) and seed we search for the largest number of "
    "facts S R, with S = R and 8 answers per relation, of which 99 % are answered correctly after training; every "
    "fact is tested in 4 draws of noise. Tasks of several sizes are trained at once, then more between the largest "
    "that was stored and the next that was not; both ends were run.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
