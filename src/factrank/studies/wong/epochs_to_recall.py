"""Epochs to full recall against the threshold tau: how much training does confidence cost?

A summary of the paper says that a higher tau may need more epochs. A layer that answers every fact with probability tau
also does so for every lower tau, so the number of epochs cannot decrease; the question is how fast it grows.

Our choices, where the paper leaves them open: full random tables of 20 keys, 20 values and 5 or 10 queries (200 facts,
the most that the paper mentions), and layers that reach full recall at every threshold in every seed, so no run is
excluded: six heads with d_vo = d_qk = d_model / 4 and d_model 12 to 32 (layers with one head rarely get there). Recall
is checked after every epoch.
"""

from __future__ import annotations

from factrank.experiments.specs import Curve, EpochsTo, TauRecall, Training, Trial
from factrank.experiments.statistics import Claim, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.attention import LayerShape
from factrank.studies.wong.settings import (
    D_MODEL,
    MORE_SEEDS,
    N_QUERIES,
    TAU,
    TAU_TITLE,
    TAUS,
    TITLES,
    source,
    uniform_table,
)

KEYS, VALUES, HEADS = 20, 20, 6
QUERIES: dict[Size, tuple[int, ...]] = {"quick": (10,), "full": (5, 10)}
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (12, 16, 32), "full": (12, 16, 24, 32)}
TRAINING = Training(epochs=2000, learning_rate=0.01, check_every=1)
CURVE_EPOCHS = (0, 5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500)
MEASURES = (TauRecall(TAUS), EpochsTo(), Curve(CURVE_EPOCHS))
LEAST_TAU, GREATEST_TAU = TAUS[0], TAUS[-1]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per width, table and seed."""
    return [
        Trial(
            uniform_table(KEYS, n_queries, VALUES, KEYS * n_queries, seed),
            LayerShape(d_model=d_model, n_heads=HEADS, d_qk=d_model // 4, d_vo=d_model // 4),
            TRAINING,
            seed=seed,
            measures=MEASURES,
        )
        for n_queries in QUERIES[size]
        for d_model in WIDTHS[size]
        for seed in MORE_SEEDS[size]
    ]


def epochs_to(tau: float) -> str:
    """Returns the name of the column with the first epoch at which every fact has this probability."""
    return f"epochs_to.recall_{tau}"


PAPER: Where = ((N_QUERIES, 10),)
"""200 facts; part of both sizes."""
EPOCHS_TITLE = "epochs to full recall"


def _curve(tau: float) -> Chart:
    return Chart(
        f"recall-{tau}-by-epoch",
        f"Recall at confidence {tau} during training (10 queries)",
        "lines",
        x="epoch",
        y=f"recall_{tau}",
        colour=D_MODEL,
        where=(*PAPER, ("epoch", CURVE_EPOCHS[1:])),
        log_x=True,
        data="curves",
    )


CHARTS = (
    _curve(LEAST_TAU),
    _curve(GREATEST_TAU),
    Chart(
        "first-against-last",
        f"Epochs to full recall at confidence {GREATEST_TAU} and at {LEAST_TAU}",
        "points",
        x=epochs_to(LEAST_TAU),
        y=epochs_to(GREATEST_TAU),
        colour=D_MODEL,
        facet=N_QUERIES,
        log_x=True,
        log_y=True,
        x_title=f"epochs to confidence {LEAST_TAU}",
        y_title=f"epochs to confidence {GREATEST_TAU}",
        references=(ReferenceLine("as many", "x"),),
    ),
)

SUMMARIES = (
    Summary(
        "epochs-by-tau",
        "Epochs to full recall at confidence τ",
        tuple((str(tau), Quantity("mean", epochs_to(tau))) for tau in TAUS),
        over=(D_MODEL, N_QUERIES),
        x="quantity",
        x_title=TAU_TITLE,
        y_title=EPOCHS_TITLE,
    ),
    Summary(
        "relative-epochs-by-tau",
        f"Epochs to full recall at confidence τ, relative to {LEAST_TAU}",
        tuple((str(tau), Quantity("fraction", epochs_to(tau), epochs_to(LEAST_TAU))) for tau in TAUS),
        over=(D_MODEL, N_QUERIES),
        x="quantity",
        x_title=TAU_TITLE,
        y_title=f"epochs / epochs to {LEAST_TAU}",
    ),
)

CLAIMS = (
    Claim(
        "higher tau needs more epochs",
        f"Full recall at confidence {GREATEST_TAU} takes more epochs than at {LEAST_TAU}.",
        Quantity("mean", f"{epochs_to(GREATEST_TAU)} - {epochs_to(LEAST_TAU)}", where=PAPER),
        "greater",
        by_construction="full recall at a higher confidence implies full recall at a lower one",
        place="design trade-offs of a summary",
        quote="higher τ tightens rank correspondence but may require more epochs",
        note="In epochs, mean over widths. Cannot be negative.",
    ),
    Claim(
        f"{TAU} needs more epochs than {LEAST_TAU}",
        f"Full recall at confidence {TAU}, the threshold the paper prefers, takes more epochs than at {LEAST_TAU}.",
        Quantity("mean", f"{epochs_to(TAU)} - {epochs_to(LEAST_TAU)}", where=PAPER),
        "greater",
        by_construction="full recall at a higher confidence implies full recall at a lower one",
        place="design trade-offs of a summary",
        quote="higher τ tightens rank correspondence but may require more epochs",
        note="In epochs, mean over widths. Cannot be negative.",
        extension=True,
    ),
    Claim(
        "by which factor",
        f"Epochs to full recall at confidence {GREATEST_TAU} as a multiple of those at {LEAST_TAU}.",
        Quantity("fraction", epochs_to(GREATEST_TAU), epochs_to(LEAST_TAU), where=PAPER),
        None,
        place="design trade-offs of a summary",
        quote="may require more epochs",
        note="No number is published.",
    ),
    Claim(
        "the last steps cost most",
        f"From {TAU} to {GREATEST_TAU} takes longer than from 0.9 to {TAU}, at equal steps of 0.01.",
        Quantity(
            "mean",
            f"{epochs_to(GREATEST_TAU)} / 4 - {epochs_to(TAU)} / 4 - {epochs_to(TAU)} / 5 + {epochs_to(0.9)} / 5",
            where=PAPER,
        ),
        "greater",
        place="cf. the design trade-offs of a summary",
        note="Difference between the two steps, in epochs per 0.01 of tau.",
        extension=True,
    ),
)

EPOCHS_TO_RECALL = Study(
    name="epochs-to-recall",
    title="Epochs to full recall against the threshold",
    source=source("design trade-offs, in a summary"),
    question="How many more epochs does a layer need to give every fact a probability of at least τ as τ grows from "
    f"{LEAST_TAU} to {GREATEST_TAU}?",
    method="We train layers with six heads, which reach full recall in every seed, on full random tables of 20 "
    "keys and 20 values with 10 queries (in the full size also 5). For each of 7 thresholds we record the first epoch "
    "after which every fact has probability at least τ.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
