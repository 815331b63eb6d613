"""Held-out text: the same splits on facts mixed with real text, from a corpus that the user names.

It is not in the catalogue, because its trials contain the hash of the corpus. A file of studies makes it:

    from factrank.studies.language import text_study
    STUDY = text_study("corpus.txt")
"""

from __future__ import annotations

import os
from dataclasses import replace

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity
from factrank.experiments.study import Chart, Size, Study
from factrank.families.language import TextFile
from factrank.studies.language.settings import D_QK, RATE, SCALES, SEEDS, SPLITS, STORED, TITLES, fractions_of, source

LOAD = 1
FRACTIONS: dict[Size, tuple[float, ...]] = {"quick": (0.5,), "full": (0.25, 0.5, 0.75)}
STEPS: dict[Size, int] = {"quick": 60, "full": 3000}
BATCH: dict[Size, int] = {"quick": 32, "full": 512}
FRACTION = "data.text_fraction"


def text_study(path: str | os.PathLike[str], *, n_tokens: int = 1024, length: int = 64) -> Study:
    """Return the study of facts against held-out text.

    Arguments:
        path: Corpus, a file of UTF-8 text.
        n_tokens: Size of its vocabulary.
        length: Number of tokens in a sequence of text.

    Raises:
        InputError: If the file is missing.
    """
    text = TextFile.of(os.fspath(path), n_tokens=n_tokens, length=length)

    def trials(size: Size) -> list[Trial]:
        scale = replace(SCALES[size], batch_size=BATCH[size])
        n_people, steps = SCALES[size].people(LOAD), STEPS[size]
        return [
            Trial(
                replace(scale.facts(n_people, seed), text=text, text_fraction=fraction),
                scale.shape(d_qk),
                scale.training(steps, RATE),
                fractions_of(steps),
                seed=seed,
            )
            for fraction in FRACTIONS[size]
            for d_qk in SPLITS[size]
            for seed in SEEDS
        ]

    return Study(
        name="language-text",
        title="What narrow query-key heads lose: facts against held-out text",
        source=source("open questions"),
        question="What do small language models lose on held-out text if query-key heads are narrow?",
        method="We train decoders without an MLP on mixtures of a phone book and windows of a corpus, for every split "
        "of the heads, and measure bits per byte of the last tenth of the corpus.",
        trials=trials,
        charts=(
            Chart(
                "front",
                "Facts against bits per byte, by d_qk",
                "points",
                x="bits_per_byte",
                y=STORED,
                colour=D_QK,
                facet=FRACTION,
            ),
        ),
        claims=(
            Claim(
                "narrow query-key heads harm text",
                "Bits per byte fall with d_qk.",
                Quantity("slope", "bits_per_byte", D_QK, (FRACTION,)),
                "less",
                place="open questions, quoted from a summary",
                quote="Reducing d_head,qk may harm tasks requiring complex attention patterns.",
                note="Slope of bits per byte of held-out text against d_qk, averaged over mixtures.",
            ),
        ),
        titles=TITLES,
    )
