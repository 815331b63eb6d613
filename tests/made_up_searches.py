"""An engine that trains nothing: recall follows from the number of keys; it can fail, diverge and be interrupted."""

from dataclasses import dataclass, field
from functools import partial

from factrank.experiments.capacity.capacity_interval import Criterion
from factrank.experiments.capacity.capacity_search import CapacitySearch
from factrank.experiments.execution.outcomes import Failure
from factrank.experiments.execution.runner import run_study
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.study.study import Chart, Study, no_trials
from factrank.experiments.training import TrialResult
from factrank.families.attention.layer_shape import LayerShape

RATES = (0.01, 0.03)


def family(n_keys, seed=0, width=2, rates=RATES):
    """Trials of so many keys, one per learning rate."""
    facts = generated("uniform", n_keys=n_keys, n_queries=1, n_values=4, seed=seed)
    shape = LayerShape(d_model=width, n_heads=1, d_qk=1, d_vo=1)
    return [Trial(facts, shape, Training(epochs=5, learning_rate=rate), seed=seed) for rate in rates]


def keys_of(trial):
    return dict(trial.data.arguments)["n_keys"]


def threshold(trial):
    """Wider layers hold more keys; the second learning rate finds fewer."""
    return 10 * trial.model.d_model + trial.seed - 5 * (trial.training.learning_rate == RATES[1])


def result_of(trial, status="finished"):
    n_keys, held = keys_of(trial), threshold(trial)
    recall = 1.0 if n_keys <= held else held / n_keys
    metrics = {"loss": 0.5, "recall": recall, "margin": 0.0, "facts": float(n_keys), "parameters": 100.0}
    return TrialResult(trial, status, 5, metrics, engine="fused", device="none", width=1, seconds=0.1)


@dataclass
class FakeExecutor:
    """Answers at once; `spoilt` maps a trial to "failed" or "diverged", `after` is when Ctrl-C comes."""

    spoilt: object = staticmethod(lambda trial: None)
    after: int | None = None
    keep_weights: bool = False
    ran: list = field(default_factory=list)
    """The trials of each call."""

    def run(self, bundles, wanted, databases, recorder):
        self.ran.append([])
        for bundle in bundles:
            for trial in bundle.trials:
                if trial.hash not in wanted:
                    continue
                if self.after is not None and sum(map(len, self.ran)) >= self.after:
                    raise KeyboardInterrupt
                self.ran[-1].append(trial)
                spoilt = self.spoilt(trial)
                failed = spoilt == "failed"
                recorder.take(Failure(trial, "no memory") if failed else result_of(trial, spoilt or "finished"))

    @property
    def hashes(self):
        return [trial.hash for part in self.ran for trial in part]


def searches(widths=(2, 4), seeds=3, **options):
    options = {"guess": 16, "resolution": 1, "criterion": Criterion("recall", 1.0), **options}
    return [
        CapacitySearch(f"width {width}, seed {seed}", partial(family, seed=seed, width=width), **options)
        for width in widths
        for seed in range(seeds)
    ]


def study_with(found, trials=no_trials, **parts):
    return Study("search", "A search", None, "How many?", "They are tried.", trials, searches=lambda _: found, **parts)


CAPACITY = (("keys", Quantity("mean", "lower")),)
PARTS = {
    "charts": (Chart("lines", "Capacity", "lines", "model.d_model", "lower", data="searches"),),
    "claims": (
        Claim("rises", "It rises.", Quantity("slope", "lower", "model.d_model"), "rises", data="searches"),
        Claim("log", "N log N.", Quantity("mean", "lower * log_lower / facts"), None, data="searches"),
    ),
    "summaries": (Summary("by-width", "Capacity by width", CAPACITY, ("model.d_model",), data="searches"),),
    "fits": (Fit("line", "A line", "by-width", ("1", "model.d_model")),),
}


def run(study, store, executor=None, **options):
    return run_study(study, "quick", store, executor=executor or FakeExecutor(), **options)
