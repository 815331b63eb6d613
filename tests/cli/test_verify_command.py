"""`factrank verify` as users see it: exit codes, words, and files that somebody has tampered with."""

import json

import equinox as eqx
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.files.formats import write
from factrank.databases.sample_tables import sample
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.binary_codes import BinaryCodes
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.layer_files import load_layer, save_layer

FIELDS = {
    "layer", "certified", "facts", "recalled", "margin", "proved_margin", "worst", "silent_fibers", "answered",
    "hallucinations", "arithmetic", "precision", "reason", "weights", "database", "parameters", "stored_certificate",
    "complaints", "table", "stored_facts",
}  # fmt: skip


@pytest.fixture
def certified(tmp_path):
    """A layer that holds sample:astrid, with its certificate."""
    path, facts = tmp_path / "astrid.safetensors", sample("astrid")
    layer = BinaryCodes().build(facts, "float32", FormSearch(seconds=0.0)).layer
    save_layer(path, layer, facts, notes={"certificate": verify(layer, facts).to_json()})
    return path


def resaved(path, change=lambda layer: layer, notes=None):
    """The file with other weights or notes and the checksum that fits them."""
    saved = load_layer(path)
    save_layer(path, change(saved.layer), saved.database, notes=saved.notes if notes is None else notes)


def with_facts(path, *facts, notes=None):
    """The file with other facts of the same names, and the checksum that fits them."""
    saved = load_layer(path)
    codes = [[axis.index(name) for axis, name in zip(saved.database.vocabularies, fact, strict=True)] for fact in facts]
    database = Database(np.array(codes, np.int32).reshape(-1, 3), *saved.database.vocabularies)
    save_layer(path, saved.layer, database, notes=saved.notes if notes is None else notes)


def moved(by):
    def change(layer):
        first_key = np.asarray(layer.embedding).copy()
        first_key[0] += np.where(first_key[0] != 0, by * np.sign(first_key[0]), 0).astype(np.float32)
        return eqx.tree_at(lambda layer: layer.embedding, layer, first_key)

    return change


def test_a_certified_layer(call, certified):
    code, out, err = call("verify", certified, "sample:astrid", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert set(found) == FIELDS
    assert found["certified"] is found["stored_certificate"] is True
    assert (found["facts"], found["recalled"], found["complaints"]) == (8, 8, [])
    assert found["margin"] == found["proved_margin"] == 2
    assert (found["arithmetic"], found["precision"], found["silent_fibers"]) == ("exact integers", "float32", 7)
    code, out, _ = call("verify", certified, "sample:astrid")
    assert code == 0
    for words in ("certified: every fact is recalled", "proved margin", "exact integers", "of 7 (key, query) pairs"):
        assert words in out


def test_a_part_of_the_facts_and_other_facts(call, certified, tmp_path):
    facts = sample("astrid")
    write(facts.select(queries=["born_in"]), tmp_path / "some.csv")
    code, out, _ = call("verify", certified, "some.csv", "--json")
    assert (code, json.loads(out)["stored_certificate"]) == (0, True)
    key, query, value = next(iter(facts))
    other = next(name for name in facts.values if name != value)
    write(Database.from_facts([(key, query, other)]), tmp_path / "wrong.csv")
    code, out, _ = call("verify", certified, "wrong.csv")
    assert code == 1
    assert "not certified: 1 of 1 facts are not recalled" in out


def test_bad_input(call, certified, tmp_path):
    (tmp_path / "unknown.csv").write_text("key,query,value\nNobody,born_in,Singapore\n")
    for arguments, message in (
        ((certified, "unknown.csv"), "the layer does not know this table"),
        ((certified, "missing.csv"), "missing.csv"),
        (("missing.safetensors", "sample:astrid"), "no such file"),
    ):
        code, out, err = call("verify", *arguments)
        assert (code, out) == (2, "")
        assert message in err


def test_a_changed_byte_breaks_the_seal(call, certified):
    content = bytearray(certified.read_bytes())
    content[-1] ^= 1
    certified.write_bytes(content)
    code, _, err = call("verify", certified, "sample:astrid")
    assert code == 2
    assert "modified or is corrupt" in err


def test_a_sealed_forgery_is_found_by_the_facts(call, certified):
    resaved(certified, moved(-2.0))  # every sign of the first key turns around
    code, out, _ = call("verify", certified, "sample:astrid", "--json")
    found = json.loads(out)
    assert (code, found["certified"], found["stored_certificate"]) == (1, False, False)
    assert found["recalled"] < 8
    assert "facts are not recalled" in found["reason"]


def test_a_sealed_change_that_does_no_harm_is_found_by_the_stored_certificate(call, certified):
    resaved(certified, moved(0.25))
    code, out, _ = call("verify", certified, "sample:astrid", "--json")
    found = json.loads(out)
    assert (code, found["certified"], found["stored_certificate"]) == (1, True, False)
    assert "is for other content: weights, arithmetic" in found["complaints"][0]
    resaved(certified, notes={})
    code, out, _ = call("verify", certified, "sample:astrid", "--json")
    assert (code, json.loads(out)["stored_certificate"]) == (0, None)
    resaved(certified, notes={"certificate": "trust me"})
    code, out, _ = call("verify", certified, "sample:astrid")
    assert code == 1
    assert "the certificate in the file cannot be read" in out


# ---------------------------------------------------------------- the facts in the file


def test_without_a_table_the_facts_are_those_of_the_file(call, certified):
    code, out, err = call("verify", certified, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert set(found) == FIELDS
    assert found["certified"] is found["stored_certificate"] is True
    assert found["stored_facts"] == {"facts": 8, "shared": 8, "contradicted": 0}
    assert (found["table"], found["facts"], found["recalled"], found["complaints"]) == (None, 8, 8, [])
    code, out, _ = call("verify", certified)
    assert code == 0
    assert "astrid.safetensors on its stored facts" in out
    for options in (("--wide",), ("--multi",), ("--no-header",), ("--long", "a", "b", "c")):
        code, _, err = call("verify", certified, *options)
        assert code == 2
        assert "describe a table" in err


@pytest.mark.parametrize("forged", [False, True])
def test_stored_facts_that_contradict_the_table(call, certified, forged):
    """Else `ask` would call a right answer an error."""
    others = [fact for fact in sample("astrid") if fact[:2] != ("Astrid", "born_in")]
    facts = [*others, ("Astrid", "born_in", "Malaysia")]
    with_facts(certified, *facts, notes={} if forged else None)
    assert json.loads(call("ask", certified, "Astrid", "born_in", "--json")[1])["verdict"] == "error"
    code, out, _ = call("verify", certified, "sample:astrid", "--json")
    found = json.loads(out)
    assert (code, found["certified"], found["stored_certificate"]) == (1, True, None if forged else False)
    assert found["stored_facts"] == {"facts": 8, "shared": 7, "contradicted": 1}
    assert "(Astrid, born_in) is Malaysia in the file, Singapore in the table" in found["complaints"][-1]
    if not forged:
        assert "is for other content: stored facts" in found["complaints"][0]
    code, out, _ = call("verify", certified)
    assert code == 1
    assert "not certified: 1 of 8 facts are not recalled" in out


def test_stored_facts_that_say_less_or_more_than_the_table(call, certified):
    facts = list(sample("astrid"))
    with_facts(certified, *facts[:5], notes={})
    code, out, _ = call("verify", certified, "sample:astrid")
    assert code == 0
    assert "5  in the file, including 5 of these" in out
    with_facts(certified, *facts, ("Astrid", "currency", "Ringgit"), notes={})
    code, out, _ = call("verify", certified, "sample:astrid", "--json")
    assert (code, json.loads(out)["stored_facts"]) == (0, {"facts": 9, "shared": 8, "contradicted": 0})
    assert call("verify", certified)[0] == 1


def test_a_certificate_for_other_facts_than_those_stored(call, certified):
    with_facts(certified, *list(sample("astrid"))[:5])
    for arguments in ((), ("sample:astrid",)):
        code, out, _ = call("verify", certified, *arguments, "--json")
        found = json.loads(out)
        assert (code, found["certified"], found["stored_certificate"]) == (1, True, False)
        assert found["complaints"] == ["the certificate in the file is for other content: stored facts"]


def test_a_file_without_facts_certifies_nothing(call, certified):
    with_facts(certified)
    code, out, err = call("verify", certified)
    assert (code, out) == (2, "")
    assert "the file stores no facts; give a table" in err


def test_a_missing_table_is_not_one_that_the_layer_does_not_know(call, certified):
    assert call("verify", certified, "missing.csv")[::2] == (2, "factrank: missing.csv: no such file\n")


def test_several_values_of_one_pair(call, tmp_path):
    (tmp_path / "sets.csv").write_text("key,query,value\na,q,x\na,q,y\nb,q,x\n")
    (tmp_path / "one.csv").write_text("key,query,value\na,q,x\nb,q,x\n")
    call("construct", "sets.csv", "--multi", "--budget", "0", "-o", "sets.safetensors")
    assert call("verify", "sets.safetensors", "sets.csv", "--multi")[0] == 0
    assert call("verify", "sets.safetensors")[0] == 0
    code, out, _ = call("verify", "sets.safetensors", "one.csv")
    assert code == 1
    assert "(a, q) is x, y in the file, x in the table" in " ".join(out.split())
