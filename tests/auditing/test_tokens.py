"""From files, folders and models to queries and contexts, and what is refused on the way."""

import json
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from factrank.auditing.tokens import Request, token_vectors
from factrank.auditing.vector_files import read_vectors
from factrank.checkpoints.checkpoint import read_model
from factrank.checkpoints.token_representations import tokens_of
from factrank.checkpoints.token_sources import digit_images, passage, windows, word_ids, words_of
from factrank.errors import InputError
from tiny_checkpoints import drawn_weights, inputs_of, write_checkpoint


def test_vectors_come_back_as_they_were_written(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    save_file({"one": vectors, "two": vectors[0]}, tmp_path / "a.safetensors")
    save_file({"only": vectors.astype(ml_dtypes.bfloat16)}, tmp_path / "b.safetensors")
    assert (read_vectors(tmp_path / "a.npy") == vectors).all()
    assert (read_vectors(tmp_path / "a.safetensors", "two") == vectors[0]).all()
    assert (read_vectors(tmp_path / "b.safetensors") == vectors.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
    np.save(tmp_path / "wide.npy", vectors.astype(np.longdouble))
    assert read_vectors(tmp_path / "wide.npy").dtype == np.float64
    assert (read_vectors(tmp_path / "wide.npy") == vectors).all()
    with pytest.raises(InputError, match="several tensors; choose one with --tensor; the tensors are 'one', 'two'"):
        read_vectors(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="has no tensor 'three'"):
        read_vectors(tmp_path / "a.safetensors", "three")


def npy_bytes(header):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def safetensors_bytes(header, n_bytes):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(n_bytes)


def test_tensors_that_cannot_be_read_are_refused_with_the_reason(tmp_path):
    path = tmp_path / "a.safetensors"

    def refused(message, header, n_bytes=12):
        path.write_bytes(safetensors_bytes(header, n_bytes))
        with pytest.raises(InputError, match=message) as caught:
            read_vectors(path)
        assert str(caught.value).isprintable()

    for kind in ("F8_E4M3", "F8_E5M2", "BOOL"):
        refused(f"'x' is of type {kind}; expected one of F64, ", {"x": entry(kind, [3, 4], 0, 12)})
    refused("contains no tensors$", {}, 0)
    refused(
        r"the tensors are '\\x1b\[31m\\n', 'b'", {"\x1b[31m\n": entry("I8", [12], 0, 12), "b": entry("I8", [0], 12, 12)}
    )


def entry(kind, shape, start, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


def test_bad_files_are_refused_with_the_reason(tmp_path):
    def refused(message, name, content):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content, allow_pickle=True)
        with pytest.raises(InputError, match=message) as caught:
            read_vectors(path)
        assert name in str(caught.value)

    refused("not a readable .npy file of plain numbers", "a.npy", np.array([{}, None], dtype=object))
    refused("not a readable .npy file of plain numbers", "b.npy", pickle.dumps([1]))
    refused("not a readable .npy file of plain numbers", "c.npy", b"")
    np.save(tmp_path / "whole.npy", np.eye(9))
    refused("not a readable .npy file of plain numbers", "d.npy", (tmp_path / "whole.npy").read_bytes()[:-8])
    refused("expected finite numbers; got nan at .1, 1.", "e.npy", np.array([[1.0, 2.0], [3.0, np.nan]]))
    refused(r"expected \[vectors, dimension\] or .* got \(3,\)", "f.npy", np.ones(3))
    refused(r"got \(0, 3\)", "g.npy", np.ones((0, 3)))
    refused("expected real numbers; got type <U1", "h.npy", np.array([["a"]]))
    refused("expected real numbers; got type complex128", "i.npy", np.ones((2, 2), complex))
    for header in ("{1:1,'a':2}", "(((", "{'descr':'<f8','fortran_order':False,'shape':(3,True)}", "-" * 8000 + "1"):
        refused("not a readable .npy file of plain numbers", "l.npy", npy_bytes(header) + bytes(24))
    save_file({"x": np.eye(3)}, tmp_path / "whole.safetensors")
    cut = (tmp_path / "whole.safetensors").read_bytes()[:-1]
    refused("truncated: it has", "j.safetensors", cut)
    refused("ends in .npy or .safetensors", "k.bin", b"abc")
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "none.npy")


def test_contexts_and_queries_of_a_file(tmp_path):
    contexts = np.random.default_rng(1).normal(size=(5, 3, 4))
    np.save(tmp_path / "a.npy", contexts)
    source = str(tmp_path / "a.npy")
    for query, expected in (
        ("model", contexts[:, 0]),
        ("first", contexts[:, 0]),
        ("last", contexts[:, 2]),
        ("all", contexts.reshape(15, 4)),
    ):
        found = token_vectors(Request(source, query=query))
        assert (found.queries == expected).all()
        assert (found.contexts == contexts).all()
        assert found.context_size == 3
    mixed = token_vectors(Request(source, query="last", with_mean=True)).queries
    np.testing.assert_allclose(mixed, contexts[:, 2] + contexts.mean(axis=1))
    np.save(tmp_path / "b.npy", contexts[0])
    alone = token_vectors(Request(str(tmp_path / "b.npy"), context_size=2))
    assert alone.contexts is None
    assert (alone.queries == contexts[0]).all()


def test_ids_and_images_reach_the_model(tmp_path):
    folder = write_checkpoint(tmp_path / "gpt2", "gpt2", drawn_weights("gpt2"))
    ids = inputs_of("gpt2")
    np.save(tmp_path / "ids.npy", ids)
    found = token_vectors(Request(str(folder), "positions", ids=tmp_path / "ids.npy"))
    expected = tokens_of(read_model(folder), ids, "positions")
    assert (found.contexts == expected).all()
    assert (found.queries == expected[:, -1]).all()
    np.save(tmp_path / "text.npy", ids[0])
    cut = token_vectors(Request(str(folder), "embedding", ids=tmp_path / "text.npy", context_size=3))
    assert cut.contexts.shape == (5, 3, 12)
    folder = write_checkpoint(tmp_path / "vit", "vit", drawn_weights("vit"))
    np.save(tmp_path / "images.npy", inputs_of("vit"))
    found = token_vectors(Request(str(folder), images=str(tmp_path / "images.npy"), examples=2))
    assert (found.contexts == tokens_of(read_model(folder), inputs_of("vit")[:2], "attention")).all()
    random = token_vectors(Request(str(folder), images=str(tmp_path / "images.npy"), random=True, seed=3))
    assert random.contexts.shape == (3, 5, 12)
    assert "random ViT" in random.title


def test_text_reaches_a_checkpoint_by_its_own_tokeniser(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="extra 'audit' is not installed")
    folder = write_checkpoint(tmp_path / "bert", "bert", drawn_weights("bert"))
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "a": 2, "b": 3, "c": 4}
    tokeniser = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    tokeniser.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokeniser.enable_truncation(2)
    tokeniser.save(str(folder / "tokenizer.json"))
    (tmp_path / "text.txt").write_text("a b c z")
    found = token_vectors(Request(str(folder), "embedding", text=str(tmp_path / "text.txt"), context_size=3))
    expected = np.array([[1, 2, 3], [1, 3, 4], [1, 4, 0]])
    assert (found.contexts == tokens_of(read_model(folder), expected, "embedding")).all()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a readable tokeniser"):
        token_vectors(Request(str(folder)))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer\.json: no such file"):
        token_vectors(Request(str(folder)))


def test_missing_extras_are_named(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "bert", "bert", drawn_weights("bert"))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install 'factrank\[audit\]'"):
        token_vectors(Request(str(folder)))
    with pytest.raises(InputError, match=r"scikit-learn: pip install 'factrank\[audit\]'"):
        token_vectors(Request("random:vit"))
    assert token_vectors(Request("random:gpt2", examples=4)).contexts.shape == (4, 16, 64)


def test_requests_that_make_no_sense_are_refused(tmp_path):
    folder = str(write_checkpoint(tmp_path / "gpt2", "gpt2", drawn_weights("gpt2")))
    vit = str(write_checkpoint(tmp_path / "vit", "vit", drawn_weights("vit")))
    np.save(tmp_path / "b.npy", np.eye(4))
    np.save(tmp_path / "c.npy", np.ones((2, 3, 4)))
    np.save(tmp_path / "ids.npy", inputs_of("gpt2"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    vectors, contexts, ids = str(tmp_path / "b.npy"), str(tmp_path / "c.npy"), tmp_path / "ids.npy"
    for request, message in (
        (Request(vectors, text="sample:passage"), "does not take --text"),
        (Request(vectors, random=True), "does not take --random"),
        (Request(vectors, "attention"), "does not take --stage"),
        (Request(contexts, examples=500), "does not take --examples"),
        (Request(vectors, tensor="x"), "omit --tensor"),
        (Request(vectors, query="last"), "every vector is a query"),
        (Request(contexts, context_size=2), "omit --context-size"),
        (Request(contexts, query="all", with_mean=True), "one query per context"),
        (Request(folder, images="sample:digits"), "GPT-2 does not take --images"),
        (Request(folder, tensor="x"), "--tensor is for files"),
        (Request(folder, ids=ids, text="sample:passage"), "use --text or --ids"),
        (Request(folder, ids=ids, context_size=3), "have 7 tokens"),
        (Request(folder, ids=tmp_path / "b.npy"), "expected integers"),
        (Request(folder, text="sample:novel"), "the bundled text is sample:passage"),
        (Request(folder, text=str(tmp_path / "latin.txt")), "not UTF-8"),
        (Request(folder, text=str(tmp_path / "none.txt")), "no such file"),
        (Request(vit, text="sample:passage"), "ViT does not take --text"),
        (Request(vit, context_size=5), "ViT does not take --context-size"),
        (Request(vit, images="sample:cats"), "the bundled images are sample:digits"),
        (Request(vit, images=vectors), "expected numbers .examples, channels"),
        (Request("random:bert", ids=ids), "omit --ids"),
        (Request("random:llama"), "unknown family 'llama'; expected one of vit, bert, gpt2"),
        (Request(str(tmp_path / "nothing")), "no such file"),
    ):
        with pytest.raises(InputError, match=message):
            token_vectors(request)


# ---------------------------------------------------------------- bundled text and images


def test_the_passage_and_its_words():
    words = words_of(passage())
    ids, vocabulary = word_ids(passage())
    assert [vocabulary[i] for i in ids] == words
    assert words[:6] == ["four", "score", "and", "seven", "years", "ago"]
    assert words[-6:] == ["not", "perish", "from", "the", "earth", "."]
    assert words.count("nation") == 5
    assert sum(word.isalpha() for word in words) == 272  # battle-field counts as two


def test_windows_are_stretches_of_the_text():
    ids = np.arange(100, 140)
    for size, most in ((1, 1), (7, 5), (40, 9), (3, 1000)):
        cut = windows(ids, size, most)
        assert len(cut) == min(most, 40 - size + 1)
        assert (np.diff(cut, axis=1) == 1).all()
        assert (np.diff(cut[:, 0]) > 0).all()
        assert cut[0, 0] == 100
        assert len(cut) == 1 or cut[-1, -1] == 139
    for size, most in ((0, 1), (41, 1), (1, 0)):
        with pytest.raises(InputError):
            windows(ids, size, most)


def test_the_digits():
    pytest.importorskip("sklearn", reason="extra 'audit' is not installed: pip install 'factrank[audit]'")
    images = digit_images(10)
    assert images.shape == (10, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
