"""Saturation: do heads learn to put nearly all their weight on one token?

In the paper's construction each head serves its own examples, which the saturation of softmax makes possible. The
authors train 4 heads on 550 and 8 heads on 1,300 examples with one context of 32 tokens, for 300,000 steps without
early stopping, and count how many heads have a weight above 0.99 on an example.

We do not know the numbers in the figures. During training we record the fraction of (example, head) pairs whose largest
weight exceeds 0.99, the same for the least and the most saturated head, and the fraction of examples with at least one
such head. There are 3 seeds for 4 heads and 8 for 8 heads, as many as time allowed. The authors analyse the checkpoint
with the smallest loss, we the final state.
"""

from __future__ import annotations

from factrank.experiments.specs import Curve, Trial
from factrank.experiments.statistics import Claim, Direction, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memoriser import Saturation
from factrank.studies.mahdavi.settings import CONTEXT_SIZE, N_HEADS, RECALL, TITLES, Setting, source

SIZES: dict[Size, tuple[tuple[int, int, int], ...]] = {"quick": ((2, 60, 3),), "full": ((4, 550, 3), (8, 1300, 8))}
"""Heads, examples, and seeds."""
STEPS: dict[Size, int] = {"quick": 8_000, "full": 300_000}
LOOKS = 50
"""Number of recorded points per curve."""
THRESHOLD = 0.99


def trials(size: Size) -> list[Trial]:
    """Returns one trial per number of heads and seed."""
    settings = [
        Setting(size, "classification", "shared", n_examples, n_heads, CONTEXT_SIZE[size], seed)
        for n_heads, n_examples, seeds in SIZES[size]
        for seed in range(seeds)
    ]
    every = STEPS[size] // LOOKS
    return [
        Trial(
            setting.examples(),
            setting.shape(),
            setting.training(STEPS[size], stops=False),
            seed=setting.seed,
            measures=(Saturation(THRESHOLD), Curve(tuple(range(0, STEPS[size] + 1, every)))),
        )
        for setting in settings
    ]


SATURATED, LEAST, MOST, ANY = "saturated", "saturated_least", "saturated_most", "saturated_any"
PLACE = "the experiments on saturation"
QUOTE = "aided by the softmax operator's saturation property"
FEWER, MORE = (2, 4), (8,)
"""Numbers of heads: the quick size and the smaller of the full size; the larger of the full size."""


def _where(heads: tuple[int, ...]) -> Where:
    return ((N_HEADS, heads),)


POSITIVE = "a fraction is not negative, and one case makes it positive"


def _by_heads(
    name: str, statement: str, column: str, published: Direction | None, note: str, *, ours: bool = False
) -> tuple[Claim, ...]:
    """Returns the claim for few and for many heads, at the end of training."""
    return tuple(
        Claim(
            f"{name}, {text}",
            f"{statement[:-1]} ({text}).",
            Quantity("mean", column, where=_where(heads)),
            published,
            by_construction=POSITIVE if published else "",
            place=PLACE,
            quote="" if ours else QUOTE,
            note=note,
            extension=ours,
        )
        for heads, text in ((FEWER, "4 heads"), (MORE, "8 heads"))
    )


CHARTS = tuple(
    Chart(
        f"{name}-by-step",
        f"{title} during training",
        "lines",
        x="epoch",
        y=column,
        colour=N_HEADS,
        y_title=y_title,
        data="curves",
    )
    for name, title, column, y_title in (
        ("saturated", "Saturated heads", SATURATED, "fraction of (example, head) pairs"),
        ("saturated-any", "Examples with a saturated head", ANY, "fraction of examples"),
        ("accuracy", "Accuracy", RECALL, "fraction of examples memorised"),
    )
)

SUMMARIES = (
    Summary(
        "at-the-end",
        "Saturation at the end of training: a largest weight above 0.99",
        (
            ("all heads", Quantity("mean", SATURATED)),
            ("least saturated head", Quantity("mean", LEAST)),
            ("most saturated head", Quantity("mean", MOST)),
            ("examples with a saturated head", Quantity("mean", ANY)),
            ("examples memorised", Quantity("mean", RECALL)),
        ),
        over=(N_HEADS,),
        x="quantity",
        y_title="fraction",
    ),
)

CLAIMS = (
    *_by_heads(
        "saturated heads appear",
        "At the end of training some heads put more than 0.99 of their weight on one token.",
        SATURATED,
        "greater",
        "Fraction of (example, head) pairs at the end. The quick size has 2 heads and is counted with 4.",
    ),
    Claim(
        "saturation grows",
        "The share of saturated heads grows while training.",
        Quantity("slope", SATURATED, "epoch", where=(("seed", (0, 1, 2)),), within=(N_HEADS,)),
        "rises",
        place=PLACE,
        quote=QUOTE,
        note="Per step, by least squares over the recorded steps, for 4 and 8 heads, over the seeds that both have. "
        "That it grows is our interpretation of the role of saturation; we know the figures only from the scripts.",
        data="curves",
    ),
    *_by_heads(
        "examples with a saturated head",
        "The share of examples for which at least one head is saturated.",
        ANY,
        None,
        "At the end; we know of no published number.",
        ours=True,
    ),
    *_by_heads(
        "heads differ",
        "Some heads are saturated for more examples than others.",
        f"{MOST} - {LEAST}",
        "greater",
        "Fraction of examples on which the most saturated head saturates minus that of the least saturated one, at "
        "the end.",
        ours=True,
    ),
    *_by_heads(
        "all memorised",
        "The share of examples that is memorised at the end.",
        RECALL,
        None,
        "550 examples are 4.4 times H (n - 1) + 1 for 4 heads; 1,300 are 5.2 times that for 8.",
        ours=True,
    ),
)

SATURATION = Study(
    name="saturation",
    title="Saturation: heads that attend to one token",
    source=source(PLACE),
    question="Do the heads of trained memorisers put nearly all their weight on one token, and when?",
    method="We train memorisers with 4 and 8 heads to the end on one context of 32 tokens, 550 and 1,300 examples and "
    "100 classes. Every 6,000 steps we compare the largest weight of each head on each example with 0.99.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
