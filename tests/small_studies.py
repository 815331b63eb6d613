"""Small studies, and a process that runs one of them until it ends or is killed."""

from functools import cache

from factrank.experiments.execution import runner
from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.experiments.study.study import Study
from factrank.families.attention.layer_shape import LayerShape

NOT_THE_SAME = ["seconds"]
"""The columns in which a repeated run differs."""


def study_of(trials, name="small", **parts):
    return Study(name, "A small study", None, "Does it run?", "It is run.", lambda _: list(trials), **parts)


@cache
def trials_listed(study, size):
    """The trials of a study of the catalogue; `Study.trials_of` also computes their hashes, which takes longer."""
    return study.trials(size)


def columns_named(study):
    """The table and the columns of each chart, summary and part of a claim."""
    parts = [(part.data, part.columns) for part in (*study.charts, *study.summaries)]
    return parts + [(claim.data, part.columns) for claim in study.claims for part in claim.quantity.parts]


def facts(seed=0, **sizes):
    return generated("uniform", **{"n_keys": 8, "n_queries": 4, "n_values": 6, "seed": seed, **sizes})


def fused_trials(n, epochs=40, **options):
    training = Training(epochs=epochs, engine="fused")
    return [
        Trial(facts(seed // 3), LayerShape(5, 1, 2, 1 + seed % 3), training, seed=seed, **options) for seed in range(n)
    ]


def lanes_trials(n, epochs=12, width=2):
    training = Training(epochs=epochs, engine="lanes")
    return [Trial(facts(), LayerShape(4, 1, 2, width), training, seed=seed) for seed in range(n)]


def sixty_trials():
    """About 3 seconds on two cores."""
    training = Training(epochs=12_000, engine="fused")
    return [
        Trial(facts(seed), LayerShape(6, 1, 2, 1 + seed % 6), training, measures=Curve((0, 500)), seed=seed)
        for seed in range(60)
    ]


def same_table(first, second):
    """Whether two stores hold the same rows, curves and readings, bit for bit, but for times."""
    tables = [store.trials().drop_columns(NOT_THE_SAME) for store in (first, second)]
    same_readings = first.readings().equals(second.readings())
    return tables[0].equals(tables[1]) and first.curves().equals(second.curves()) and same_readings


class _Begun:
    """Tells once that epochs go by."""

    def __init__(self, ready):
        self.ready, self.told = ready, False

    def update(self, models_done, n_models, model_epochs, n_model_epochs):
        if model_epochs and not self.told:
            self.told = True
            self.ready.send("trains")


def run_sixty(folder, ready):
    """In a process of its own: says when it trains, and stores what has ended every 20 ms."""
    runner.PART_SECONDS = 0.02
    summary = runner.run_study(study_of(sixty_trials()), "quick", Store(folder), meter=_Begun(ready))
    ready.send(summary.n_failed)
