"""`factrank verify` as users see it: exit codes, words, and files that somebody has tampered with."""

import json

import equinox as eqx
import numpy as np
import pytest

from factrank.constructions.binary_codes import BinaryCodes
from factrank.constructions.construction import Search
from factrank.constructions.verify import verify
from factrank.databases import Database, sample, write
from factrank.models import load_layer, save_layer

FIELDS = {
    "layer", "certified", "facts", "recalled", "margin", "proved_margin", "worst", "silent_fibers", "answered",
    "artifacts", "arithmetic", "precision", "reason", "weights", "database", "parameters", "stored_certificate",
    "complaints",
}  # fmt: skip


@pytest.fixture
def certified(tmp_path):
    """A layer that holds sample:astrid, with its certificate."""
    path, facts = tmp_path / "astrid.safetensors", sample("astrid")
    layer = BinaryCodes().build(facts, "float32", Search(seconds=0.0)).layer
    save_layer(path, layer, facts, notes={"certificate": verify(layer, facts).to_json()})
    return path


def resaved(path, change=lambda layer: layer, notes=None):
    """The file with other weights or notes and the checksum that fits them."""
    saved = load_layer(path)
    save_layer(path, change(saved.layer), saved.database, notes=saved.notes if notes is None else notes)


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
    assert "altered or damaged" in err


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
