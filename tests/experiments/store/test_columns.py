"""Rows: every number of a result under its name, and no two trials under one row."""

import json
import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.columns import (
    LONGEST_ERROR,
    RUN_COLUMNS,
    curve_rows,
    failed_row,
    in_order,
    reading_rows,
    row_of,
    trial_columns,
    trial_of,
    versions,
)
from factrank.experiments.store.parquet_parts import table_of
from factrank.families.memory import MemoryShape, WeightedFacts
from made_up_results import made_up_result, made_up_trial


def test_a_row_holds_the_whole_result():
    result = made_up_result(3, training=Training(Optimiser("adam", Options.of({"b1": 0.5})), frozen=("w_q", "w_k")))
    row = row_of(result)
    ran = {name: row[name] for name in ("hash", "status", "error", "engine", "device", "width", "seconds", "epochs")}
    assert ran == {
        "hash": result.trial.hash,
        "status": "finished",
        "error": None,
        "engine": "fused",
        "device": "x86_64",
        "width": 8,
        "seconds": 0.25,
        "epochs": 100,
    }
    assert {name: row[name] for name in result.metrics} == result.metrics
    assert (row["epochs_to.recall"], row["epochs_to.recall_0.95"]) == (4, None)
    assert {name: row[name] for name in versions()} == dict(versions())
    assert trial_of(row["trial"]) == result.trial
    trial = {name: row[name] for name in row if name.startswith(("data.", "model.", "training."))}
    assert trial == {
        "data.generator": "uniform",
        "data.n_keys": 4,
        "data.n_queries": 3,
        "data.n_values": 4,
        "data.seed": 0,
        "model.kind": "attention",
        "model.d_model": 4,
        "model.n_heads": 1,
        "model.d_qk": 2,
        "model.d_vo": 2,
        "training.optimiser": "adam",
        "training.optimiser.b1": 0.5,
        "training.learning_rate": 0.01,
        "training.weight_decay": 0.0,
        "training.epochs": 2000,
        "training.batch_size": None,
        "training.stop": "never",
        "training.check_every": 10,
        "training.frozen": '["w_k","w_q"]',
        "training.score_scale": 1.0,
        "training.precision": "float32",
        "training.engine": "auto",
        "training.stop_at": 1.0,
        "training.schedule": "constant",
        "training.warm_up": 0.0,
    }
    assert (row["seed"], row["start"]) == (3, "drawn")
    assert json.loads(row["measures"]) == [{"kind": "curve", "epochs": [0, 50]}, {"kind": "epochs_to"}]


def test_curves_have_a_row_per_epoch():
    result = made_up_result(2)
    assert curve_rows(result) == [
        {"hash": result.trial.hash, "epoch": 0, "loss": 3.0, "recall": 0.0, "recall_0.95": 0.0},
        {"hash": result.trial.hash, "epoch": 50, "loss": 0.5, "recall": 0.5, "recall_0.95": 0.25},
    ]
    assert curve_rows(replace(result, curves={})) == []


def test_readings_have_a_row_each():
    readings = [
        {"precision": "float32", "temperature": 2, "tau": 0.5, "recall": 0.25, "ones": 3, "seed": 1, "odd": "\ud800"},
        {"precision": "bfloat16", "temperature": 0.5, "tau": 0.5, "recall": math.inf},
    ]
    result = replace(made_up_result(2), readings=readings)
    rows = reading_rows(result)
    first = {"precision": "float32", "temperature": 2.0, "tau": 0.5, "recall": 0.25, "ones": 3.0, "metrics.seed": 1.0}
    assert rows == [
        {"hash": result.trial.hash, **first, "odd": "\\ud800"},
        {"hash": result.trial.hash, **readings[1]},
    ]
    assert {type(cell) for cell in rows[0].values()} == {str, float}
    assert reading_rows(made_up_result(2)) == []


def test_the_options_of_a_presentation_stand_beside_the_facts_defaults_included():
    facts, shape = generated("associations", n_inputs=4, n_outputs=2, seed=0), MemoryShape(4)
    plain, weighted = (
        trial_columns(Trial(data, shape, start="zero")) for data in (facts, WeightedFacts(facts, key_exponent=1.5))
    )
    assert (plain["start"], plain["data.key_exponent"], weighted["data.key_exponent"]) == ("zero", 0.0, 1.5)
    shared = {name for name in plain if name not in ("hash", "trial", "data.key_exponent")}
    assert {name: plain[name] for name in shared} == {name: weighted[name] for name in shared}
    assert set(plain) == set(weighted)


def test_a_failed_trial_keeps_its_error():
    trial = made_up_trial(0)
    row = failed_row(trial, "no memory \ud800")
    assert (row["status"], row["error"], row["engine"], row["hash"]) == (
        "failed",
        "no memory \\ud800",
        None,
        trial.hash,
    )
    assert set(RUN_COLUMNS) <= set(row)
    assert len(failed_row(trial, "x" * 10**6)["error"]) < LONGEST_ERROR + 50


def test_what_is_interrupted_has_no_row():
    with pytest.raises(InputError, match="interrupted"):
        row_of(replace(made_up_result(0), status="interrupted"))


def test_a_given_database_is_known_by_its_fingerprint():
    row = trial_columns(made_up_trial(0, data=Given("ab" * 32)))
    assert row["data.fingerprint"] == "ab" * 32
    assert "data.generator" not in row


def test_numbers_that_have_the_name_of_a_column_stand_apart():
    names = ["hash", "seed", "model.d_vo", "epochs_to.recall", "metrics.hash", "trial"]
    result = replace(made_up_result(1), metrics={name: float(at) for at, name in enumerate(names)})
    row = row_of(result)
    assert [row[f"metrics.{name}"] for name in names] == [0, 1, 2, 3, 4, 5]
    assert (row["hash"], row["seed"], row["epochs_to.recall"]) == (result.trial.hash, 1, 2)


def test_order_of_columns_does_not_depend_on_the_rows():
    names = list(row_of(made_up_result(1)))
    assert in_order(names) == in_order(reversed(names))
    assert in_order(names)[: len(RUN_COLUMNS)] == list(RUN_COLUMNS)
    assert in_order(["recall", "seed", "model.x", "data.y"]) == ["data.y", "model.x", "seed", "recall"]


@pytest.mark.parametrize("text", ["", "{", "[" * 10**5, '{"version":2}', '{"version":2,"model":{}}'])
def test_text_that_is_no_trial(text):
    with pytest.raises(InputError):
        trial_of(text)


# ---------------------------------------------------------------- any trial

# Strategies draw plain data and tests make the trials of them: run-time type checks draw random numbers.
odd_names = ["generator", "arguments", "kind", "a.b", "arguments.x", "name", "options", "é", "\0", ""]
names = st.text(max_size=8) | st.sampled_from(odd_names)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
arguments = st.dictionaries(names, numbers | st.lists(st.integers(), max_size=3), max_size=3)
sizes = st.integers(1, 5)
shape = {"d_model": sizes, "n_heads": sizes, "d_qk": sizes, "d_vo": sizes}
plain_trials = st.fixed_dictionaries(
    {
        "version": st.just(2),
        "data": st.fixed_dictionaries(
            {
                "kind": st.just("generated"),
                "generator": st.sampled_from(["uniform", "zipf", "nobody"]),
                "arguments": arguments,
            }
        )
        | st.fixed_dictionaries({"kind": st.just("given"), "fingerprint": st.text("0123456789abcdef", max_size=4)}),
        "model": st.fixed_dictionaries({"kind": st.just("attention"), **shape})
        | st.fixed_dictionaries({"kind": st.just("transformer"), **shape, "positions": st.booleans()}),
        "training": st.fixed_dictionaries(
            {
                "optimiser": st.fixed_dictionaries({"name": st.sampled_from(["adam", "sgd"]), "options": arguments}),
                "learning_rate": st.floats(0, 10),
                "epochs": st.integers(100, 200),
                "batch_size": st.none() | sizes,
                "frozen": st.lists(names, max_size=2),
            }
        ),
        "seed": st.integers(0, 3),
        "measures": st.tuples(
            st.sampled_from([[0.5], [0.5, 0.95]]).map(lambda taus: [{"kind": "tau_recall", "taus": taus}]),
            st.sampled_from([[], [{"kind": "hallucinations"}], [{"kind": "epochs_to"}]]),
            st.sampled_from([[], [{"kind": "readings"}], [{"kind": "readings", "temperatures": [2]}]]),
            st.sampled_from([[], [{"kind": "planted_cp", "residual": 0.5}]]),
            st.sampled_from([[], [{"kind": "curve", "epochs": [0]}], [{"kind": "curve", "epochs": [0, 100]}]]),
        ).map(lambda parts: [measure for part in parts for measure in part]),
    }
)


def typed(row):
    """The cells that flatten the trial, without its JSON and hash; 1, 1.0 and True are three values."""
    return {name: repr(value) for name, value in row.items() if name not in ("hash", "trial")}


@given(plain_trials, plain_trials)
def test_different_trials_have_different_rows(one, other):
    one, other = Trial.from_dict(one), Trial.from_dict(other)
    rows = trial_columns(one), trial_columns(other)
    assert (rows[0] == rows[1]) == (one == other)
    assert (rows[0]["hash"] == rows[1]["hash"]) == (one == other)


@given(plain_trials, st.sampled_from(["data", "model", "seed", "measures"]), plain_trials)
def test_one_changed_part_shows_in_its_columns(one, part, source):
    one, other = Trial.from_dict(one), Trial.from_dict({**one, part: source[part]})
    assert (typed(trial_columns(one)) == typed(trial_columns(other))) == (one == other)


@given(plain_trials)
def test_the_trial_is_rebuilt_from_its_row(plain):
    trial = Trial.from_dict(plain)
    row = trial_columns(trial)
    rebuilt = trial_of(row["trial"])
    assert rebuilt == trial
    assert rebuilt.hash == row["hash"] == trial.hash


@given(st.lists(plain_trials, min_size=1, max_size=3), st.floats())
def test_rows_become_tables_and_back(several, loss):
    metrics = {"loss": loss, "é.x": 1.0}
    rows = [row_of(replace(made_up_result(0), trial=Trial.from_dict(plain), metrics=metrics)) for plain in several]
    table = table_of(rows)
    assert {str(field.type) for field in table.schema} <= {"string", "int64", "double", "bool"}
    for row, stored in zip(rows, table.to_pylist(), strict=True):
        for name, value in row.items():
            assert same(value, stored.get(name)), name


def same(value, stored):
    """The same number or text; in a column of several types, the same as JSON."""
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(stored) if isinstance(stored, float) else stored == "NaN"
    if isinstance(stored, str) and not isinstance(value, str) and value is not None:
        return stored == json.dumps(value)
    return value == stored


def test_arguments_have_one_type_in_all_parts():
    whole = generated("zipf", n_keys=4, n_queries=3, n_values=4, n_facts=5, exponent=1, seed=2**70)
    optimiser = Optimiser("sgd", Options.of({"momentum": 1, "nesterov": True}))
    row = trial_columns(made_up_trial(0, data=whole, training=Training(optimiser)))
    assert repr(row["data.exponent"]) == "1.0"
    assert row["data.seed"] == str(2**70)
    assert repr(row["training.optimiser.momentum"]) == "1.0"
    assert row["training.optimiser.nesterov"] is True
    assert table_of([row]).schema.field("training.batch_size").type == pa.int64()
