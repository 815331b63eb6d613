"""`factrank split` and `factrank ranking` as users see them: files, standard input, unknown names, exit codes."""

import io
import json
import sys

import pytest

import factrank
from factrank.databases import Database, Splits
from factrank.databases.files import write, write_splits

FACTS = [(f"k{i}", f"q{j}", f"v{(i * j) % 4}") for i in range(6) for j in range(3)]


@pytest.fixture
def folder(tmp_path):
    """A constructed layer of the training facts next to the files of three splits."""
    table = Database.from_facts(FACTS)
    splits = factrank.split_facts(table, {"train": 0.7, "valid": 0.1, "test": 0.2}, seed=1)
    write_splits(splits, tmp_path, suffix=".csv")
    factrank.construct(splits["train"]).save(tmp_path / "layer.safetensors")
    return tmp_path, splits


def test_ranks_are_those_of_the_function(call, folder):
    path, splits = folder
    layer = factrank.load(path / "layer.safetensors")
    expected = factrank.ranking(layer, splits["test"], splits["valid"])
    code, out, err = call("ranking", "layer.safetensors", "test.csv", "--known", "valid.csv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["layer"], found["table"]) == ("layer.safetensors", "test.csv")
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()
    raw = json.loads(call("ranking", "layer.safetensors", "test.csv", "--raw", "--json")[1])
    assert raw["mean_rank"] >= found["mean_rank"]
    assert raw["filtered"] is False
    code, out, _ = call("ranking", "layer.safetensors", "train.csv")
    assert code == 0
    assert "filtered: the other known values of a pair are left out" in out
    assert "1.000" in out


def test_several_files_and_standard_input(call, folder, monkeypatch):
    whole = call("ranking", "layer.safetensors", "test.csv", "valid.csv", "--json")[1]
    text = (folder[0] / "valid.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    piped = call("ranking", "layer.safetensors", "test.csv", "-", "--json")[1]
    assert json.loads(piped) == {**json.loads(whole), "table": "test.csv, standard input"}
    code, _, err = call("ranking", "layer.safetensors", "-", "--known", "-")
    assert (code, "can only be read once" in err) == (2, True)


def test_unknown_names_missing_files_and_other_mistakes(call, folder):
    write(Database.from_facts([("k0", "q0", "v9"), ("k1", "q1", "v0")]), folder[0] / "odd.csv")
    code, out, err = call("ranking", "layer.safetensors", "odd.csv")
    assert (code, out) == (2, "")
    assert "1 of 2 values ('v9')" in err
    assert "--skip-unknown" in err
    code, out, _ = call("ranking", "layer.safetensors", "odd.csv", "--skip-unknown")
    assert (code, "1 more facts were skipped" in out) == (0, True)
    for arguments, message in (
        (["layer.safetensors", "absent.csv"], "absent.csv: no such file"),
        (["layer.safetensors", "test.csv", "--known", "absent.csv"], "absent.csv: no such file"),
        (["test.csv", "test.csv"], "test.csv"),
        (["layer.safetensors", "test.csv", "--known", "valid.csv", "--raw"], "exclude each other"),
    ):
        code, out, err = call("ranking", *arguments)
        assert (code, out, message in err) == (2, "", True)


def test_names_that_occur_only_in_the_test_split_are_known_to_a_layer_of_the_splits(call, tmp_path):
    train = Database.from_facts([("a", "r", "b"), ("b", "r", "a")])
    splits = Splits({"train": train, "test": Database.from_facts([("c", "r", "a")])})
    factrank.construct(splits["train"]).save(tmp_path / "layer.safetensors")
    write_splits(splits, tmp_path, suffix=".nt")
    code, out, _ = call("ranking", "layer.safetensors", "test.nt", "--json")
    assert (code, json.loads(out)["facts"], json.loads(out)["unknown"]) == (0, 1, 0)


def test_splits_of_a_table(call, tmp_path):
    table = Database.from_facts(FACTS)
    write(table, tmp_path / "facts.csv")
    code, out, err = call("split", "facts.csv", "parts", "--valid", "0.1", "--test", "0.2", "--seed", "1")
    assert (code, err) == (0, "")
    assert out == "12 train, 2 valid, 4 test facts written to parts/train.tsv, parts/valid.tsv, parts/test.tsv\n"
    expected = factrank.split_facts(table, {"train": 0.7, "valid": 0.1, "test": 0.2}, seed=1)
    assert factrank.read_splits(tmp_path / "parts") == expected
    code, out, _ = call("split", "facts.csv", "parts.nq", "--valid", "0", "--json")
    assert (code, json.loads(out)["facts"]) == (0, {"train": 16, "test": 2})
    assert factrank.read_splits(tmp_path / "parts.nq").everything == table
    for options, message in (
        (["--valid", "0.5", "--test", "0.5"], "must leave facts to train on"),
        (["--test", "0.8"], "facts are to be held out, but only"),
        (["--format", ".docx"], "unknown file format"),
        (["--test", "2"], "Invalid value"),
    ):
        code, out, err = call("split", "facts.csv", "other", *options)
        assert (code, out, message in err) == (2, "", True)
