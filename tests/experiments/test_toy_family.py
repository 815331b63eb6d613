"""A family in one file: lookup tables, which the package has never heard of, trained, measured, stored, judged.

It has a measure, a start and a presentation of its own.
"""

import json
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
from factrank.experiments.family import Family, Work
from factrank.experiments.registry import registered_family
from factrank.experiments.specs import Curve, Measure, Presentation, ResultColumn
from factrank.experiments.study.chart_records import chart_records
from factrank.experiments.study.study_files import load_study
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_tables
from factrank.families.attention import LayerShape, Ranks
from factrank.nn.part_arrays import require_same_parts, to_jax


@dataclass(frozen=True)
class TableShape:
    spread: float = 0.0


@dataclass(frozen=True)
class LargeLogits(Measure):
    """The cells with a logit above a threshold."""

    above: float
    columns = (ResultColumn("large_logits", "large logits", "cells"),)


@dataclass(frozen=True)
class TaughtFacts(Presentation):
    """Facts of which the first one counts so many times in the loss."""

    first: int = 1


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
        logits = rng.standard_normal(self.database.shape) * self.trial.model.spread
        if self.trial.start == "known":
            logits[tuple(self.database.triples.T)] += 5
        return LookupTable(logits.astype(np.float32))

    def data(self):
        weights = np.ones(len(self.database), np.float32)
        weights[0] = TaughtFacts.of(self.trial.data).first
        codes = zip(("keys", "queries", "values"), self.database.triples.T.astype(np.int32), strict=True)
        return {**dict(codes), "weights": weights / weights.sum()}

    def batches(self, data, key, epoch):
        return jnp.zeros((1, 0))

    def loss(self, model, data, batch):
        return self.check(model, data)["loss"]

    def check(self, model, data):
        logits = model.logits[data["keys"], data["queries"]]
        own = jnp.take_along_axis(logits, data["values"][:, None], axis=1)[:, 0]
        right = logits.argmax(axis=1) == data["values"]
        loss = (data["weights"] * (jax.nn.logsumexp(logits, axis=1) - own)).sum()
        return {"loss": loss, "recall": right.mean(), "sharpness": jnp.abs(logits).max()}

    measure = check

    def exact(self, numbers):
        return numbers

    def finish(self, model, numbers):
        asked = self.trial.measure(LargeLogits)
        large = {} if asked is None else {"large_logits": float((model.logits > asked.above).sum())}
        return model, {"cells": float(model.logits.size), **large}, []


class LookupFamily(Family):
    name = "lookup"
    models = {"lookup_table": TableShape}  # noqa: RUF012
    data = {"taught_facts": TaughtFacts}  # noqa: RUF012
    presentation = TaughtFacts
    starts = ("known",)
    measures = {"large_logits": LargeLogits}  # noqa: RUF012
    columns = (ResultColumn("sharpness", "largest logit"), ResultColumn("cells", "cells of the table"))

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
    parts = {"training": Training(epochs=60, learning_rate=0.1), "measures": Curve((0, 60))}
    return [Trial(facts[seed], TableShape(one), **parts, seed=seed) for seed in range(3) for one in (0.0, 0.5)]


CHART = Chart("cells", "Recall of tables", "lines", x="model.spread", y="recall")
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


def test_its_own_measure_start_and_presentation(tmp_path):
    facts, quiet = trials()[0].data, Training(epochs=0)
    known = Trial(facts, TableShape(), quiet, LargeLogits(4.0), start="known")
    drawn = Trial(facts, TableShape(), quiet, LargeLogits(4.0))
    taught, even = (Trial(TaughtFacts(facts, first), TableShape(0.5), quiet) for first in (10**6, 1))
    assert (even.data, taught.source) == (facts, facts)
    for trial in (known, taught):
        assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial
    store, results = Store(tmp_path), train_many([known, drawn, taught, even])
    assert [result.recall for result in results[:1]] == [1.0]
    assert [result.metrics["large_logits"] for result in results[:2]] == [len(facts.build()), 0.0]
    first = facts.build().triples[0]
    logits = np.asarray(results[2].weights.logits, np.float64)[first[0], first[1]]
    assert results[2].metrics["loss"] == pytest.approx(np.logaddexp.reduce(logits) - logits[first[2]], abs=1e-4)
    assert results[2].metrics["loss"] != pytest.approx(results[3].metrics["loss"], abs=1e-4)
    store.append(results)
    rows = {row["hash"]: row for row in store.trials().to_pylist()}
    assert [rows[trial.hash]["data.first"] for trial in (known, taught)] == [1, 10**6]
    assert [rows[trial.hash]["start"] for trial in (known, drawn)] == ["known", "drawn"]
    assert label("large_logits") == "large logits"


def test_it_has_nothing_of_other_families_and_they_have_nothing_of_it():
    facts = trials()[0].data
    for parts, message in (
        ({"measures": Ranks()}, "a TableShape has no measure Ranks; it has Curve, EpochsTo, LargeLogits, TauRecall"),
        ({"start": "zero"}, "start of a TableShape must be one of drawn, known; got 'zero'"),
        (
            {"training": Training(stop="recall_sequences")},
            "stop of a TableShape must be one of never, recall, recall_tau; got",
        ),
    ):
        with pytest.raises(InputError, match=message):
            Trial(facts, TableShape(), **parts)
    layer = LayerShape(4, 1, 2, 2)
    for parts, message in (
        ({"data": facts, "measures": LargeLogits(1.0)}, "a LayerShape has no measure LargeLogits"),
        ({"data": facts, "start": "known"}, "start of a LayerShape must be one of drawn; got 'known'"),
        ({"data": TaughtFacts(facts, 2)}, "a LayerShape reads facts; got TaughtFacts"),
    ):
        with pytest.raises(InputError, match=message):
            Trial(model=layer, **parts)


def test_a_study_in_a_file_speaks_of_it(tmp_path):
    path = tmp_path / "tables.yaml"
    path.write_text(
        "name: tables\ndata: {generator: unit, n: 3, first: 2}\nmodel: {kind: lookup_table, spread: 0.5}\n"
        "measures: {large_logits: {above: 1}}\nstart: known\ngrid: {data.first: [1, 3]}\n"
    )
    facts, rest = generated("unit", n=3), {"measures": LargeLogits(1.0), "start": "known"}
    expected = [Trial(data, TableShape(0.5), **rest) for data in (facts, TaughtFacts(facts, 3))]
    assert load_study(path).trials_of("full") == expected


def test_its_weights_are_kept(tmp_path):
    store, (result,) = Store(tmp_path), train_many(trials()[1:2])
    store.append([result], [], keep_weights=True)
    assert np.array_equal(store.weights(result.trial.hash).logits, result.weights.logits)


def test_it_has_no_engine_of_its_own():
    with pytest.raises(InputError, match=r"has no training\.engine 'fused'"):
        train_many([Trial(trials()[0].data, TableShape(), Training(engine="fused"))])
