"""The golden results that cost little; `make golden` compares all of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_results_are_those_recorded(topic, name, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
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
    assert list(differences(old, {**old, "b": [1]}, 1.0))[0].startswith("b[1]: {'c': 'x'} recorded, '(missing)'")
    assert "two 0.6" in list(differences(old, {**old, "text": ["one", "two 0.6"]}))[0]
    assert not list(differences(old, {**old, "text": ["one", "two 0.6"]}, 0.2))
    assert list(differences(old, {**old, "text": ["one", "too 0.5"]}, 0.2))
    assert list(differences(old, {**old, "digest": "1" * 64}, 1e-6))  # weights differ though numbers nearly agree
    assert not list(differences(old, {**old, "digest": "1" * 64}, 1e-3))  # on another machine
    assert list(differences(old, {**old, "a": 1}))  # an integer is no real number


def test_the_recorder_finds_a_difference(tmp_path):
    """The command that `make golden` runs, on one case."""
    script = Path(__file__).with_name("record.py")
    command = [sys.executable, str(script), "--check", "--only", "sizes/memory limits"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 cases, all as recorded" in found.stdout
