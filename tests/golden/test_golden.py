"""The golden results that cost little; `make golden` compares all of them."""

import os
import sys

import pytest

from golden import record
from golden.compare import differences
from golden.data import TOPICS, cases_of, compute, recorded, tolerance_here

EVERYTHING = "FACTRANK_GOLDEN" in os.environ
"""Set it to compare everything in the suite, which takes long under runtime type checks."""

CASES = [
    pytest.param(topic, name, id=f"{topic}/{name}")
    for topic in TOPICS
    for name, case in cases_of(topic).items()
    if case.quick or EVERYTHING
]


@pytest.mark.parametrize(("topic", "name"), CASES)
def test_results_are_those_recorded(topic, name):
    case = cases_of(topic)[name]
    assert not list(differences(recorded(topic)[name], compute(case), tolerance_here(case)))


@pytest.mark.parametrize("topic", TOPICS)
def test_every_case_is_recorded_and_none_is_an_error(topic):
    assert set(recorded(topic)) == set(cases_of(topic))
    assert not [name for name, result in recorded(topic).items() if "raised" in result]


def test_differences_are_found_field_by_field():
    old = {"a": 1.0, "b": [1, {"c": "x"}], "text": ["one", "two 0.5"], "digest": "0" * 64, "nan": float("nan")}
    assert not list(differences(old, {**old}))
    assert list(differences(old, {**old, "a": 1.0 + 1e-9})) == ["a: 1.0 recorded, 1.000000001 now"]
    assert not list(differences(old, {**old, "a": 1.0 + 1e-9}, 1e-8))
    assert list(differences(old, {**old, "b": [1, {"c": "y"}]})) == ["b[1].c: 'x' recorded, 'y' now"]
    assert next(differences(old, {**old, "b": [1]}, 1.0)).startswith("b[1]: {'c': 'x'} recorded, '(missing)'")
    assert "two 0.6" in next(differences(old, {**old, "text": ["one", "two 0.6"]}))
    assert not list(differences(old, {**old, "text": ["one", "two 0.6"]}, 0.2))
    assert list(differences(old, {**old, "text": ["one", "too 0.5"]}, 0.2))
    assert list(differences(old, {**old, "digest": "1" * 64}, 1e-6))  # weights differ though numbers nearly agree
    assert not list(differences(old, {**old, "digest": "1" * 64}, 1e-3))  # on another machine
    tie = {"margin": 0.5, "worst": ["a", "b", "c"]}
    assert list(differences(tie, {**tie, "worst": ["a", "b", "d"]}, 1e-6))
    assert not list(differences(tie, {**tie, "worst": ["a", "b", "d"]}, 1e-3))  # on another machine
    assert list(differences(tie, {"margin": 0.5}, 1e-3))
    assert list(differences(old, {**old, "a": 1}))  # an integer is no real number


def test_the_recorder_prints_what_differs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["record.py", "--check", "--only", "sizes/memory limits"])
    assert record.main() == 0
    assert "1 cases, all as recorded" in capsys.readouterr().out
    monkeypatch.setattr(record, "recorded", lambda _: {"memory limits": [0.5, *recorded("sizes")["memory limits"][1:]]})
    assert record.main() == 1
    assert "sizes/memory limits: [0]: 0.5 recorded, " in capsys.readouterr().out
