"""Held-out text: the same splits on facts mixed with real text.

The corpus of a full run is `settings.KJV`; its hash is part of every trial, so another file is refused. A quick run
reads a sample of the package. `text_study` makes the study from any other file:

    from factrank.studies.language import text_study
    STUDY = text_study("corpus.txt")

Our choices: the mixtures of `trade_off`, without an MLP, learning rate 0.003; in the mixture of equal parts d_qk is
also narrowed alone.
"""

from __future__ import annotations

import os
from dataclasses import replace

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.language import TextFile
from factrank.studies.language.settings import (
    D_QK,
    EQUAL_WIDTHS,
    HARM,
    LARGE,
    RATE,
    SEEDS,
    SMALL,
    STORED,
    StudyGrid,
    cost_of_narrowing,
    equal_parameters,
    mixed_shapes,
    narrowed_alone,
    of_mixture,
    source,
)
from factrank.studies.language.trade_off import LOAD, twentieths
from factrank.studies.parts import mean_difference

FRACTION, COST = "data.text_fraction", 0.02


def text_study(
    path: str | os.PathLike[str], *, n_tokens: int = 384, length: int = 64, grid: StudyGrid = SMALL
) -> Study:
    """Return the study of facts against held-out text.

    Arguments:
        path: Corpus, a file of UTF-8 text.
        n_tokens: Size of its vocabulary.
        length: Number of tokens in a sequence of text.
        grid: Sizes of models and of training.

    Raises:
        InputError: If the file is missing.
    """
    return _study(grid, "language-text", TextFile.of(os.fspath(path), n_tokens=n_tokens, length=length))


def _charts(grid: StudyGrid) -> tuple[Chart, ...]:
    splits, narrowed = equal_parameters(grid), narrowed_alone(grid, FRACTION)
    return (
        Chart(
            "front",
            "Facts against bits per byte, by d_qk",
            "points",
            x="bits_per_byte",
            y=STORED,
            colour=D_QK,
            facet=FRACTION,
            where=splits,
        ),
        Chart(
            "bits-per-byte-by-d_qk",
            "Bits per byte of held-out text against d_qk at equal parameters, by fraction of text",
            "lines",
            x=D_QK,
            y="bits_per_byte",
            colour=FRACTION,
            where=splits,
        ),
        Chart(
            "bits-per-byte-narrowed",
            "Bits per byte of held-out text against d_qk, with d_vo as it is",
            "lines",
            x=D_QK,
            y="bits_per_byte",
            where=narrowed,
        ),
    )


def _summaries(splits: Where) -> tuple[Summary, ...]:
    least = Quantity("least near best", "0 - bits_per_byte", D_QK, (), splits, slack=COST)
    return (
        Summary(
            "by-split",
            "Bits per byte of held-out text and bits stored per parameter, by fraction of text and d_qk",
            (
                ("bits per byte", Quantity("mean", "bits_per_byte", where=splits)),
                ("stored", Quantity("mean", STORED, where=splits)),
            ),
            over=(D_QK, FRACTION),
        ),
        Summary(
            "least-d_qk",
            f"Least d_qk within {COST} bits per byte of the best split",
            (("least d_qk", least),),
            over=(FRACTION,),
            y_title="d_qk",
        ),
    )


def _claims(grid: StudyGrid) -> tuple[Claim, ...]:
    splits, half = equal_parameters(grid), grid.full.scale.head // 2
    return (
        Claim(
            "narrow query-key heads harm text",
            "Text takes more bits per byte if d_qk alone is reduced to 2.",
            cost_of_narrowing(grid, "bits_per_byte", FRACTION),
            "less",
            place="open questions, quoted from a summary",
            quote=HARM,
            note=f"Bits per byte of held-out text with d_qk = d_vo = {half} minus the same with d_qk = 2, in the "
            "mixture of equal parts.",
        ),
        Claim(
            "narrow query-key heads at equal parameters",
            f"If d_vo takes what d_qk gives up, text takes more bits per byte with d_qk = 2 than with {half}.",
            mean_difference("bits_per_byte", (*splits, EQUAL_WIDTHS), (*splits, (D_QK, 2)), (FRACTION,)),
            "less",
            place="our open questions",
            note="Difference of bits per byte of held-out text, averaged over mixtures.",
            extension=True,
        ),
        Claim(
            "best split for text",
            "Which d_qk has the fewest bits per byte?",
            Quantity("best", "0 - bits_per_byte", D_QK, (FRACTION,), splits),
            None,
            place="our open questions",
            note="The d_qk with the smallest mean of bits per byte, averaged over mixtures.",
            extension=True,
        ),
    )


def _study(grid: StudyGrid, name: str, text: TextFile | None = None) -> Study:
    def trials(size: Size) -> list[Trial]:
        own, scale = grid.sizes[size], of_mixture(grid.sizes[size])
        mixture, n_people = own.mixture, own.scale.people(LOAD)
        return [
            Trial(
                replace(scale.facts(n_people, seed), text=text or mixture.text, text_fraction=fraction),
                shape,
                scale.training(mixture.text_steps, RATE),
                twentieths(mixture.text_steps),
                seed=seed,
            )
            for fraction, shape in mixed_shapes(own)
            for seed in SEEDS
        ]

    return Study(
        name=name,
        title=f"What narrow query-key heads lose on text, {grid.of_parameters()}",
        source=source("open questions"),
        question="What do small language models lose on held-out text if query-key heads are narrow?",
        method="We train decoders without an MLP on mixtures of a phone book and windows of a corpus, for every split "
        "of the heads and, in the mixture of equal parts, for narrower d_qk with "
        f"d_vo = {grid.full.scale.head // 2}, and measure bits per byte of the last tenth of the corpus.",
        trials=trials,
        charts=_charts(grid),
        summaries=_summaries(equal_parameters(grid)),
        claims=_claims(grid),
    )


LANGUAGE_TEXT_SMALL = _study(SMALL, f"language-text{SMALL.suffix}")
LANGUAGE_TEXT = _study(LARGE, f"language-text{LARGE.suffix}")
