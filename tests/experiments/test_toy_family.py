"""A family in one file: lookup tables, which the package has never heard of, trained, measured, stored, judged."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from factrank import Chart, Claim, Quantity, Store, Study, Training, Trial, generated, run_study, train_many
from factrank.errors import InputError
from factrank.experiments.columns.labels import label
from factrank.experiments.family import Family, Measure, Work
from factrank.experiments.registry import registered_family
from factrank.experiments.study.chart_records import chart_records
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_tables
from factrank.nn.part_arrays import require_same_parts, to_jax


@dataclass(frozen=True)
class TableShape:
    start: float = 0.0


class LookupTable(eqx.Module):
    logits: Float[Array, "keys queries values"]


@dataclass(frozen=True, eq=False)
class LookupTask:
    trial: Trial
    database: object

    @property
    def signature(self):
        return "lookup", self.database.shape

    @property
    def frozen(self):
        return self.trial.training.frozen

    def init(self, rng):
        drawn = rng.standard_normal(self.database.shape) * self.trial.model.start
        return LookupTable(drawn.astype(np.float32))

    def data(self):
        return dict(zip(("keys", "queries", "values"), self.database.triples.T.astype(np.int32), strict=True))

    def batches(self, data, key, epoch):
        return jnp.zeros((1, 0))

    def loss(self, model, data, batch):
        return self.check(model, data)["loss"]

    def check(self, model, data):
        logits = model.logits[data["keys"], data["queries"]]
        own = jnp.take_along_axis(logits, data["values"][:, None], axis=1)[:, 0]
        right = logits.argmax(axis=1) == data["values"]
        loss = (jax.nn.logsumexp(logits, axis=1) - own).mean()
        return {"loss": loss, "recall": right.mean(), "sharpness": jnp.abs(logits).max()}

    measure = check

    def exact(self, numbers):
        return numbers

    def finish(self, model, numbers):
        return model, {"cells": float(model.logits.size)}, []


class LookupFamily(Family):
    name = "lookup"
    models = {"lookup_table": TableShape}  # noqa: RUF012
    measures = (Measure("sharpness", "largest logit"), Measure("cells", "cells of the table"))

    def task(self, trial, data):
        return LookupTask(trial, data)

    def work(self, trial, data):
        n_cells = int(np.prod(data.shape))
        return Work(parameters=n_cells, products=n_cells, numbers=n_cells)

    def sizes(self, model):
        return model.logits.shape

    def from_parts(self, spec, sizes, parts):
        require_same_parts({"logits": sizes}, parts)
        return LookupTable(**to_jax(parts))


@pytest.fixture(autouse=True)
def lookup_tables():
    """Known for the time of a test."""
    with registered_family(LookupFamily()) as family:
        yield family


def trials(size="quick"):
    facts = [generated("uniform", n_keys=4, n_queries=3, n_values=5, seed=seed) for seed in range(3)]
    training, starts = Training(epochs=60, learning_rate=0.1), (0.0, 0.5)
    return [
        Trial(facts[seed], TableShape(one), training, seed, curve_epochs=(0, 60)) for seed in range(3) for one in starts
    ]


CHART = Chart("cells", "Recall of tables", "lines", x="model.start", y="recall")
CLAIM = Claim("holds", "a table recalls every fact", Quantity("mean", "recall"), published="greater")
STUDY = Study("lookup", "Lookup tables", None, "Do tables hold facts?", "", trials, charts=(CHART,), claims=(CLAIM,))


def test_a_lookup_table_is_trained_in_lanes_beside_others():
    results = train_many(trials())
    assert [(result.engine, result.width, result.recall) for result in results] == [("lanes", 8, 1.0)] * 6
    for trial, result in zip(trials()[::5], results[::5], strict=True):
        (alone,) = train_many([trial])
        np.testing.assert_allclose(alone.weights.logits, result.weights.logits, atol=1e-6)
    assert Trial.from_dict(trials()[0].to_dict()) == trials()[0]


def test_it_is_stored_charted_and_claimed_about(tmp_path):
    store = Store(tmp_path)
    assert run_study(STUDY, "full", store).n_ended == 6
    tables = study_tables(STUDY, "full", store.tables())
    assert [verdict.status for _, verdict in results_of(STUDY, "full", tables).judged] == ["reproduced"]
    assert set(tables.trials["cells"].to_pylist()) == {60.0}
    assert [record["x"] for record in chart_records(CHART, tables).rows] == [0.0, 0.5]
    assert label("sharpness") == "largest logit"


def test_its_weights_are_kept(tmp_path):
    store, (result,) = Store(tmp_path), train_many(trials()[1:2])
    store.append([result], [], keep_weights=True)
    assert np.array_equal(store.weights(result.trial.hash).logits, result.weights.logits)


def test_it_has_no_engine_of_its_own():
    with pytest.raises(InputError, match=r"has no training\.engine 'fused'"):
        train_many([Trial(trials()[0].database, TableShape(), Training(engine="fused"))])
