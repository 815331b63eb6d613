"""`factrank audit` as a user runs it: text, JSON, the page and errors."""

import json

from typer.testing import CliRunner

from factrank.cli import app
from factrank.errors import InputError
from planted_models import HEADS, KV_HEADS, LAYERS, llama_tensors, write_model


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_text_json_and_page(tmp_path):
    folder = write_model(tmp_path / "m", llama_tensors(qk_rank=2))
    shown = run(folder, "--fold", "norm", "--html", tmp_path / "out.html")
    assert shown.exit_code == 0
    assert "norms folded" in shown.stdout
    assert "Llama: 2 layers of 4 heads, 2 key and value heads" in shown.stdout
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    data = json.loads(run(folder, "--json").stdout)
    assert len(data["circuits"]) == 2 * LAYERS * (HEADS + KV_HEADS)
    assert {row["rank"] for row in data["circuits"] if row["circuit"] == "QK" and row["level"] == "head"} == {2}
    one = json.loads(run(folder, "--json", "--layers", "1-1", "--values", "4").stdout)
    assert [layer["layer"] for layer in one["layers"]] == [1]
    assert one["n_values"] == 4


def test_errors_name_what_was_expected(tmp_path):
    folder = write_model(tmp_path / "m", llama_tensors())
    for words, message in (
        ((folder, "--layers", "x"), "expected numbers such as 0,5,10-12; got 'x'"),
        ((folder, "--layers", "0-99999999"), "'0-99999999' is no range of layers; expected at most 10,000"),
        ((folder, "--layers", "1-0"), "'1-0' is no range of layers; expected the smaller number first: 0-1"),
        ((folder, "--layers", "0,1-"), "expected numbers such as 0,5,10-12; got '0,1-'"),
        ((folder, "--layers", "9" * 50), "expected numbers such as 0,5,10-12; got '9999"),
        ((folder, "--layers", "5"), "the layers are 0 to 1"),
        ((folder, "--html", tmp_path / "out.txt"), "the name of a page ends in .html"),
        ((tmp_path / "none",), "no such file or folder"),
    ):
        failed = run(*words)
        assert isinstance(failed.exception, InputError)
        assert message in str(failed.exception)


def test_an_interruption_leaves_no_page(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    folder = write_model(tmp_path / "m", llama_tensors())
    monkeypatch.setattr("factrank.auditing.model_audit.audit_layer", interrupted)
    assert run(folder, "--html", tmp_path / "out.html").exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
