"""Trials of version 0.1 are read as the same trials today: nothing is lost, made up or passed over."""

import gzip
import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.experiments.specs import Trial, canonical_json

TESTS = Path(__file__).parents[1]
SOURCE = importlib.util.spec_from_file_location("trials_of_0_1", TESTS.parent / "tools" / "trials_of_0_1.py")
tool = importlib.util.module_from_spec(SOURCE)
SOURCE.loader.exec_module(tool)
trial_today = tool.trial_today

GENERATED = {"kind": "generated", "generator": "unit", "arguments": {"n": 3}}
VECTORS = {"kind": "random_examples", "n_examples": 4, "context_size": 2}
SIZES = {"d_model": 4, "n_heads": 1, "d_qk": 2, "d_vo": 2}
MODELS = {
    "attention": (GENERATED, {"kind": "attention", **SIZES}),
    "sequence": (GENERATED, {"kind": "sequence", **SIZES}),
    "memory": (GENERATED, {"kind": "memory", "d_model": 4}),
    "memoriser": (VECTORS, {"kind": "memoriser"}),
}
MEASURES = {
    "taus": ("attention", [0.5, 0.9], {"kind": "tau_recall", "taus": [0.5, 0.9]}),
    "artifacts": ("attention", True, {"kind": "hallucinations"}),
    "epochs_to": ("attention", True, {"kind": "epochs_to"}),
    "ranks": ("attention", True, {"kind": "ranks"}),
    "additive": ("attention", True, {"kind": "additive"}),
    "readings": ("attention", {"kind": "readings", "cp": True}, {"kind": "readings", "cp": True}),
    "planted_cp": ("attention", 0.25, {"kind": "planted_cp", "residual": 0.25}),
    "parts": ("sequence", True, {"kind": "parts_alone"}),
    "hallucination": ("sequence", True, {"kind": "relation_alone"}),
    "frequency_groups": ("memory", 3, {"kind": "frequency_groups", "groups": 3}),
    "test_sequences": ("sequence", 7, {"kind": "test_recall", "sequences": 7}),
    "best": ("sequence", True, {"kind": "best"}),
    "saturation": ("memoriser", 0.5, {"kind": "saturation", "threshold": 0.5}),
    "tolerance": ("memoriser", 0.25, {"kind": "tolerance", "error": 0.25}),
    "assumptions": ("memoriser", 5, {"kind": "assumptions", "subsets": 5}),
}
"""Every measure of version 0.1 but contexts: a family that had it, a value, and what it is today."""

PRESENTED = [
    ("memory", "training", "key_exponent", 1.5, "weighted_facts", "key_exponent"),
    ("sequence", "training", "key_exponent", 1.5, "fact_sequences", "key_exponent"),
    ("sequence", "training", "query_exponent", 0.5, "fact_sequences", "query_exponent"),
    ("sequence", "training", "copy_share", 0.25, "fact_sequences", "copy_fraction"),
    ("sequence", "measures", "contexts", 2, "fact_sequences", "contexts"),
]
KEPT = {
    "optimiser": {"name": "sgd", "options": {"momentum": 0.5}},
    "learning_rate": 0.5,
    "weight_decay": 0.25,
    "epochs": 300,
    "batch_size": 2,
    "stop": "recall",
    "check_every": 7,
    "frozen": ["w_q"],
    "score_scale": 2.0,
    "precision": "float64",
    "engine": "lanes",
    "stop_at": 0.5,
    "schedule": "cosine",
    "warm_up": 0.125,
}
"""The fields of training that are what they were."""


def old_trial(family, **parts):
    data, model = MODELS[family]
    return {"version": 1, "database": data, "model": model, **parts}


def recorded(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def read_today(old):
    """The trial that the package reads, in its canonical form already."""
    today = trial_today(old)
    assert Trial.from_dict(today).to_dict() == today
    return today


def test_every_trial_of_every_study_is_the_same_trial_in_its_place():
    before = recorded(TESTS / "data" / "trials_of_0_1.json.gz")
    now = recorded(TESTS / "golden" / "data" / "trials.json.gz")
    studies = [name for name in before if name.endswith((" quick", " full"))]
    n_trials, seen = 0, {}
    for name in studies:
        for old_round, new_round in zip(before[name], now[name], strict=True):
            found = [canonical_json(trial_today(json.loads(text))) for text in old_round]
            assert found == new_round, name
            n_trials += len(found)
            seen.update(zip(found, old_round, strict=True))
    assert (n_trials, len(seen), len(set(seen.values()))) == (38_502, 35_348, 35_348)
    for name in before.keys() - {*studies, "catalogue"}:
        assert before[name] == now[name], name  # bundles are cut as they were
    for paper, listed in before["catalogue"].items():
        assert set(listed) <= set(now["catalogue"][paper])


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_has_a_place(name):
    family, value, expected = MEASURES[name]
    assert read_today(old_trial(family, measures={name: value})) == {
        "version": 2,
        "data": MODELS[family][0],
        "model": MODELS[family][1],
        "measures": [expected],
    }


@pytest.mark.parametrize(("family", "part", "name", "value", "kind", "today"), PRESENTED)
def test_what_says_how_facts_are_presented_moves_to_the_data(family, part, name, value, kind, today):
    found = read_today(old_trial(family, **{part: {name: value}}))
    data, model = MODELS[family]
    assert found == {"version": 2, "data": {"kind": kind, "facts": data, today: value}, "model": model}
    with pytest.raises(ValueError, match=f"'attention' has no {today}"):
        trial_today(old_trial("attention", **{part: {name: value}}))


def test_other_fields_of_training_stay():
    assert read_today(old_trial("attention", training=KEPT))["training"] == KEPT
    for name, value in KEPT.items():
        assert trial_today(old_trial("attention", training={name: value}))["training"] == {name: value}


def test_starts_stand_beside_the_model():
    for family, start in (("memory", "two-sided"), ("memory", "zero"), ("memoriser", "solved")):
        data, model = MODELS[family]
        old = {"version": 1, "database": data, "model": model | {"start": start}}
        assert read_today(old) == {"version": 2, "data": data, "model": model, "start": start}
    other = {"version": 1, "database": GENERATED, "model": {"kind": "of another package", "start": 0.5}}
    assert trial_today(other) == {"version": 2, "data": GENERATED, "model": other["model"]}


def test_a_curve_is_a_measure_among_others():
    old = old_trial("attention", measures={"ranks": True, "artifacts": True}, curve_epochs=[0, 5], seed=3)
    found = read_today(old)
    assert found["measures"] == [
        {"kind": "curve", "epochs": [0, 5]},
        {"kind": "hallucinations"},
        {"kind": "ranks"},
    ]
    assert found["seed"] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected a trial of version 1; got version 2"),
        ({"note": "x"}, "has no note"),
        ({"measures": {"rank": True}}, "have no 'rank' with the value True"),
        ({"measures": {"ranks": False}}, "have no 'ranks' with the value False"),
    ],
)
def test_what_was_no_trial_of_0_1_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        trial_today(old_trial("attention") | change)


plain_measures = st.fixed_dictionaries(
    {}, optional={name: st.just(value) for name, (family, value, _) in MEASURES.items() if family == "sequence"}
)
sequences = st.fixed_dictionaries(
    {},
    optional={
        "training": st.fixed_dictionaries(
            {},
            optional={
                "epochs": st.sampled_from([10, 20]),
                "key_exponent": st.sampled_from([0.5, 1.0]),
                "copy_share": st.sampled_from([0.5, 1.0]),
            },
        ),
        "measures": st.builds(
            lambda some, more: some | more, plain_measures, st.sampled_from([{}, {"contexts": 2}, {"taus": [0.5]}])
        ),
        "curve_epochs": st.sampled_from([[0], [0, 10]]),
        "seed": st.integers(1, 3),
    },
)


def without_nothing(old):
    """Its canonical form, in which parts that say nothing are left out."""
    return {name: part for name, part in old.items() if part != {}}


@given(sequences, sequences)
def test_different_trials_stay_different(one, other):
    one, other = (without_nothing(old_trial("sequence", **parts)) for parts in (one, other))
    assert (trial_today(one) == trial_today(other)) == (one == other)
    assert read_today(one)
