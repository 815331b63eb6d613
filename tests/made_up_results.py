"""Results as training would give them, without training."""

from factrank.experiments.specs import Curve, EpochsTo
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import TrialResult
from factrank.families.attention.layer_shape import LayerShape

FACTS = generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=0)


PARTS = {
    "data": FACTS,
    "model": LayerShape(4, 1, 2, 2),
    "training": Training(epochs=100),
    "measures": (Curve((0, 50)), EpochsTo()),
}


def made_up_trial(seed, **changes):
    return Trial(**(PARTS | changes), seed=seed)


def made_up_result(seed, *, recall=0.5, status="finished", **changes):
    """The numbers follow from the seed; `recall` says who wrote it."""
    return TrialResult(
        trial=made_up_trial(seed, **changes),
        status=status,
        epochs=100,
        metrics={"loss": seed / 7, "recall": recall, "recall_0.95": 0.25, "margin": -0.5, "median_margin": 0.125},
        curves={"epoch": [0, 50], "loss": [1.0 + seed, 0.5], "recall": [0.0, recall], "recall_0.95": [0.0, 0.25]},
        epochs_to={"recall": seed + 1, "recall_0.95": None},
        engine="fused",
        device="x86_64",
        width=8,
        seconds=0.25,
    )
