"""`construct`, `solve` and `verify` for memories, factual recall and memorisers, and files that were tampered with."""

import json

import numpy as np
import pytest

from factrank import MemoriserShape, RandomExamples, solve
from factrank.experiments.models.model_files import FORMAT, VERSION, load
from factrank.nn.sealed_file import Sealed, read_sealed, write_sealed

CITIES = "key,query,value\nOslo,country,Norway\nLima,country,Peru\nRome,country,Italy\n"
RECALL = [word for size in ("d_model=16", "n_heads=1", "d_qk=1", "d_vo=4", "length=8") for word in ("--spec", size)]


@pytest.fixture
def memory(call, tmp_path):
    """The file of a certified memory of three facts."""
    (tmp_path / "cities.csv").write_text(CITIES)
    assert call("construct", "cities.csv", "--family", "memory", "--spec", "d_model=4", "-o", "m.safetensors")[0] == 0
    return tmp_path / "m.safetensors"


def resealed(path, change):
    """Change the content of a model file and seal it again."""
    sealed = read_sealed(path, FORMAT, VERSION)
    tensors, metadata = {name: np.array(part) for name, part in sealed.tensors.items()}, dict(sealed.metadata)
    change(tensors, metadata)
    write_sealed(path, Sealed(tensors, metadata), FORMAT, VERSION)


def test_a_memory_is_constructed_saved_and_verified(call, memory):
    code, out, err = call("verify", memory, "cities.csv", "--json")
    found = json.loads(out)
    assert (code, err, found["certified"], found["facts"], found["stored_certificate"]) == (0, "", True, 3, True)
    assert (found["parameters"], found["counted_parameters"]) == ((3 + 3) * 4 + 16, 16)
    code, out, _ = call("verify", memory)
    assert (code, "certified: every fact is recalled" in out) == (0, True)


def test_factual_recall_is_verified_for_its_length(call, tmp_path):
    (tmp_path / "cities.csv").write_text(CITIES)
    code, out, _ = call("construct", "cities.csv", "--family", "factual_recall", *RECALL, "-o", "r.safetensors")
    assert (code, "construction: logistic" in out) == (0, True)
    code, out, _ = call("verify", "r.safetensors", "--json")
    assert (code, json.loads(out)["length"]) == (0, 8)
    shorter = lambda _, metadata: metadata.update(spec=metadata["spec"].replace('"length":8', '"length":3'))  # noqa: E731
    resealed(tmp_path / "r.safetensors", shorter)
    code, out, _ = call("verify", "r.safetensors")
    assert (code, "for other content: length" in out) == (1, True)


def test_vectors_are_solved_and_verified(call, tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).random((9, 3, 5)))
    np.save(tmp_path / "y.npy", np.arange(9) % 3)
    sizes = ("--spec", "n_heads=2", "--spec", "d_model=8")
    code, out, _ = call("solve", "v.npy", "--labels", "y.npy", *sizes, "-o", "s.safetensors", "--json")
    assert (code, json.loads(out)["construction"], json.loads(out)["facts"]) == (0, "linear solve", 9)
    code, out, _ = call("verify", "s.safetensors")
    assert (code, "certified: every example is recalled" in out) == (0, True)
    assert load(tmp_path / "s.safetensors").data.labels.tolist() == [0, 1, 2] * 3
    relabelled = lambda tensors, _: tensors["data.labels"].__setitem__(0, 1)  # noqa: E731
    resealed(tmp_path / "s.safetensors", relabelled)
    code, out, _ = call("verify", "s.safetensors")
    assert (code, "1 of 9 classes are not recalled" in out, "stored facts" in out) == (1, True, True)


def test_more_labels_than_the_rank_are_not_certified(call, tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).random((40, 3, 5)))
    sizes = ("--spec", "n_heads=1", "--spec", "d_model=5")
    code, out, err = call("solve", "v.npy", *sizes, "-o", "s.safetensors")
    assert (code, "40 labels are more than the rank" in out, "nothing was saved" in err) == (1, True, True)
    assert not (tmp_path / "s.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda tensors, _: tensors.update({"model.weights": -tensors["model.weights"]}), "not certified: "),
        (lambda tensors, _: tensors.update({"model.weights": tensors["model.weights"] * 2}), "other content: weights"),
        (lambda tensors, _: tensors["data.support"].__setitem__((0, 2), 1), "not certified: "),
        (
            lambda _, metadata: metadata.update(notes='{"certificate": "{}"}'),
            "cannot be read: a certificate must have exactly",
        ),
    ],
)
def test_what_was_changed_and_sealed_again_is_noticed(call, memory, change, complaint):
    resealed(memory, change)
    code, out, err = call("verify", memory)
    assert (code, err, complaint in " ".join(out.split())) == (1, "", True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, metadata: metadata.update(spec="{"), "the spec must be JSON"),
        (lambda _, metadata: metadata.update(spec='{"kind":"unheard_of"}'), "the kind must be one of"),
        (lambda _, metadata: metadata.update(spec='{"kind":"memory","d_model":5}'), "must be float32"),
        (lambda _, metadata: metadata.update(sizes="3 3"), "expected the sizes n_keys, n_queries, n_values"),
        (lambda _, metadata: metadata.update(sizes="3 1 4"), "must be float32"),
        (lambda _, metadata: metadata.update(data="7"), "facts have no description"),
        (lambda _, metadata: metadata.update(notes="[]"), "the notes must map strings to strings"),
        (lambda _, metadata: metadata.update(more="x"), "expected exactly the metadata data, notes, sizes, spec"),
        (lambda tensors, _: tensors.pop("model.weights"), "missing 'weights'"),
        (lambda tensors, _: tensors.update(stray=np.zeros(1)), "unknown tensor 'stray'"),
        (lambda tensors, _: tensors.pop("data.support"), "the tensor 'support' is missing"),
    ],
)
def test_model_files_that_are_not_sound_name_what_is_wrong(call, memory, change, message):
    resealed(memory, change)
    code, out, err = call("verify", memory)
    assert (code, out) == (2, "")
    assert f"{memory}: not a valid model file: " in err
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["construct", "cities.csv", "--family", "memory"], "--spec: missing 'd_model'"),
        (["construct", "cities.csv", "--family", "memory", "--spec", "d_model"], "expected NAME=VALUE"),
        (["construct", "cities.csv", "--family", "memory", "--spec", "d_model=x"], "d_model must be int; got 'x'"),
        (["construct", "cities.csv", "--family", "memory", "--spec", "kind=x"], "kind must be one of memory"),
        (["construct", "cities.csv", "--family", "memory", *["--spec", "d_model=4"] * 2], "d_model is given twice"),
        (["construct", "cities.csv", "--family", "memory", "--budget", "0"], "are for attention layers"),
        (
            ["construct", "cities.csv", "--family", "memory", "--spec", "d_model=4", "--only", "x"],
            "form must be one of",
        ),
        (["construct", "cities.csv", "--family", "memoriser"], "a memoriser reads vectors"),
        (["construct", "cities.csv", "--family", "nobody"], "no family 'nobody'; the families are attention, memory"),
        (["construct", "cities.csv", "--spec", "d_model=4"], "follows from its facts"),
        (["verify", "m.safetensors", "--tolerance", "1"], "--tolerance applies only to memorisers"),
        (
            ["edit", "m.safetensors", "--delete", "Oslo", "country"],
            "m.safetensors: facts of this memory cannot be edited",
        ),
        (["ask", "m.safetensors", "Oslo", "country"], "not of the format 'factrank.layer': it is of 'factrank.model'"),
        (["verify", "other.safetensors"], "not of the format 'factrank.layer' or 'factrank.model'"),
        (["verify", "cities.csv"], "cities.csv: not a readable safetensors file"),
        (["solve", "list.npy"], "a list of vectors has no contexts"),
        (["solve", "v.npy", "--labels", "list.npy"], "list.npy: expected 4 labels"),
        (["solve", "v.npy", "--labels", "y.npy", "--classes", "3"], "--classes draws random labels"),
        (["solve", "v.npy", "--spec", "heads=2"], "unknown 'heads'"),
    ],
)
def test_bad_input_is_named(call, memory, tmp_path, words, message):
    np.save(tmp_path / "list.npy", np.ones((3, 2)))
    np.save(tmp_path / "v.npy", np.random.default_rng(0).random((4, 2, 3)))
    write_sealed(tmp_path / "other.safetensors", Sealed({"a": np.zeros(1)}, {}), "factrank.weights", 1)
    code, _, err = call(*words)
    assert code == 2
    assert message in " ".join(err.split())


def test_examples_that_no_memory_holds_are_refused_before_they_are_drawn(call, tmp_path):
    solve(RandomExamples(6, 4, 5, n_contexts=1), MemoriserShape(2, 8, 4)).save(tmp_path / "s.safetensors")

    def many(_, metadata):
        metadata["data"] = metadata["data"].replace('"n_examples":6', '"n_examples":2000000000')

    resealed(tmp_path / "s.safetensors", many)
    code, _, err = call("verify", "s.safetensors")
    assert (code, "the vectors of its examples" in err) == (2, True)
