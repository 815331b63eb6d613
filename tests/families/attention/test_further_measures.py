"""What is measured on the host after training: the right numbers under the right names, and only where asked for."""

import sys
from dataclasses import replace
from math import isnan, nan
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import disjoint, uniform
from factrank.errors import InputError
from factrank.experiments.specs import TauRecall
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train, train_many
from factrank.families.attention import Additive, Hallucinations, PlantedCP, Ranks, Readings
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.circuits import attribution
from factrank.families.attention.further_measures import further_measures
from factrank.families.attention.fused.fused_engine import platform_of
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer, shared_rows
from factrank.readouts.database_ranks import certified_ranks
from factrank.readouts.reading import readings_of
from factrank.tensors.cp import planted

LAYER = LayerShape(d_model=6, n_heads=2, d_qk=2, d_vo=2)
SPARSE = uniform(6, 4, 5, n_facts=14, seed=0)
READ = ("precision", "temperature", "tau")
RECALLS = {"loss": 0.5, "recall": 1.0, "recall_0.9": 0.5, "recall_0.5": 1.0, "recall_0.95": 0.0}
TAUS, READINGS = TauRecall((0.9, 0.5)), Readings((0.5, 0.9), (0.5, 1.0))
EVERYTHING_ELSE = TAUS, Ranks(), Additive(), PlantedCP(0.05), Hallucinations()


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    """A search for the rank takes seconds: here it finds the number of facts."""
    monkeypatch.setattr(planted, "planted_rank", lambda database, tolerance: (float(len(database)), tolerance / 2))


def trial_of(database, model=LAYER, **options):
    return Trial(Given(database.fingerprint), model, **options)


def unequal(first, second):
    """The names under which two dictionaries differ; NaN equals NaN."""
    return {name for name in first.keys() | second.keys() if repr(first.get(name)) != repr(second.get(name))}


@pytest.mark.parametrize("engine", ["fused", "lanes"])
def test_everything_comes_out_under_its_name(engine):
    training = Training(epochs=60, engine=engine, score_scale=1.5)
    bare, full = (train(SPARSE, LAYER, training, measures=one) for one in (TAUS, (*EVERYTHING_ELSE, READINGS)))
    assert bare.readings == []
    assert unequal(bare.metrics, full.metrics) == {
        *certified_ranks(SPARSE),
        *("facts", "layer_rank", "parameters", "memorised", "memorised_0.9", "memorised_0.5"),
        *("predicted_2.0", "predicted_2.6", "predicted_3.6"),
        *("violates", "memorised_rank", "hallucinations_0.9", "hallucinations_0.5", "silent_fibers"),
        *("additive_share", "direct_alone", "heads_alone", "cp_rank", "cp_residual"),
    }
    expected = certified_ranks(SPARSE) | attribution.additive_numbers(full.model, SPARSE)
    assert unequal(expected, {name: full.metrics[name] for name in expected}) == set()
    assert (full.metrics["facts"], full.metrics["silent_fibers"]) == (14, 10)
    assert (full.metrics["cp_rank"], full.metrics["cp_residual"]) == (14, 0.025)
    assert full.metrics["parameters"] == sum(leaf.size for leaf in jax.tree.leaves(full.weights))
    assert repr(full.readings) == repr(readings_of(full.weights, SPARSE, READINGS, expected["rank_lower"]))
    settings = [tuple(row[name] for name in READ) for row in full.readings]
    assert settings == [("float32", temperature, tau) for temperature in (0.5, 1.0) for tau in (0.5, 0.9)]
    assert [row["recall"] for row in full.readings[2:]] == [full.metrics["recall_0.5"], full.metrics["recall_0.9"]]


def test_a_layer_that_holds_more_than_its_rank_violates_the_conjecture():
    """Where queries share no value the rank is the number of values; that of a layer is at most min(K, Q) c + rho."""
    database = disjoint(8, 3, 4, seed=0)
    rank = len(set(database.triples[:, 2].tolist()))
    narrow, wide = LayerShape(1, 1, 1, 1), LayerShape(12, 1, 1, 12)
    for shape in (narrow, wide):
        layer_rank = layer_rank_bounds(shape, *database.shape).upper.value
        assert (layer_rank < rank) == (shape is narrow)
        for recall in (1.0, 0.875):
            trial = trial_of(database, shape, measures=(TAUS, Ranks()))
            model = init_layer(shape, *database.shape, key=0)
            numbers, readings = further_measures(trial, database, model, {**RECALLS, "recall": recall})
            assert readings == []
            assert numbers["rank_lower"] == numbers["rank_upper"] == rank
            assert numbers["layer_rank"] == layer_rank
            assert numbers["memorised"] == (recall == 1)
            assert (numbers["memorised_0.9"], numbers["memorised_0.5"]) == (0, 1)
            assert numbers["violates"] == (recall == 1 and layer_rank < rank)
            assert numbers["memorised_rank"] == (rank if recall == 1 else 0)


@pytest.mark.parametrize(
    ("options", "known"), [({"share_tokens": True, "positions": True}, True), ({"mlp_width": 4, "n_layers": 2}, False)]
)
def test_models_without_a_bound_have_no_rank(options, known):
    database = Database.from_facts([("a", "p", "x"), ("b", "p", "y"), ("p", "q", "x"), ("b", "q", "y")])
    shape, shared = TransformerShape(4, 1, 2, 2, **options), options.get("share_tokens")
    rows = shared_rows(tuple(database.keys), tuple(database.queries)) if shared else None
    model = init_transformer(shape, *database.shape, key=0, query_rows=rows)
    trial = trial_of(database, shape, measures=(Ranks(), Additive()))
    numbers, _ = further_measures(trial, database, model, RECALLS)
    assert isnan(numbers["layer_rank"]) != known
    assert isnan(numbers["additive_share"]) != known
    assert numbers["violates"] == 0
    assert numbers["parameters"] == shape.parameters(*database.shape, 1 if shared else 0)


def test_diverged_models_have_no_numbers_and_no_exception():
    readings = Readings((0.5,), (1.0, 2.0), ("float32", "float64", "bfloat16"), ranks=True)
    trial = trial_of(SPARSE, measures=(*EVERYTHING_ELSE, readings))
    sound = init_layer(LAYER, *SPARSE.shape, key=0)
    known, rows = further_measures(trial, SPARSE, sound, RECALLS)
    for value in (nan, 3e38):
        diverged = jax.tree.map(lambda leaf, value=value: np.full(leaf.shape, value, np.float32), sound)
        lost = {"loss": nan, **dict.fromkeys(list(RECALLS)[1:], 0.0)}
        numbers, unknown = further_measures(trial, SPARSE, diverged, lost)
        assert numbers.keys() == known.keys()
        assert all(isnan(numbers[name]) for name in ("additive_share", "direct_alone", "heads_alone"))
        assert (numbers["memorised"], numbers["violates"], numbers["memorised_rank"]) == (0, 0, 0)
        assert numbers["rank_lower"] == known["rank_lower"]
        assert [[*row] for row in unknown] == [[*row] for row in rows]
        assert [[row[name] for name in READ] for row in unknown] == [[row[name] for name in READ] for row in rows]
        lost_rows = [
            row for row in unknown if isnan(value) or row["precision"] != "float64"
        ]  # which holds 3e38 squared
        assert len(lost_rows) >= 4
        assert all(isnan(number) for row in lost_rows for name, number in row.items() if name not in READ)


@pytest.mark.optimised
def test_the_host_decides_nothing_about_lanes():
    """Trials that differ only in what the host measures share a compiled program and its bits."""
    measures = [(), (Ranks(),), (Readings(),)]
    trials = [trial_of(SPARSE, training=Training(epochs=5, engine="lanes"), measures=one) for one in measures]
    results = train_many(trials, databases=[SPARSE])
    assert [result.width for result in results] == [4, 4, 4]
    assert [len(result.readings) for result in results] == [0, 0, 1]
    assert len({np.asarray(result.weights.embedding).tobytes() for result in results}) == 1


@pytest.mark.parametrize("engine", ["fused", "lanes"])
def test_what_takes_long_is_handed_out_one_by_one(monkeypatch, engine):
    """An interruption while models are finished loses none of those that were finished before it."""
    from factrank.readouts import database_ranks

    training, measures = Training(epochs=3, engine=engine), (Ranks(),)
    trials = [trial_of(SPARSE, training=training, seed=seed, measures=measures) for seed in range(4)]
    real, calls, stored, seen = certified_ranks, [], [], []

    def interrupted(database):
        calls.append(database)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(database)

    monkeypatch.setenv("FACTRANK_THREADS", "1")
    monkeypatch.setattr(database_ranks, "certified_ranks", interrupted)
    meter = SimpleNamespace(update=lambda *numbers: seen.append(numbers))
    results = train_many(trials, databases=[SPARSE], on_result=stored.append, interruptible=True, meter=meter)
    ended = [result for result in results if result.status == "finished"]
    assert len(ended) >= 2
    assert all(model_epochs <= n_model_epochs for _, _, model_epochs, n_model_epochs in seen)
    assert {result.trial.seed for result in stored} == {result.trial.seed for result in ended}
    assert all(result.metrics["rank_lower"] == real(SPARSE)["rank_lower"] for result in ended)


def test_bfloat16_is_for_lanes():
    trial = trial_of(SPARSE, training=Training(precision="bfloat16"))
    assert platform_of(trial, SPARSE.shape, "cpu") is None
    with pytest.raises(InputError, match="fused engine does not apply: it computes in float32 or float64"):
        platform_of(replace(trial, training=Training(precision="bfloat16", engine="fused")), SPARSE.shape, "cpu")


def test_a_trial_that_asks_for_nothing_loads_nothing(monkeypatch):
    model = init_layer(LAYER, *SPARSE.shape, key=0)
    for name in ("readouts.reading", "readouts.database_ranks", "readouts.attribution", "tensors.planted"):
        monkeypatch.setitem(sys.modules, f"factrank.{name}", None)  # whoever imports it now fails
    assert further_measures(trial_of(SPARSE), SPARSE, model, RECALLS) == ({}, [])
    assert set(further_measures(trial_of(SPARSE, measures=(Hallucinations(),)), SPARSE, model, RECALLS)[0]) == {
        "hallucinations_0.95",
        "silent_fibers",
        "facts",
    }
    with pytest.raises(ImportError):
        further_measures(trial_of(SPARSE, measures=(Ranks(),)), SPARSE, model, RECALLS)
