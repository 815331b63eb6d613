"""Capacity on the factual recall task: how many facts does a one-layer transformer hold for each parameter?

Figure 4 (left) of the paper: H = 8 heads of size d_h = alpha d / H, an MLP of width m = beta d, D = 8 answers for each
relation, S = R; the largest S R with 99 % of the answers right, about 0.15 facts per parameter (of 4 H d_h d + 2 m d).

The authors' grid is d = 8 to 2^7.5 in half steps and alpha, beta in {1/4, 1/2, 1, 2, 4}, each with the best of three
learning rates. Ours is alpha, beta in {1/2, 1, 2} at d = 16 and 32, at d = 8 only 1 and 2 (8 heads of size alpha d / 8
are no smaller than 1), and at d = 64 only alpha = beta; the learning rate is 0.01, which was the best of
the three in pilots on other seeds, and at d = 16, alpha = beta = 1 the other two stand beside it. Left out: half steps
of d, d above 64, most of d = 64, alpha and beta of 1/4 and 4.

A size counts by its last state and one learning rate here, by the best of all evaluations and of three rates in the
authors' script. The study recall-capacity-criteria has their protocol on the same transformers, and the comparison with
the published number; this one, which was run first, has more seeds. Recall at the end falls slowly with the number of
facts and differs between seeds, 99 % is met over a wide range of sizes by some seeds only, and in one search of six a
size that holds lies above one that does not.

What is left open and we chose: a search narrows to 10 % in facts, or to neighbouring S; its lower end, which was run
and held, counts.
"""

from __future__ import annotations

from itertools import product

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.columns import label
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study, no_trials
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

SHARES = (0.5, 1, 2)
PUBLISHED = 0.15
COMPARED = 16
"""The width at which learning rates are compared."""
QUICK = tuple(product((8,), (1, 4), (1, 4)))


def shapes(size: Size) -> list[FactualRecallShape]:
    """The transformers: (d, alpha, beta)."""
    if size == "quick":
        return [transformer(*cell) for cell in QUICK]
    cells = [
        *product((8,), SHARES[1:], SHARES[1:]),
        *product((16, 32), SHARES, SHARES),
        *((64, share, share) for share in SHARES),
    ]
    return [transformer(*cell) for cell in cells]


def searches(size: Size) -> list[CapacitySearch]:
    """One for each transformer and seed, and with the other learning rates for one transformer."""
    wanted = [(shape, RATE) for shape in shapes(size)]
    if size == "full":
        wanted += [(transformer(COMPARED, 1, 1), rate) for rate in RATES if rate != RATE]
    return [capacity_search(size, shape, seed, rate=rate) for shape, rate in wanted for seed in SEEDS[size]]


MAIN: Where = ((LEARNING_RATE, RATE),)
CELL = (D_MODEL, D_VO, MLP)
MIDDLE: Where = ((D_MODEL, COMPARED), (D_VO, COMPARED // HEADS), (MLP, COMPARED))
LARGE: Where = ((D_MODEL, 32), (D_VO, 8), (MLP, 64))
FIRST_SIZES = (729, 1156, 1849, 2916)
"""The sizes of the first round of searches for it, which all seeds ran."""
PROPORTIONAL = "store information at a rate proportional to their parameter count"
TRADE = "the transformer can trade off between using the value matrices or the MLP as an associative memory"


def _mean(column: str, where: Where, minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", column, within=CELL, where=(*MAIN, *where), minus=minus)


def _gain(against: str, within: str) -> Quantity:
    return Quantity("slope", FACTS, against, (D_MODEL, within), (*MAIN, (D_MODEL, (8, 16, 32))))


CHARTS = (
    Chart(
        "facts-by-parameters",
        "Facts held against parameters",
        "points",
        x=PARAMETERS,
        y=FACTS,
        colour=D_MODEL,
        where=MAIN,
        log_x=True,
        log_y=True,
        data="searches",
    ),
    Chart(
        "facts-by-mlp-width",
        "Facts held by MLP width, head size and model width",
        "lines",
        x=MLP,
        y=FACTS,
        colour=D_VO,
        facet=D_MODEL,
        where=MAIN,
        data="searches",
    ),
)

SUMMARIES = (
    Summary(
        "facts-held",
        "Facts held, by head size, MLP width and model width",
        (("facts", Quantity("mean", FACTS, where=MAIN)),),
        over=(MLP, D_VO, D_MODEL),
        data="searches",
        y_title=label(FACTS, "searches"),
        log_y=True,
    ),
    Summary(
        "facts-per-parameter",
        f"Facts held for each parameter (published: about {PUBLISHED})",
        (("facts per parameter", Quantity("mean", PER_PARAMETER, where=MAIN)),),
        over=(MLP, D_VO, D_MODEL),
        data="searches",
    ),
    Summary(
        "recall-at-the-end",
        "Share right at the end of training by number of facts, d = 32, d_h = 8, m = 64 (12,288 parameters)",
        (("share right", Quantity("mean", RECALL, where=(*MAIN, *LARGE, (FACTS, FIRST_SIZES)))),),
        over=(FACTS,),
        x_title="facts asked for",
        y_title=RECALL_TITLE,
        log_x=True,
    ),
    Summary(
        "facts-by-learning-rate",
        f"Facts held at d = m = {COMPARED} with each learning rate",
        (("facts", Quantity("mean", FACTS, where=MIDDLE)),),
        over=(LEARNING_RATE,),
        data="searches",
        y_title=label(FACTS, "searches"),
        log_x=True,
    ),
)

FITS = (
    Fit(
        "per-parameter",
        f"Facts held as a multiple of the parameters (published: about {PUBLISHED})",
        "facts-held",
        (f"{4 * HEADS} * {D_MODEL} * {D_VO} + 2 * {D_MODEL} * {MLP}",),
        intervals=True,
    ),
    Fit(
        "by-part",
        "Facts held as a sum over value parameters H d d_h and MLP parameters m d",
        "facts-held",
        (f"{HEADS} * {D_MODEL} * {D_VO}", f"{D_MODEL} * {MLP}"),
        intervals=True,
    ),
)

CLAIMS = (
    Claim(
        "facts per parameter",
        f"A transformer holds about {PUBLISHED} facts for each parameter.",
        _mean(PER_PARAMETER, ()),
        PUBLISHED,
        tolerance=0.03,
        place="beside Figure 4 (left)",
        quote=PROPORTIONAL,
        note="Mean over transformers. The published number belongs to a line that the authors' script draws next to "
        "the points of a figure; we chose a fifth of it as the tolerance. Searches give lower ends, up to 10 % below "
        "the capacity. A size counts by its last state with learning rate 0.01 here, which is not the authors' "
        "criterion: recall-capacity-criteria has that. A published claim until those runs were made.",
        extension=True,
        data="searches",
    ),
    Claim(
        "facts against parameters",
        f"The line of facts against parameters rises by about {PUBLISHED}.",
        Quantity("slope", FACTS, PARAMETERS, where=MAIN),
        PUBLISHED,
        tolerance=0.03,
        place="Figure 4 (left)",
        quote=PROPORTIONAL,
        note="The same number read as a slope with a free constant; the largest transformers decide it. Last states "
        "count here, the best of all looks in the authors' script.",
        extension=True,
        data="searches",
    ),
    Claim(
        "a wider MLP holds more",
        "With the same attention, a wider MLP holds more facts.",
        Quantity("slope", FACTS, MLP, (D_MODEL, D_VO), (*MAIN, (D_MODEL, (8, 16, 32)))),
        "rises",
        place="Figure 4 (left); abstract",
        quote=TRADE,
        note="Facts for each hidden unit, averaged over model widths and head sizes.",
        data="searches",
    ),
    Claim(
        "larger heads hold more",
        "With the same MLP, larger heads hold more facts.",
        Quantity("slope", FACTS, D_VO, (D_MODEL, MLP), (*MAIN, (D_MODEL, (8, 16, 32)))),
        "rises",
        place="Figure 4 (left); abstract",
        quote=TRADE,
        note="Facts for each unit of head size, averaged over model and MLP widths.",
        data="searches",
    ),
    Claim(
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
        place="beside Figure 4 (left)",
        note="Facts per added parameter. Half of the parameters of attention are query-key ones, which hold no facts.",
        extension=True,
        data="searches",
    ),
    Claim(
        "facts per parameter in wider models",
        "How many more facts per parameter models of width 32 hold than those of width 16.",
        _mean(PER_PARAMETER, ((D_MODEL, 32),), _mean(PER_PARAMETER, ((D_MODEL, 16),))),
        None,
        place="beside Figure 4 (left)",
        note="Proportional to the parameters, up to logarithms, says the paper; a number is not given.",
        extension=True,
        data="searches",
    ),
    Claim(
        "bits per parameter",
        "Bits of facts, log2 D = 3 each, for each parameter.",
        _mean("bits_per_parameter", ()),
        None,
        place="beside Figure 4 (left)",
        note="What any model must store at least for these facts, over the counted parameters; not published.",
        extension=True,
        data="searches",
    ),
    Claim(
        "searches out of order",
        "The share of searches in which a size that holds lies above one that does not.",
        Quantity("mean", "1 - monotone", where=MAIN),
        None,
        place="beside Figure 4 (left)",
        note="Whether 99 % are right at the end is partly luck near the capacity. Counted after the full results had "
        "been seen.",
        extension=True,
        data="searches",
    ),
    Claim(
        "the learning rate",
        f"How many more facts are held with learning rate {RATE} than with 0.003.",
        Quantity(
            "mean",
            FACTS,
            where=(*MAIN, *MIDDLE),
            minus=Quantity("mean", FACTS, where=((LEARNING_RATE, 0.003), *MIDDLE)),
        ),
        None,
        place="beside Figure 4 (left)",
        note=f"At d = m = {COMPARED}; the authors take the best of three rates.",
        extension=True,
        data="searches",
    ),
)

RECALL_CAPACITY = Study(
    name="recall-capacity",
    title="Factual recall: facts per parameter",
    source=source("Figure 4 (left)"),
    question="How many facts does a transformer of one layer hold on the factual recall task, and does it depend on "
    "anything but the number of its parameters?",
    method="For each transformer (model width, head size, MLP width) and seed, the greatest number of facts S R with "
    "S = R and 8 answers for each relation is searched for of which 99 % are answered rightly after training; all "
    "facts are asked for, each among 4 draws of noise. Tasks of several sizes are trained at once, then more between "
    "the largest that held and the next one that did not; both ends were run.",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    fits=FITS,
    claims=CLAIMS,
    titles=TITLES,
)
