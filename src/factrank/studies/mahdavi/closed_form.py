"""Closed form: how many examples does one linear solve memorise, and how many does training, on the same grid?

Our extension. With random query-key weights the readout is linear in the values, so one solve fits real labels exactly
if the feature matrix has full row rank. Its rank is known: H (n - 1) + 1 with one context for all, which is the paper's
count for d_h >= n, and H d + 1 with a context per example, for any n > 1
(`factrank.families.memoriser.ranks.label_ranks`). We solve at exactly that many examples, and at one more.

Labels are real and uniform; an example counts if its label is reproduced to 1e-6. Everything is solved and measured in
float64, along the grids of `heads-regression` (n = 32) and `context-size` (H = 20, without n = 1). With a context per
example we stop at 30 heads, since 60 heads would mean solving 3,841 equations. The trained models are the ones that
decide the claims of those two studies.
"""

from __future__ import annotations

from functools import partial

from factrank.experiments.columns import label
from factrank.experiments.specs import DRAWN, Training, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memoriser import MemoriserShape, Tolerance
from factrank.families.memoriser.ranks import memoriser_capacity
from factrank.studies.mahdavi.context_size import context_growths, tokens_settings
from factrank.studies.mahdavi.growth import Growth
from factrank.studies.mahdavi.heads import REGRESSION, growths, heads_settings
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZE,
    CONTEXT_SIZES,
    HEADS,
    HEADS_OF_CONTEXTS,
    HELD,
    KIND_TEXT,
    KINDS,
    N_EXAMPLES,
    N_HEADS,
    N_TOKENS,
    OMEGA_H_N,
    OVER_REPLICATES,
    PAPER_BOUND,
    RANK,
    RECALL,
    START,
    TITLES,
    WHERE,
    WIDTH,
    Kind,
    Setting,
    source,
    trials_of,
)

BY_HEADS = growths("regression", REGRESSION)
BY_TOKENS = tuple(growth for growth in context_growths() if growth.task == "regression")
SEEDS = range(3)
MOST_HEADS_WITH_OWN = 30
EXACT = 1e-6
"""Tolerance for a reproduced label."""
SOLVED = Training(epochs=0, precision="float64")


def shapes(size: Size, kind: Kind) -> list[tuple[int, int]]:
    """Returns the (heads, tokens) pairs to solve."""
    most = MOST_HEADS_WITH_OWN if kind == "own" else max(HEADS[size])
    by_heads = [(n_heads, CONTEXT_SIZE[size]) for n_heads in HEADS[size] if n_heads <= most]
    by_tokens = [(HEADS_OF_CONTEXTS[size], n_tokens) for n_tokens in CONTEXT_SIZES[size] if n_tokens > 1]
    return list(dict.fromkeys([*by_heads, *by_tokens]))


def capacity(shape: MemoriserShape, context_size: int, kind: Kind) -> int:
    """Returns the largest number of examples that the closed form memorises."""
    n_contexts = 1 if kind == "shared" else None
    return memoriser_capacity(shape, context_size=context_size, d_input=shape.d_model, n_contexts=n_contexts)


def solved(size: Size) -> list[Trial]:
    """Returns each shape at the predicted number of examples, and with one more."""
    trials = []
    for kind in KINDS:
        for n_heads, context_size in shapes(size, kind):
            shape = MemoriserShape(n_heads, d_model=WIDTH[size], d_qk=WIDTH[size])
            most = capacity(shape, context_size, kind)
            for n_examples in (most, most + 1):
                for seed in SEEDS:
                    setting = Setting(size, "regression", kind, n_examples, n_heads, context_size, seed)
                    measures = (Tolerance(EXACT),)
                    trials.append(Trial(setting.examples(), shape, SOLVED, measures, "solved", seed))
    return trials


def trained(size: Size) -> list[Trial]:
    """Returns the trials that decide claims in the studies on heads and on the context size."""
    by_heads = [
        setting
        for growth in BY_HEADS
        for setting in heads_settings(size, "regression", growth.kind, REGRESSION[growth.kind][size])
        if setting.n_examples == growth.cells[size].n_examples and setting.n_heads in growth.cells[size].places
    ]
    by_tokens = [
        setting
        for growth in BY_TOKENS
        for setting in tokens_settings(size, "regression", growth.kind)
        if setting.n_examples == growth.cells[size].n_examples and setting.context_size in growth.cells[size].places
    ]
    return trials_of([*by_heads, *by_tokens])


def trials(size: Size) -> list[Trial]:
    """Returns the solved trials, then the trained ones."""
    return [*solved(size), *trained(size)]


AT_RANK: Where = ((START, "solved"), (f"{N_EXAMPLES} - {RANK}", 0))
ONE_MORE: Where = ((START, "solved"), (f"{N_EXAMPLES} - {RANK}", 1))
TRAINED: Where = ((START, DRAWN),)
OF_CONTEXTS: Where = (
    (N_HEADS, tuple(HEADS_OF_CONTEXTS.values())),
    (N_TOKENS, tuple(n for sizes in CONTEXT_SIZES.values() for n in sizes)),
)
ALONG: tuple[tuple[str, tuple[Growth, ...], Where], ...] = (
    ("heads", BY_HEADS, ((N_TOKENS, tuple(CONTEXT_SIZE.values())),)),
    ("tokens", BY_TOKENS, OF_CONTEXTS),
)
PLACE = "cf. the theorem"


def _summary(what: str, growth: Growth, along: Where) -> Summary:
    solved_rows = (*WHERE[growth.kind], *along, *AT_RANK)
    return Summary(
        f"memorised-by-{what}-{growth.kind}",
        f"Real labels memorised, solved and trained: {KIND_TEXT[growth.kind]}",
        (
            ("trained", Quantity("mean", HELD, where=(*growth.decided, *along, *TRAINED))),
            ("closed form", Quantity("mean", HELD, where=solved_rows)),
            ("H (min(n, d_h) - 1) + 1", Quantity("mean", PAPER_BOUND, where=solved_rows)),
        ),
        over=(growth.x,),
        y_title=label(HELD),
    )


ours = partial(Claim, place=PLACE, extension=True)


def _trained_over_solved(what: str, growth: Growth, along: Where) -> Claim:
    return ours(
        f"trained over solved by {what}, {growth.kind}",
        f"How many times as many examples training memorises as the closed form ({KIND_TEXT[growth.kind]}, by {what}).",
        Quantity("fraction", HELD, RANK, where=(*growth.decided, *along, *TRAINED)),
        None,
        note="Total number of examples memorised by trained models (N times the explained fraction of the variance) "
        f"over the total rank of their closed forms. Training changes the queries and keys too. {OVER_REPLICATES}",
    )


def _exactly(kind: Kind) -> tuple[Claim, Claim]:
    """Returns the claims that all examples are memorised at the rank, and not with one more."""
    return (
        Claim(
            f"all at the rank, {kind}",
            f"One solve memorises as many examples as the rank ({KIND_TEXT[kind]}).",
            Quantity("greatest", f"1 - {RECALL}", where=(*WHERE[kind], *AT_RANK)),
            "flat",
            tolerance=1e-9,
            by_construction="linear algebra: the equations are independent up to the rank",
            place="the theorem" if kind == "shared" else PLACE,
            quote=OMEGA_H_N if kind == "shared" else "",
            note="Largest fraction of labels that are not reproduced to 1e-6. "
            + (
                "With one context for all and d_h >= n the rank is the theorem's H (n - 1) + 1; that it is exact and "
                "found by one solve is our result."
                if kind == "shared"
                else "The rank is H d + 1, more than the theorem requires."
            ),
            extension=kind == "own",
        ),
        ours(
            f"not one more, {kind}",
            f"With one example more than the rank not all are memorised ({KIND_TEXT[kind]}).",
            Quantity("greatest", f"{RECALL} - 1", where=(*WHERE[kind], *ONE_MORE)),
            "less",
            by_construction="linear algebra: random labels beyond the rank contradict each other",
            note="Largest fraction of labels reproduced to 1e-6, minus 1. Queries and keys are random, not chosen; "
            "another choice, such as training makes, may do better.",
        ),
    )


CHARTS = tuple(
    Chart(
        f"at-the-rank-{kind}",
        f"Labels reproduced to 1e-6 at the rank and with one more example: {KIND_TEXT[kind]}",
        "lines",
        x=N_HEADS,
        y=RECALL,
        colour=f"{N_EXAMPLES} - {RANK}",
        where=(*WHERE[kind], (START, "solved"), (N_TOKENS, tuple(CONTEXT_SIZE.values()))),
    )
    for kind in KINDS
)

SUMMARIES = tuple(_summary(what, growth, along) for what, both, along in ALONG for growth in both)

CLAIMS = (
    *(claim for kind in ("shared", "own") for claim in _exactly(kind)),
    ours(
        "the paper's count is the rank, shared",
        "With one context for all H (min(n, d_h) - 1) + 1 is the rank of the closed form.",
        Quantity("mean", f"{RANK} - {PAPER_BOUND}", where=(*WHERE["shared"], *AT_RANK)),
        "flat",
        tolerance=1e-9,
        by_construction="the rank of random contexts has this formula",
        note="For d_h >= n and n <= d, as throughout this study.",
    ),
    ours(
        "the rank is more, own",
        "With a context for each example the closed form holds more than H (min(n, d_h) - 1) + 1.",
        Quantity("mean", f"{RANK} - {PAPER_BOUND}", where=(*WHERE["own"], *AT_RANK)),
        "greater",
        note="In examples: H d + 1 minus the paper's count, averaged over the grid.",
    ),
    *(_trained_over_solved(what, growth, along) for what, both, along in ALONG for growth in both),
)

CLOSED_FORM = Study(
    name="closed-form",
    title="Closed form against training",
    source=source(PLACE),
    question="How many examples does one linear solve memorise, is that exactly the predicted rank, and how many does "
    "training memorise in comparison?",
    method="Query-key weights are random and values are solved for in float64, with exactly as many examples as the "
    "rank of the features and with one more. We compare with the trained models of the studies on heads and on the "
    "context size, and with the paper's H (min(n, d_h) - 1) + 1.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
