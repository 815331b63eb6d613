"""A small paper of two studies, with results as training would give them."""

from dataclasses import replace

from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.study.study import Chart, Source, Study
from factrank.families.attention import Readings
from factrank.families.attention.layer_shape import LayerShape
from made_up_results import made_up_result

WIDTHS, TAUS = (1, 2, 3, 4), (0.5, 0.95)
SEEDS = {"quick": range(3), "full": range(10)}


def facts(seed):
    return generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=seed)


def widths(size):
    return [Trial(facts(seed), LayerShape(4, 1, 2, d_vo), seed=seed) for d_vo in WIDTHS for seed in SEEDS[size]]


def read(size):
    measures = (Readings(taus=TAUS, ranks=True), Curve((0, 50)))
    return [Trial(facts(seed), LayerShape(4, 1, 2, 2), measures=measures, seed=seed) for seed in SEEDS[size]]


QUOTE = 'recall *rises* with d_vo, "always" [3]'
RISES = Quantity("slope", "recall", "model.d_vo")
RANK = Quantity("mean", "upper", where=(("tau", 0.5),), minus=Quantity("mean", "upper", where=(("tau", 0.95),)))

PAPER = (
    Study(
        "widths",
        "Widths | and recall",
        Source("Somebody 2025", "Figure 1", "https://example.org"),
        "Does recall rise?",
        "Layers are made up.",
        widths,
        charts=(
            Chart("lines", "Recall by [width]", "lines", "model.d_vo", "recall"),
            Chart("heat", "Recall of every shape", "heatmap", "model.d_vo", "seed", "recall"),
            Chart("points", "Recall against loss", "points", "loss", "recall", "loss"),
        ),
        claims=(
            Claim(
                "rises", "Recall rises.", RISES, "rises", place="Figure 1", quote=QUOTE, note="d_qk is\nfixed <here>."
            ),
            Claim("falls", "Recall falls | really.", RISES, "falls"),
            Claim("half", "Recall is -0.5.", Quantity("mean", "recall"), -0.5, tolerance=0.01),
            Claim("slope", "How fast?", RISES, None),
            Claim(
                "ours",
                "Recall of d_vo 4.",
                Quantity("mean", "recall", where=(("model.d_vo", 4),)),
                0.45,
                tolerance=0.001,
                extension=True,
            ),
            Claim("nobody", "No trial is so.", Quantity("mean", "recall", where=(("model.d_vo", 9),)), "greater"),
        ),
        summaries=(
            Summary("by-width", "Recall", (("mean", Quantity("mean", "recall")),), ("model.d_vo",)),
            Summary("all", "All", (("a, b=1", RISES), ("lost", Quantity("mean", "unknown"))), ()),
        ),
        fits=(Fit("line", "A line", "by-width", ("1", "model.d_vo")),),
    ),
    Study(
        "readouts",
        "Readouts",
        None,
        "Does the rank fall with tau?",
        "They are read.",
        read,
        charts=(Chart("curve", "Loss", "lines", "epoch", "loss", data="curves"),),
        claims=(Claim("ranks fall", "The rank falls.", RANK, "greater", data="readings"),),
        summaries=(
            Summary("ranks", "Ranks", (("upper", Quantity("mean", "upper")),), ("precision", "tau"), data="readings"),
        ),
    ),
)


def recall_of(trial):
    return 0.1 * trial.model.d_vo + 0.01 * (trial.seed % 5)


def result_of(trial):
    """The numbers follow from the trial."""
    made_up = made_up_result(trial.seed, recall=recall_of(trial))
    asked = trial.measure(Readings)
    readings = [
        {
            "precision": "float32",
            "temperature": 1.0,
            "tau": tau,
            "recall": 0.5,
            "upper": 10 * (1 - tau) + trial.seed % 3,
        }
        for tau in (asked.taus if asked else ())
    ]
    metrics = made_up.metrics | {"loss": (1 + trial.seed) / (1 + trial.model.d_vo)}
    curves = made_up.curves if trial.curve_epochs else {}
    return replace(made_up, trial=trial, metrics=metrics, readings=readings, curves=curves, epochs_to={})


def fill(store, size="full", studies=PAPER):
    """Store the results of all trials."""
    for study in studies:
        store.append([result_of(trial) for trial in study.trials_of(size)])
    return store
