"""What is lost: the same splits on in-context recall, mixed with facts in three proportions.

Our choices: multi-query associative recall of 4, 8, 16 and 32 pairs among 64 keys and 64 values, in 25, 50 and 75 % of
the sequences; phone books of 1 bit per parameter; no MLP, because attention has to do it; learning rate 0.003, 3 seeds.
"Costs nothing" means within 0.02 of the accuracy at the largest d_qk. Held-out text needs a corpus: `text_study`.
"""

from __future__ import annotations

from dataclasses import replace

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary
from factrank.experiments.study import Chart, Size, Study
from factrank.families.language import InContextRecall
from factrank.studies.language.settings import (
    D_QK,
    RATE,
    SCALES,
    SEEDS,
    SPLITS,
    STORED,
    TITLES,
    fractions_of,
    source,
)
from factrank.studies.parts import curves_chart

LOAD = 1
RECALL: dict[Size, InContextRecall] = {
    "quick": InContextRecall(pairs=(2, 4), n_keys=8, n_values=8, sequences=64),
    "full": InContextRecall(pairs=(4, 8, 16, 32), n_keys=64, n_values=64, sequences=256),
}
FRACTIONS: dict[Size, tuple[float, ...]] = {"quick": (0.5,), "full": (0.25, 0.5, 0.75)}
STEPS: dict[Size, int] = {"quick": 150, "full": 2500}
BATCH: dict[Size, int] = {"quick": 32, "full": 512}
LAYERS: dict[Size, int] = {"quick": 2, "full": 4}
PAIRS = {size: recall.pairs for size, recall in RECALL.items()}
FRACTION, SLACK = "data.recall_fraction", 0.02


def trials(size: Size) -> list[Trial]:
    """Returns one trial per split, fraction of in-context recall and seed."""
    scale = replace(SCALES[size], n_layers=LAYERS[size], batch_size=BATCH[size])
    n_people, steps = SCALES[size].people(LOAD), STEPS[size]
    return [
        Trial(
            replace(scale.facts(n_people, seed), recall=RECALL[size], recall_fraction=fraction),
            scale.shape(d_qk),
            scale.training(steps, RATE),
            fractions_of(steps),
            seed=seed,
        )
        for fraction in FRACTIONS[size]
        for d_qk in SPLITS[size]
        for seed in SEEDS
    ]


CHARTS = (
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

SUMMARIES = (
    Summary(
        "least-d_qk",
        f"Least d_qk within {SLACK} of the accuracy at the largest d_qk",
        (("least d_qk", Quantity("least", "in_context", D_QK, slack=SLACK)),),
        over=(FRACTION,),
    ),
)

CLAIMS = (
    Claim(
        "narrow query-key heads harm in-context recall",
        "In-context accuracy rises with d_qk.",
        Quantity("slope", "in_context", D_QK, (FRACTION,)),
        "greater",
        place="open questions, quoted from a summary",
        quote="Reducing d_head,qk may harm tasks requiring complex attention patterns.",
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
    Claim(
        "least d_qk",
        "What is the least d_qk that costs no in-context accuracy?",
        Quantity("least", "in_context", D_QK, (FRACTION,), slack=SLACK),
        None,
        place="our open questions",
        note=f"Within {SLACK} of the accuracy at the largest d_qk, averaged over mixtures.",
        extension=True,
    ),
)

LANGUAGE_TRADE_OFF = Study(
    name="language-trade-off",
    title="What narrow query-key heads lose: facts against in-context recall",
    source=source("open questions"),
    question="What do small language models lose in in-context recall if query-key heads are narrow, and which d_qk "
    "costs nothing?",
    method="We train decoders without an MLP on mixtures of a phone book and multi-query associative recall of 4 to 32 "
    "pairs, for every split of d_qk + d_vo = 32, and measure both on sequences that stay the same. The least d_qk that "
    f"costs nothing is within {SLACK} of the accuracy at the largest d_qk.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
