"""Bits that training stores in a layer, and whether training longer or otherwise would store more.

A layer that gives the right answers the mean cross-entropy `loss` (in nats) stores

    n (log2 |V| - loss / ln 2)

bits of a table of n facts: all of them at loss 0, none if every value is equally likely. Unlike recall times bits, this
counts what the layer knows about facts that it does not recall. Bits are divided by the number of parameters, once with
the embeddings, (|K| + |Q| + |V|) d_model + 2 d_model n_heads (d_qk + d_vo), and once without, the second term alone.

The layers are overloaded, so that capacity and not the table limits them: 200 facts with 864 bits, d_model 4, and 1 to
8 heads with d_qk = d_vo = 2, hence 232 to 456 parameters. Each is trained for 20,000 epochs, ten times as many as
elsewhere, with three learning rates.
"""

from __future__ import annotations

from functools import partial
from math import log

from factrank.experiments.specs import Curve, Training, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Size, Study
from factrank.families.attention import LayerShape
from factrank.studies.parts import curves_chart, curves_claim, curves_summary
from factrank.studies.wong.settings import (
    D_MODEL,
    D_QK,
    D_VO,
    N_HEADS,
    N_KEYS,
    N_QUERIES,
    N_VALUES,
    TITLES,
    full_table,
    source,
)

WIDTH, HEAD_WIDTH = 4, 2
HEADS: dict[Size, tuple[int, ...]] = {"quick": (1, 4), "full": (1, 2, 4, 8)}
RATES: dict[Size, tuple[float, ...]] = {"quick": (0.01, 0.03), "full": (0.003, 0.01, 0.03)}
EPOCHS: dict[Size, tuple[int, ...]] = {"quick": (500, 1000, 2000), "full": (2000, 5000, 10_000, 20_000)}
"""Epochs at which the loss is recorded; the last one ends training."""
SEEDS: dict[Size, range] = {"quick": range(3), "full": range(10)}
LEARNING_RATE = "training.learning_rate"
SHORT, HALF, LAST = EPOCHS["full"][0], EPOCHS["full"][-2], EPOCHS["full"][-1]

STORED = f"{N_KEYS} * {N_QUERIES} * (log({N_VALUES}) - loss) / {log(2):.6f}"
"""Bits stored of a full table."""
CIRCUITS = f"2 * {D_MODEL} * {N_HEADS} * ({D_QK} + {D_VO})"
ALL_PARAMETERS = f"(({N_KEYS} + {N_QUERIES} + {N_VALUES}) * {D_MODEL} + {CIRCUITS})"
PER_PARAMETER = f"{STORED} / {ALL_PARAMETERS}"
PER_CIRCUIT_PARAMETER = f"{STORED} / ({CIRCUITS})"


def trials(size: Size) -> list[Trial]:
    """Returns one trial per seed, number of heads and learning rate."""
    return [
        Trial(
            full_table(20, 10, seed),
            LayerShape(WIDTH, n_heads, HEAD_WIDTH, HEAD_WIDTH),
            Training(epochs=EPOCHS[size][-1], learning_rate=rate),
            seed=seed,
            measures=(Curve(EPOCHS[size]),),
        )
        for seed in SEEDS[size]
        for n_heads in HEADS[size]
        for rate in RATES[size]
    ]


def _at(epoch: int, rate: float | None = None, minus: Quantity | None = None) -> Quantity:
    """Returns mean bits per parameter after this many epochs, at each number of heads and rate, averaged."""
    where: Where = (("epoch", epoch), *(((LEARNING_RATE, rate),) if rate else ()))
    return Quantity("mean", PER_PARAMETER, within=(N_HEADS, LEARNING_RATE), where=where, minus=minus)


CHARTS = (
    curves_chart(
        "bits-by-epoch",
        "Bits stored per parameter, embeddings included, by epoch and learning rate: one panel per number of heads",
        "lines",
        x="epoch",
        y=PER_PARAMETER,
        colour=LEARNING_RATE,
        facet=N_HEADS,
        y_title="bits stored per parameter",
    ),
)

SUMMARIES = (
    Summary(
        "best-rate",
        "Bits stored per parameter by the best of the learning rates of each table, after the last epoch",
        (
            ("all parameters", Quantity("greatest", PER_PARAMETER)),
            ("without embeddings", Quantity("greatest", PER_CIRCUIT_PARAMETER)),
        ),
        over=(N_HEADS,),
        y_title="bits stored per parameter",
        log_y=True,
    ),
    curves_summary(
        "by-epoch",
        "Bits stored per parameter, embeddings included, by epoch and learning rate",
        (("bits per parameter", Quantity("mean", PER_PARAMETER)),),
        over=("epoch", LEARNING_RATE, N_HEADS),
        y_title="bits stored per parameter",
    ),
)

ours = partial(Claim, place="cf. arXiv 2404.05405", extension=True)
of_curves = partial(curves_claim, place="cf. arXiv 2404.05405", extension=True)

CLAIMS = (
    of_curves(
        "training has converged",
        f"From {HALF:,} to {LAST:,} epochs, bits per parameter change by at most 0.05.",
        _at(LAST, minus=_at(HALF)),
        "flat",
        tolerance=0.05,
        note="Averaged over 1, 2, 4 and 8 heads and three learning rates. The tolerance is ours: a fortieth of 2 bits.",
    ),
    of_curves(
        "what ten times the epochs store",
        f"How much more do {LAST:,} epochs store than {SHORT:,}, at the learning rate of the other studies?",
        _at(LAST, 0.01, _at(SHORT, 0.01)),
        None,
        note="Bits per parameter, learning rate 0.01.",
    ),
    ours(
        "fewer than 2 bits per parameter",
        "With the best learning rate, layers store fewer than 2 bits per parameter, embeddings included.",
        Quantity("greatest", f"{PER_PARAMETER} - 2", within=(N_HEADS,)),
        "less",
        note="Greatest over the three learning rates of each table, less 2, averaged over the numbers of heads. "
        "Language models were found to store about 2 (arXiv 2404.05405) and 3.6 (arXiv 2505.24832).",
    ),
    ours(
        "most bits per parameter",
        "How many bits per parameter does the best of all shapes and rates store, embeddings included?",
        Quantity("greatest", PER_PARAMETER),
        None,
        note="Greatest over 1 to 8 heads and three learning rates, for each table. With 8 heads the table itself has "
        "only 1.9 bits per parameter.",
    ),
    ours(
        "bits per parameter by heads",
        "How many more bits per parameter do 8 heads store than 1?",
        Quantity(
            "greatest",
            PER_PARAMETER,
            where=((N_HEADS, 8),),
            minus=Quantity("greatest", PER_PARAMETER, where=((N_HEADS, 1),)),
        ),
        None,
        note="With the best learning rate of each table, embeddings included; full size only.",
    ),
)

STORED_BITS = Study(
    name="stored-bits",
    title="Bits that training stores: 20,000 epochs, three rates, 1 to 8 heads",
    source=source("next checks of a summary"),
    question="How many bits per parameter does training store in an overloaded layer, and would longer training, "
    "another learning rate or more heads store more?",
    method="We train layers of d_model 4 with 1, 2, 4 and 8 heads on full random tables of 200 facts, 864 bits, for "
    "20,000 epochs with learning rates 0.003, 0.01 and 0.03. A layer stores n (log2 |V| - loss / ln 2) bits; we "
    "divide them by all parameters, and by those that are not embeddings. The quick size has 2,000 epochs.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
