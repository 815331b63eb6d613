"""`factrank construct` and `factrank edit` as users see them: words, JSON, exit codes, files that stay whole."""

import json

import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.files.formats import write
from factrank.databases.sample_tables import sample
from factrank.families.attention.forms.binary_codes import BinaryCodes
from factrank.families.attention.forms.construction import Built
from factrank.families.attention.forms.registry import registered_form
from factrank.families.attention.layer_files import load_layer

PROMISED = {
    "construction", "shape", "parameters", "facts", "recalled", "margin", "certified", "bits_per_parameter",
    "bits_per_stored_bit", "runners_up",
}  # fmt: skip


@pytest.fixture
def layer(call, tmp_path):
    """sample:astrid in binary codes, which have no room for a fifth value."""
    assert call("construct", "sample:astrid", "--only", "binary", "-o", "a.safetensors")[0] == 0
    return tmp_path / "a.safetensors"


# ---------------------------------------------------------------- construct


def test_construct_prints_what_it_built(call, tmp_path):
    code, out, err = call("construct", "sample:astrid", "-o", "a.safetensors")
    assert (code, err) == (0, "")
    for words in ("8 facts: 5 keys x 3 queries", "construction: ", "(fewest parameters)", "bits per parameter",
                  "shared-heads", "certified: every fact is recalled", "saved to a.safetensors"):  # fmt: skip
        assert words in out
    saved = load_layer(tmp_path / "a.safetensors")
    assert saved.database == sample("astrid")
    assert call("verify", "a.safetensors", "sample:astrid")[0] == 0


def test_construct_json(call):
    code, out, err = call("construct", "sample:astrid", "--json", "--precision", "bfloat16", "--budget", "0")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert set(found) >= PROMISED
    assert (found["facts"], found["recalled"], found["certified"], found["layer"]) == (8, 8, True, None)
    assert found["precision"] == "bfloat16"
    shape, sizes = found["shape"], (5, 3, 4)
    heads = 2 * shape["n_heads"] * shape["d_model"] * (shape["d_qk"] + shape["d_vo"])
    assert found["parameters"] == sum(sizes) * shape["d_model"] + heads
    assert found["bits_per_parameter"] == 16 / found["parameters"]
    assert {"construction", "parameters", "shape", "reason"} <= set(found["runners_up"][0])


@pytest.mark.parametrize(
    ("option", "aim", "words"),
    [
        ("--minimise", "heads", "fewest heads"),
        ("--minimize", "bits", "fewest bits"),
        ("--maximise", "margin", "largest margin"),
        ("--maximize", "margin", "largest margin"),
    ],
)
def test_construct_for_another_aim(call, option, aim, words):
    few = ["--only", "binary", "--only", "shared-heads", "--budget", "0"]
    code, out, _ = call("construct", "sample:astrid", option, aim, *few)
    assert code == 0
    assert words in out


def test_refused_forms_are_listed_with_their_precisions_and_without_the_winner(call):
    call("generate", "uniform", "--keys", "300", "--queries", "2", "--values", "120", "-o", "many.csv")
    forms = ["--only", "parabola", "--only", "attention-map", "--only", "linear-solve", "--budget", "0"]
    _, out, _ = call("construct", "many.csv", "--minimise", "bits", *forms)
    assert "construction: attention-map, in float32" in out  # which is refused in bfloat16
    (refused,) = [line for line in out.splitlines() if line.startswith("not for this table ")]
    assert "attention-map" not in refused
    assert "in bfloat16: parabola;" in refused
    assert "in bfloat16 and float32: linear-solve" in refused


def test_another_precision_may_allow_fewer_heads(call):
    forms = ["--only", "parabola", "--only", "attention-map", "--budget", "0"]
    _, out, _ = call("construct", "sample:astrid", "--minimise", "heads", "--precision", "bfloat16", *forms)
    assert "attention-map would need only 1 head in float32 (" in out


def test_several_values_and_shared_tokens(call, tmp_path):
    several = Database.from_facts([("a", "q", v) for v in "vw"] + [("b", "q", "x"), ("b", "r", "v")], multi=True)
    write(several, tmp_path / "several.csv")
    assert call("construct", "several.csv")[0] == 2
    assert call("construct", "several.csv", "--multi", "--budget", "0")[0] == 0
    code, out, _ = call("construct", "several.csv", "--multi", "--only", "binary")
    assert (code, out) == (2, "")
    write(Database.from_facts([("a", "b", "v"), ("b", "b", "w")]), tmp_path / "shared.csv")
    code, out, _ = call("construct", "shared.csv", "--share-tokens")
    assert code == 0
    assert "shared tokens" in out


class Wrong:
    """Recalls nothing of the first key."""

    name, estimated = "wrong", False

    def refusal(self, database, precision):
        return None

    def shape(self, database, precision):
        return BinaryCodes().shape(database, precision)

    def build(self, database, precision, search):
        built = BinaryCodes().build(database, precision, search)
        np.asarray(built.layer.embedding)[0] *= -1
        return Built(built.layer, self.name)


@registered_form(Wrong())
def test_what_is_not_certified_is_not_saved(call, tmp_path):
    arguments = ("construct", "sample:astrid", "--only", "wrong", "-o", "w.safetensors")
    code, out, err = call(*arguments)
    assert code == 1
    assert "not certified: " in out
    assert "nothing was saved; --force saves it anyway" in err
    assert not (tmp_path / "w.safetensors").exists()
    code, _, err = call(*arguments, "--force")
    assert code == 1
    assert "saved because of --force" in err
    assert call("verify", "w.safetensors", "sample:astrid")[0] == 1


def test_bad_input_to_construct(call, tmp_path):
    (tmp_path / "bad.csv").write_text("key,query,value\na,q,v\na,,w\n")
    (tmp_path / "none.csv").write_text("key,query,value\n")
    for arguments, message in (
        (("bad.csv",), "bad.csv, line 3: empty cell in column 'query'"),
        (("none.csv",), "none.csv: no facts"),
        (("missing.csv",), "missing.csv: no such file"),
        (("sample:astrid", "-o", "layer.bin"), "ends in .safetensors"),
        (("sample:astrid", "--only", "magic"), "there is no construction 'magic'"),
        (("sample:astrid", "--minimise", "weight"), "Invalid value for '--minimise'"),
        (("sample:astrid", "--minimise", "margin"), "Invalid value for '--minimise'"),
        (("sample:astrid", "--minimise", "bits", "--maximise", "margin"), "exclude each other"),
    ):
        code, out, err = call("construct", *arguments)
        assert (code, out) == (2, "")
        assert message in " ".join(err.split()) or message in err


# ---------------------------------------------------------------- edit


def test_edit_sets_and_deletes(call, layer):
    code, out, err = call("edit", layer, "--set", "Astrid", "born_in", "Malaysia", "--delete", "Colin", "born_in")
    assert (code, err) == (0, "")
    for words in ("1 set, 1 deleted; 7 facts now", "(Colin, born_in) has no fact now: no single best value",
                  "certified: every fact is recalled", "saved to "):  # fmt: skip
        assert words in out
    facts = load_layer(layer).database
    assert facts.fiber("Astrid", "born_in") == ("Malaysia",)
    assert facts.fiber("Colin", "born_in") == ()
    code, out, _ = call("ask", layer, "Astrid", "born_in")
    assert "-> Malaysia" in out


def test_many_edits_at_once(call, layer, tmp_path):
    (tmp_path / "one.csv").write_text("key,query,value\nAstrid,lives_in,Ringgit\n")
    (tmp_path / "two.csv").write_text("key,query,value\nBernard,lives_in,Ringgit\n")
    before = {(key, query): value for key, query, value in load_layer(layer).database}
    sets = [("Astrid", "born_in", "Malaysia"), ("--delete", "born_in", "Dollar"), ("New", "lives_in", "Ringgit")]
    words = [word for names in sets for word in ("--set", *names)]
    deletes = ["--delete", "Colin", "born_in", "--delete=Bernard", "born_in"]
    code, _, err = call("edit", *words, layer, *deletes, "--from", "one.csv", "--from", "two.csv")
    assert (code, err) == (0, "")
    expected = before | {(key, query): value for key, query, value in sets}
    expected |= {("Astrid", "lives_in"): "Ringgit", ("Bernard", "lives_in"): "Ringgit"}
    del expected["Colin", "born_in"], expected["Bernard", "born_in"]
    assert {(key, query): value for key, query, value in load_layer(layer).database} == expected


def test_edit_from_a_table(call, layer, tmp_path):
    (tmp_path / "changes.csv").write_text(
        "key,query,value\nAstrid,born_in,Malaysia\nNew,lives_in,Dollar\nColin,born_in,\n"
    )
    code, out, _ = call("edit", layer, "--from", "changes.csv", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["set"], found["deleted"], found["new_keys"], found["saved"]) == (2, 1, ["New"], True)
    assert found["answers_after_deletion"] == [{"key": "Colin", "query": "born_in", "answer": None}]
    assert found["certificate"]["certified"] is True
    after = load_layer(layer).database
    write(after, tmp_path / "after.csv")
    assert call("verify", layer, "after.csv")[0] == 0


def test_edits_that_cannot_be_made_leave_the_file(call, layer, tmp_path):
    (tmp_path / "bad.csv").write_text("key,query,value\nAstrid,born_in,Malaysia\nAstrid,likes,Malaysia\n")
    (tmp_path / "empty.csv").write_text("key,query,value\n,born_in,Malaysia\n")
    (tmp_path / "twice.csv").write_text("key,query,value\nAstrid,born_in,Malaysia\nAstrid,born_in,Dollar\n")
    old = layer.read_bytes()
    for arguments, message in (
        ((), "no changes given: use --set"),
        (("--set", "Astrid", "born_in", "Oslo"), "no free place for 'Oslo': the code of 'born_in' has 4 places"),
        (("--from", "bad.csv"), "bad.csv, line 3: no head of the layer answers the query 'likes'"),
        (("--from", "empty.csv"), "empty.csv, line 2: empty cell in column 'key'"),
        (("--from", "twice.csv"), "twice.csv, line 3: ('Astrid', 'born_in') has two conflicting changes"),
        (("--from", "missing.csv"), "missing.csv: no such file"),
        (("--delete", "Astrid", "currency"), "there is no fact for ('Astrid', 'currency') to delete"),
        (("--set", "A", "born_in"), "--set takes 3 words; got 2"),
        (("--delete=Colin",), "--delete takes 2 words; got 1"),
        (
            ("--set", "A", "born_in", "Dollar", "--set", "A", "born_in", "Ringgit"),
            "('A', 'born_in') has two conflicting changes",
        ),
        (("--set", "A", "born_in", "Dollar", "--no-header"), "describe the table of --from"),
    ):
        code, out, err = call("edit", layer, *arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err
        assert layer.read_bytes() == old
    assert (
        "parameters would fit: rebuild it with factrank construct"
        in call("edit", layer, "--set", "A", "born_in", "X")[2]
    )


def test_edits_of_other_layers(call):
    call("construct", "sample:astrid", "--only", "cp", "--budget", "0", "-o", "cp.safetensors")
    code, _, err = call("edit", "cp.safetensors", "--delete", "Colin", "born_in")
    assert code == 2
    assert "cannot be edited one by one: rebuild it with factrank construct" in err
    assert call("edit", "missing.safetensors", "--delete", "Colin", "born_in")[0] == 2
