"""A made-up study of few trials, and tables of results for it."""

import pyarrow as pa

from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.store.columns import trial_columns, versions
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study import Chart, Source, Study
from factrank.families.attention.layer_shape import LayerShape

RUN = {"status": "finished", "error": None, "engine": "fused", "device": "x86_64", "width": 1, "seconds": 0.5}


def trials(size):
    return [
        Trial(
            generated("uniform", n_keys=4, n_queries=n_queries, n_values=4, seed=seed),
            LayerShape(8, 1, d_qk, d_vo),
            measures=Curve((0, 100)),
            seed=seed,
        )
        for n_queries in ((3,) if size == "quick" else (3, 4))
        for d_vo in (1, 2, 3)
        for d_qk in (1, 2)
        for seed in range(3)
    ]


CHARTS = (
    Chart("heat", "Heat", "heatmap", "model.d_vo", "model.d_qk", "recall", "data.n_queries"),
    Chart("lines", "Lines", "lines", "model.d_vo", "recall", "model.d_qk", x_title="width"),
    Chart("plain", "Plain lines", "lines", "model.d_vo + model.d_qk", "recall", where=(("seed", 0),)),
    Chart("points", "Points", "points", "loss", "recall", "model.kind", log_x=True),
    Chart("bars", "Bars", "bars", "model.d_vo", "recall", "model.d_qk"),
    Chart("curves", "Curves", "lines", "epoch", "loss", "model.d_vo", data="curves"),
)
MEAN = Quantity("mean", "recall")
SUMMARIES = (
    Summary("means", "Means by shape", (("recall", MEAN),), ("model.d_vo", "model.d_qk")),
    Summary(
        "two",
        "Two quantities",
        (("mean recall", MEAN), ("slope", Quantity("slope", "recall", "model.d_qk"))),
        ("model.d_vo", "data.n_queries"),
        log_x=True,
    ),
)
FITS = (Fit("line", "A straight line", "means", ("1", "model.d_vo")),)
CLAIMS = (
    Claim("rises", "It rises.", Quantity("slope", "recall", "model.d_vo"), "rises", place="Figure 1"),
    Claim("falls", "It falls.", Quantity("slope", "recall", "model.d_vo"), "falls", quote="down it goes"),
    Claim("half", "It is a half.", Quantity("mean", "recall"), 0.5, 0.1, note="A note."),
    Claim("open", "Nobody says what it is.", Quantity("greatest", "recall"), None),
)


def made_study(text="Plain", **changes):
    fields = {
        "name": "made-up",
        "title": f"Title {text}",
        "source": Source(f"Paper {text}", f"Figure {text}", "https://example.org/?a=1&b=2"),
        "question": f"Question {text}",
        "method": f"Method {text}",
        "trials": trials,
        "charts": CHARTS,
        "claims": CLAIMS,
        "summaries": SUMMARIES,
        "fits": FITS,
    }
    return Study(**(fields | changes))


def made_table(size="quick", change=lambda at, row: row):
    rows = []
    for at, trial in enumerate(trials(size)):
        numbers = {"recall": 0.2 * trial.model.d_vo + 0.01 * trial.seed, "loss": 1 / (1 + at), "epochs": 100}
        rows.append(change(at, {**trial_columns(trial), **RUN, **versions(), **numbers}))
    return pa.Table.from_pylist([{name: row.get(name) for row_ in rows for name in row_} for row in rows])


def made_curves(size="quick"):
    rows = [
        {"hash": trial.hash, "epoch": epoch, "loss": 1.0 / (1 + epoch), "recall": 0.0}
        for trial in trials(size)
        for epoch in (0, 100)
    ]
    return pa.Table.from_pylist([*rows, {"hash": "of another study", "epoch": 7, "loss": 9.0, "recall": 0.0}])


EMPTY = pa.table({})


DRAWN = len(CHARTS) + len(SUMMARIES)


def made(size="quick", change=lambda at, row: row, curves=True):
    """Tables of the study, as a store would give them."""
    return Tables(made_table(size, change), made_curves(size) if curves else EMPTY, EMPTY)


def only(trials, curves=EMPTY):
    return Tables(trials, curves, EMPTY)
