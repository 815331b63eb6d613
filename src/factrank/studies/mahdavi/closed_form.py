"""Closed form: how many examples are memorised by one linear solve, and how many by training, on the same grid?

Beyond the paper. With random query-key weights the readout is linear in the values, so that real labels are fitted by
one solve exactly where the matrix of features has full row rank. Its rank is known: with one context for all
H (n - 1) + 1, the paper's count where d_h >= n; with a context for each example H d + 1, whatever n > 1 is
(`factrank.families.memoriser.ranks.label_ranks`). Here it is solved at exactly that many examples, and at one more.

Labels are real and uniform; an example counts where its label is reproduced to 1e-6. Solved in float64 and measured in
it. Along the grid of `heads-regression` (n = 32) and of `context-size` (H = 20, without n = 1); with a context for each
example up to 30 heads, since the solve at 60 heads is one of 3,841 equations. Trained models beside them are those of
the two studies on which their claims are decided.
"""

from __future__ import annotations

from factrank.experiments.columns import label
from factrank.experiments.specs import Measures, Training, Trial
from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memoriser import MemoriserShape
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
"""How near a label has to be."""
SOLVED = Training(epochs=0, precision="float64")


def shapes(size: Size, kind: Kind) -> list[tuple[int, int]]:
    """The (heads, tokens) that are solved."""
    most = MOST_HEADS_WITH_OWN if kind == "own" else max(HEADS[size])
    by_heads = [(n_heads, CONTEXT_SIZE[size]) for n_heads in HEADS[size] if n_heads <= most]
    by_tokens = [(HEADS_OF_CONTEXTS[size], n_tokens) for n_tokens in CONTEXT_SIZES[size] if n_tokens > 1]
    return list(dict.fromkeys([*by_heads, *by_tokens]))


def capacity(shape: MemoriserShape, context_size: int, kind: Kind) -> int:
    """The most examples that the closed form memorises."""
    n_contexts = 1 if kind == "shared" else None
    return memoriser_capacity(shape, context_size=context_size, d_input=shape.d_model, n_contexts=n_contexts)


def solved(size: Size) -> list[Trial]:
    """Each shape at the predicted number of examples, and with one more."""
    trials = []
    for kind in KINDS:
        for n_heads, context_size in shapes(size, kind):
            shape = MemoriserShape(n_heads, d_model=WIDTH[size], d_qk=WIDTH[size], start="solved")
            most = capacity(shape, context_size, kind)
            for n_examples in (most, most + 1):
                for seed in SEEDS:
                    setting = Setting(size, "regression", kind, n_examples, n_heads, context_size, seed)
                    measures = Measures(tolerance=EXACT)
                    trials.append(Trial(setting.examples(), shape, SOLVED, seed=seed, measures=measures))
    return trials


def trained(size: Size) -> list[Trial]:
    """What decides claims in the studies on heads and on the context size, as these train it."""
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
    """Solved, then trained."""
    return [*solved(size), *trained(size)]


AT_RANK: Where = ((START, "solved"), (f"{N_EXAMPLES} - {RANK}", 0))
ONE_MORE: Where = ((START, "solved"), (f"{N_EXAMPLES} - {RANK}", 1))
TRAINED: Where = ((START, "random"),)
OF_CONTEXTS: Where = (
    (N_HEADS, tuple(HEADS_OF_CONTEXTS.values())),
    (N_TOKENS, tuple(n for sizes in CONTEXT_SIZES.values() for n in sizes)),
)
ALONG: tuple[tuple[str, tuple[Growth, ...], Where], ...] = (
    ("heads", BY_HEADS, ((N_TOKENS, tuple(CONTEXT_SIZE.values())),)),
    ("tokens", BY_TOKENS, OF_CONTEXTS),
)
PLACE = "beside the theorem"


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


def _trained_over_solved(what: str, growth: Growth, along: Where) -> Claim:
    return Claim(
        f"trained over solved by {what}, {growth.kind}",
        f"How many times as many examples training memorises as the closed form ({KIND_TEXT[growth.kind]}, by {what}).",
        Quantity("fraction", HELD, RANK, where=(*growth.decided, *along, *TRAINED)),
        None,
        place=PLACE,
        note="The sum of examples memorised by trained models (N times the explained share of the variance) over the "
        f"sum of their closed forms' ranks. Training changes the queries and keys too. {OVER_REPLICATES}",
        extension=True,
    )


def _exactly(kind: Kind) -> tuple[Claim, Claim]:
    """All at the rank, and not one more."""
    return (
        Claim(
            f"all at the rank, {kind}",
            f"One solve memorises as many examples as the rank ({KIND_TEXT[kind]}).",
            Quantity("greatest", f"1 - {RECALL}", where=(*WHERE[kind], *AT_RANK)),
            "flat",
            tolerance=1e-9,
            place="the theorem" if kind == "shared" else PLACE,
            quote=OMEGA_H_N if kind == "shared" else "",
            note="The share of labels that are not reproduced to 1e-6, where it is greatest. "
            + (
                "With one context for all and d_h >= n the rank is the theorem's H (n - 1) + 1; that it is exact and "
                "found by one solve is ours."
                if kind == "shared"
                else "The rank is H d + 1, more than the theorem asks for."
            ),
            extension=kind == "own",
        ),
        Claim(
            f"not one more, {kind}",
            f"With one example more than the rank not all are memorised ({KIND_TEXT[kind]}).",
            Quantity("greatest", f"{RECALL} - 1", where=(*WHERE[kind], *ONE_MORE)),
            "less",
            place=PLACE,
            note="The share of labels reproduced to 1e-6 less 1, where it is greatest. Queries and keys are drawn, not "
            "chosen: another choice, as by training, may do more.",
            extension=True,
        ),
    )


CHARTS = tuple(
    Chart(
        f"at-the-rank-{kind}",
        f"Labels reproduced to 1e-6 at the rank, and with one example more: {KIND_TEXT[kind]}",
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
    Claim(
        "the paper's count is the rank, shared",
        "With one context for all H (min(n, d_h) - 1) + 1 is the rank of the closed form.",
        Quantity("mean", f"{RANK} - {PAPER_BOUND}", where=(*WHERE["shared"], *AT_RANK)),
        "flat",
        tolerance=1e-9,
        place=PLACE,
        note="For d_h >= n and n <= d, as everywhere here.",
        extension=True,
    ),
    Claim(
        "the rank is more, own",
        "With a context for each example the closed form holds more than H (min(n, d_h) - 1) + 1.",
        Quantity("mean", f"{RANK} - {PAPER_BOUND}", where=(*WHERE["own"], *AT_RANK)),
        "greater",
        place=PLACE,
        note="Examples: H d + 1 less the paper's count, averaged over the grid.",
        extension=True,
    ),
    *(_trained_over_solved(what, growth, along) for what, both, along in ALONG for growth in both),
)

CLOSED_FORM = Study(
    name="closed-form",
    title="Closed form against training",
    source=source(PLACE),
    question="How many examples does one linear solve memorise, is that exactly the predicted rank, and how many does "
    "training memorise beside it?",
    method="Query-key weights are drawn and values solved for in float64, at exactly as many examples as the rank of "
    "the features and at one more. Beside them stand the trained models of the studies on heads and on the context "
    "size, and the paper's H (min(n, d_h) - 1) + 1.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
