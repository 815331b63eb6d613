"""`factrank plan` and `factrank capacity`."""

import json

import pytest
from typer.testing import CliRunner

from factrank.cli import app
from factrank.errors import InputError

SIZES = ["--facts", "400", "--keys", "40", "--queries", "10", "--values", "40"]


LARGEST = ["--facts", "1e12", "--keys", "1e12", "--queries", "1", "--values", "1e6"]


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_a_plan_shows_its_sources_apart():
    result = run("plan", *SIZES)
    assert result.exit_code == 0
    proved, trained = (result.stdout.index(word) for word in ("proved:", "trained:"))
    assert proved < result.stdout.index("parabola") < trained < result.stdout.index("needed")


def test_a_plan_as_json_and_chart(tmp_path):
    chart = tmp_path / "front.json"
    result = run("plan", "sample:astrid", "--recall", "0.9", "--json", "--chart", str(chart))
    found = json.loads(result.stdout)
    assert found["table"]["n_facts"] == 8
    assert {one["source"] for one in found["front"]} == {"proved", "trained"}
    assert json.loads(chart.read_text(encoding="utf-8"))["layer"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--facts", "0"], "n_facts must be a whole number"),
        (["--facts", "1e18"], "n_facts must be a whole number"),
        (["--facts", "500"], "500 facts do not fit"),
        (["--d-model", "-1"], "d_model must be a whole number from 1"),
        (["--max-parameters", str(10**18)], "max_parameters must be a whole number from 1"),
        (["--lora", "9", "--d-model", "4"], "at most rank 4"),
    ],
)
def test_senseless_plans_are_bad_input(words, message):
    result = run("plan", *SIZES, *words)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_the_sizes_that_are_missing_are_named_as_options():
    result = run("plan", "--facts", "400", "--keys", "40")
    assert "--queries, --values missing" in str(result.exception)


@pytest.mark.parametrize("limit", [[], ["--d-model", "5"], ["--max-parameters", "400"]])
def test_validation_reports_the_layer_that_it_trained(monkeypatch, limit):
    monkeypatch.setenv("COLUMNS", "80")
    trained = []

    def recalls(table, shapes, seeds):
        trained.append(shapes[0])
        return [[1.0] * len(seeds)]

    monkeypatch.setattr("factrank.planning.validation.trained_recalls", recalls)
    found = json.loads(run("plan", "sample:astrid", *limit, "--validate", "--json").stdout)
    assert found["validation"]["layer"] == found["trained"][0]
    assert found["trained"][0]["shape"]["d_model"] == trained[0].d_model
    shown = run("plan", "sample:astrid", *limit, "--validate").stdout
    assert trained[0].in_words() in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_lines_of_a_plan_fit_into_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--facts", "2e6", "--keys", "2e5", "--queries", "10", "--values", "5000", "--lora", "4", "--d-model", "8"]
    for shown in (run("plan", *words), run("plan", *words[:8]), run("plan", "sample:elements"), run("plan", *LARGEST)):
        assert shown.exit_code == 0
        assert max(map(len, shown.stdout.splitlines())) <= 80
        assert "…" not in shown.stdout


def test_capacity_shows_every_size_it_runs():
    result = run("capacity", "sample:astrid", "--seeds", "1")
    assert result.exit_code == 0
    assert "recall 1 at d_model 2, not at 1" in result.stdout
    assert result.stdout.count("layer: d_model") == 3


def test_capacity_wants_all_sizes_or_none():
    result = run("capacity", "sample:astrid", "--heads", "2")
    assert "--d-model, --d-qk, --d-vo missing" in str(result.exception)
