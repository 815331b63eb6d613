"""Layer files: every layer and every text comes back as it was; every other file is refused with a reason."""

import json
import os
import struct
from itertools import pairwise, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_files import SavedLayer, load_layer, save_layer, verdict
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer, shared_rows
from factrank.nn import sealed_file
from resealed import content, documented_checksum, write

SHAPE = LayerShape(4, 2, 3, 1)
FACTS = Database.from_facts(
    [("Oslo", "country", "Norway"), ("Lima", "country", "Peru"), ("Lima", "river", "Rímac"), ("Oslo", "twin", "Lima")]
)
STRANGE = [
    "<script>alert('&amp;')</script>",
    "quo\"te's, and; commas",
    "two\nlines\r\nand\ta tab",
    "مرحبا\u202eעברית",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "é",
    "e\u0301",
    "\0\x1b[31m",
    "",
    " ",
    "x" * 100_000,
    "ß" * 100_000,
    "{}\\u0000",
]
TRANSFORMERS = [
    TransformerShape(4, 2, 3, 1),
    TransformerShape(4, 2, 3, 1, n_layers=11, mlp_width=6, positions=True, layer_norm=True),
    TransformerShape(4, 1, 3, 1, n_layers=2, attention="linear", positions=True),
    TransformerShape(4, 1, 3, 1, attention="affine", mlp_width=1),
    TransformerShape(4, 1, 2, 2, layer_norm=True, share_tokens=True),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "layer.safetensors"


def same(one, other):
    """Equal structure, types and bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


def layer_for(database, dtype="float32"):
    return init_layer(SHAPE, *database.shape, key=0, dtype=dtype)


# ---------------------------------------------------------------- what goes in comes out


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [SHAPE, *TRANSFORMERS], ids=str)
def test_every_layer_comes_back_bit_for_bit(shape, dtype, path):
    with jax.enable_x64(dtype == "float64"):
        if isinstance(shape, LayerShape):
            layer = init_layer(shape, *FACTS.shape, key=0, dtype=dtype)
        else:
            rows = shared_rows(("Oslo", "country"), tuple(FACTS.queries)) if shape.share_tokens else None
            layer = init_transformer(shape, *FACTS.shape, key=0, dtype=dtype, query_rows=rows)
    save_layer(path, layer, FACTS, notes={"version": "0.1.0", "trial": "ab\n\ud800", "": "é"})
    saved = load_layer(path)
    same(saved.layer, layer)
    assert saved.layer.embedding.dtype == dtype
    if dtype == "float32":  # the same bits in the same structure: other precisions would only compile again
        assert (saved.layer.tensor() == layer.tensor()).all()
    assert saved.notes == {"version": "0.1.0", "trial": "ab\n\ud800", "": "é"}
    assert saved.database.vocabularies == FACTS.vocabularies
    assert saved.database.triples.tolist() == FACTS.triples.tolist()


def test_numbers_that_are_none_come_back_too(path):
    layer = layer_for(FACTS)
    odd = np.asarray(layer.w_v).copy()
    odd.flat[:6] = [np.nan, np.inf, -np.inf, -0.0, 1e-42, np.uint32(0x7FA00001).view(np.float32)]
    layer = eqx.tree_at(lambda layer: layer.w_v, layer, jnp.asarray(odd))
    save_layer(path, layer, FACTS)
    same(load_layer(path).layer, layer)


def test_weights_on_the_host_are_saved_as_those_on_a_device(path):
    layer = jax.tree.map(np.asarray, layer_for(FACTS))
    assert isinstance(layer.w_q, np.ndarray)
    save_layer(path, jax.tree.map(np.asfortranarray, layer), FACTS)
    same(load_layer(path).layer, layer)


def test_names_of_every_kind_survive(path):
    facts = [(name, STRANGE[i - 1], STRANGE[i - 2]) for i, name in enumerate(STRANGE)]
    axes = [Vocabulary(column) for column in zip(*facts, strict=True)]
    codes = np.array([[axis.index(name) for axis, name in zip(axes, fact, strict=True)] for fact in facts])
    database = Database(codes, *axes)
    save_layer(path, layer_for(database), database)
    saved = load_layer(path)
    assert list(saved.database) == list(database)
    assert [list(axis) for axis in saved.database.vocabularies] == [list(axis) for axis in axes]
    assert saved.database == database


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, min_size=1, max_size=6), st.data())
@settings(max_examples=30)
def test_any_vocabulary_survives_also_as_a_part_of_a_longer_one(tmp_path_factory, names, data):
    path = tmp_path_factory.mktemp("any") / "layer.safetensors"
    start = data.draw(st.integers(0, len(names) - 1))
    whole = Vocabulary(names)
    part = Vocabulary(whole.names[start:])
    database = Database(np.zeros((0, 3), np.int32), whole, part, whole)
    save_layer(path, layer_for(database), database)
    loaded = load_layer(path).database
    assert [list(axis) for axis in loaded.vocabularies] == [names, names[start:], names]
    assert loaded == database


def test_multi_valued_facts_survive(path):
    database = Database.from_facts([("a", "q", "1"), ("a", "q", "2"), ("b", "q", "1")], multi=True)
    save_layer(path, layer_for(database), database)
    assert load_layer(path).database == database


def test_a_plain_reader_sees_the_parts_by_name_and_the_documented_checksum(path):
    layer = layer_for(FACTS)
    save_layer(path, layer, FACTS, notes={"a": "b"})
    tensors, metadata = content(path)
    assert (tensors["w_q"] == np.asarray(layer.w_q)).all()
    assert tensors["support"].tolist() == FACTS.triples.tolist()
    text, offsets = tensors["vocabulary.values.text"].tobytes(), tensors["vocabulary.values.offsets"]
    assert [text[a:b].decode() for a, b in pairwise(offsets)] == list(FACTS.values)
    assert {key: metadata[key] for key in ("format", "version", "model")} == {
        "format": "factrank.layer",
        "version": "1",
        "model": "AttentionLayer",
    }
    assert json.loads(metadata["shape"]) == {"d_model": 4, "n_heads": 2, "d_qk": 3, "d_vo": 1}
    assert metadata["sha256"] == documented_checksum(tensors, metadata)


def test_an_option_that_an_old_file_does_not_know_has_its_default(path):
    layer = init_transformer(TRANSFORMERS[0], *FACTS.shape, key=0)
    save_layer(path, layer, FACTS)
    tensors, metadata = content(path)
    shape = json.loads(metadata["shape"])
    del shape["share_tokens"]
    write(path, tensors, metadata | {"shape": json.dumps(shape)})
    same(load_layer(path).layer, layer)


# ---------------------------------------------------------------- saving


def test_a_failing_write_leaves_the_old_file(path, monkeypatch):
    save_layer(path, layer_for(FACTS), FACTS, notes={"which": "old"})

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: No space"):
        save_layer(path, layer_for(FACTS), FACTS, notes={"which": "new"})
    monkeypatch.undo()
    assert load_layer(path).notes == {"which": "old"}
    assert os.listdir(path.parent) == [path.name]
    save_layer(path, layer_for(FACTS), FACTS, notes={"which": "new"})
    assert load_layer(path).notes == {"which": "new"}


def test_what_could_not_be_loaded_is_not_saved(path):
    layer = layer_for(FACTS)
    with pytest.raises(InputError, match="does not fit the database"):
        save_layer(path, layer, Database.from_facts([("a", "b", "c")]))
    with pytest.raises(InputError, match="got float16"):
        save_layer(path, jax.tree.map(lambda part: part.astype("float16"), layer), FACTS)
    with pytest.raises(InputError, match=r"ends in \.safetensors"):
        save_layer(path.with_suffix(".csv"), layer, FACTS)
    with pytest.raises(InputError, match="the notes have more than"):
        save_layer(path, layer, FACTS, notes={"all": "x" * 2**21})
    with pytest.raises(InputError, match="cannot be written"):
        save_layer(path / "nowhere" / "a.safetensors", layer, FACTS)
    assert not os.listdir(path.parent)


# ---------------------------------------------------------------- files that are refused


def without(name):
    return lambda tensors, metadata: tensors.pop(name)


def having(name, tensor):
    return lambda tensors, metadata: tensors.update({name: np.asarray(tensor)})


def saying(**texts):
    return lambda tensors, metadata: metadata.update(texts)


SIZES = {"d_model": 4, "n_heads": 2, "d_qk": 3, "d_vo": 1}
TAMPERINGS = {
    "other format": (saying(format="pt"), "not of the format 'factrank.layer'"),
    "no format": (lambda tensors, metadata: metadata.pop("format"), "not of the format"),
    "newer": (saying(version="2"), "newer factrank .format version 2; this one reads 1"),
    "version 0": (saying(version="0"), "format version between 1 and 1; got '0'"),
    "no number": (saying(version="²"), "format version between"),
    "no version": (lambda tensors, metadata: metadata.pop("version"), "format version between"),
    "no such model": (saying(model="os.system"), "the model must be AttentionLayer or PairTransformer; got 'os.sys"),
    "no model": (
        lambda tensors, metadata: metadata.pop("model"),
        "the metadata must be exactly model, shape and notes",
    ),
    "more metadata": (saying(more=""), "the metadata must be exactly"),
    "notes no JSON": (saying(notes="{"), "notes must be JSON"),
    "notes no object": (saying(notes="[1]"), "notes must be a JSON object"),
    "notes no text": (saying(notes='{"a": 1}'), "notes must map names to strings"),
    "deep notes": (saying(notes="[" * 100_000), "notes must be JSON"),
    "shape no JSON": (saying(shape="d_model=4"), "shape must be JSON"),
    "shape of digits": (saying(shape='{"d_model": ' + "1" * 5000 + "}"), "shape must be JSON"),
    "shape lacks": (saying(shape='{"d_model": 4}'), "fields of the shape must be d_model, n_heads, d_qk, d_vo"),
    "shape more": (saying(shape=json.dumps(SIZES | {"gates": 1})), "fields of the shape must be"),
    "shape bool": (saying(shape=json.dumps(SIZES | {"n_heads": True})), "n_heads in the shape must be of type int"),
    "shape zero": (saying(shape=json.dumps(SIZES | {"n_heads": 0})), "n_heads must be an integer of at least 1"),
    "shape other": (
        saying(shape=json.dumps(SIZES | {"d_vo": 2})),
        r"w_\w must be float32, float64 or bfloat16 of shape \[2",
    ),
    "shape absurd": (
        saying(shape=json.dumps(SIZES | {"d_model": 10**18})),
        "must be float32, float64 or bfloat16 of shape",
    ),
    "billions of layers": (
        saying(model="PairTransformer", shape=json.dumps(SIZES | {"n_layers": 10**12})),
        "expected the parts of 1000000000000 layers; got only 6 arrays",
    ),
    "unknown attention": (
        saying(model="PairTransformer", shape=json.dumps(SIZES | {"attention": ["softmax"]})),
        "attention in the shape must be softmax or linear or affine",
    ),
    "a model of another kind": (saying(model="PairTransformer"), "missing 'blocks.0.w_k'"),
    "part missing": (without("w_o"), "missing 'w_o', unknown none"),
    "part unknown": (having("w_x", np.zeros(3)), "missing none, unknown 'w_x'"),
    "part wrongly shaped": (
        having("w_o", np.zeros((2, 4, 1))),
        r"w_o must be .* \[2, 1, 4\]; got float64 of shape \[2, 4",
    ),
    "part of integers": (
        having("w_o", np.zeros((2, 1, 4), np.int32)),
        "w_o must be float32, float64 or bfloat16 .* got int32",
    ),
    "half precision": (having("w_o", np.zeros((2, 1, 4), np.float16)), "'w_o' is of type F16; expected one of F32"),
    "scalar part": (having("embedding", np.float32(1)), "embedding must be"),
    "no facts": (without("support"), "the tensor 'support' is missing"),
    "flat facts": (having("support", np.zeros(3, np.int32)), "support must be int32 with 2 dimensions"),
    "wide facts": (having("support", np.zeros((2, 4), np.int32)), "support must have 3 columns"),
    "long facts": (having("support", np.zeros((2, 3), np.int64)), "support must be int32"),
    "code too large": (having("support", np.array([[0, 0, 4]], np.int32)), "support: .* outside the vocabularies"),
    "code below zero": (having("support", np.array([[0, -1, 0]], np.int32)), "support: .* outside the vocabularies"),
    "no offsets": (without("vocabulary.keys.offsets"), "'vocabulary.keys.offsets' is missing"),
    "empty offsets": (
        having("vocabulary.keys.offsets", np.zeros(0, np.int64)),
        "offsets must increase from 0 to the 8 bytes",
    ),
    "offsets fall": (having("vocabulary.keys.offsets", np.array([0, 9, 8])), "offsets must increase"),
    "offsets begin late": (having("vocabulary.keys.offsets", np.array([1, 4, 8])), "offsets must increase"),
    "offsets end late": (having("vocabulary.keys.offsets", np.array([0, 4, 2**62])), "offsets must increase"),
    "offsets end early": (having("vocabulary.keys.offsets", np.array([0, 4, 7])), "offsets must increase"),
    "offsets below": (having("vocabulary.keys.offsets", np.array([0, -(2**63), 8])), "offsets must increase"),
    "fewer names": (having("vocabulary.keys.offsets", np.array([0, 8])), "support: .* outside"),
    "more names": (having("vocabulary.values.offsets", np.array([0, 1, 6, 10, 16, 20])), "unembedding must be"),
    "not UTF-8": (having("vocabulary.keys.text", np.full(8, 255, np.uint8)), "vocabulary.keys.text is not UTF-8"),
    "half a letter": (having("vocabulary.keys.text", np.frombuffer("OslélLi".encode(), np.uint8)), "keys.* not UTF-8"),
    "a surrogate": (having("vocabulary.keys.text", np.frombuffer(b"Osl\xed\xa0\x80ma", np.uint8)), "keys.* not UTF-8"),
    "a name twice": (having("vocabulary.keys.text", np.frombuffer(b"OsloOslo", np.uint8)), "keys: .* distinct names"),
    "text of integers": (having("vocabulary.keys.text", np.zeros(8, np.int32)), "text must be uint8 with 1 dimension;"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_file_that_is_sealed_but_unsound_says_why(tampering, path):
    save_layer(path, layer_for(FACTS), FACTS)
    tensors, metadata = content(path)
    change, message = TAMPERINGS[tampering]
    change(tensors, metadata)
    write(path, tensors, metadata)
    with pytest.raises(InputError, match=message) as caught:
        load_layer(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("part", ["w_q", "support", "vocabulary.queries.text", "vocabulary.queries.offsets"])
def test_a_changed_number_breaks_the_seal(part, path):
    save_layer(path, layer_for(FACTS), FACTS)
    tensors, metadata = content(path)
    tensors[part].flat[-1] += 1
    write(path, tensors, metadata, seal=False)
    with pytest.raises(InputError, match="checksum does not match the content; the file was modified or is corrupt"):
        load_layer(path)


@pytest.mark.parametrize("seal", [None, "", "0" * 64, "sha256", "é" * 64])
def test_a_broken_or_missing_seal_is_noticed(seal, path):
    save_layer(path, layer_for(FACTS), FACTS)
    tensors, metadata = content(path)
    metadata = {key: text for key, text in metadata.items() if key != "sha256"} | (
        {} if seal is None else {"sha256": seal}
    )
    write(path, tensors, metadata, seal=False)
    with pytest.raises(InputError, match="checksum"):
        load_layer(path)


def headed(header, rest=b""):
    return struct.pack("<Q", len(header)) + header + rest


MARK = '"__metadata__":{"format":"factrank.layer","version":"1"}'
HOSTILE = {
    "empty": b"",
    "text": b"key,query,value\nOslo,country,Norway\n",
    "zip": b"PK\x03\x04" + bytes(100),
    "pickle": b"cos\nsystem\n(S'exit 1'\ntR.",
    "endless header": struct.pack("<Q", 2**63 - 1) + b"{}",
    "long header": struct.pack("<Q", 10**8 - 1) + b"{}",
    "deep header": headed(b"[" * 10_000),
    "header no UTF-8": headed(b'{"\xff":1}'),
    "no tensors": headed(f"{{{MARK}}}".encode()),
    "nothing": headed(b"{}"),
    "metadata no text": headed(b'{"__metadata__":{"format":1}}'),
    "tensor of 2**62": headed(
        f'{{{MARK},"a":{{"dtype":"F32","shape":[{2**62}],"data_offsets":[0,{2**64}]}}}}'.encode()
    ),
    "tensor past the end": headed(f'{{{MARK},"a":{{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}}}'.encode(), b"123"),
    "bytes of no tensor": headed(f"{{{MARK}}}".encode(), b"123"),
    "overflowing sizes": headed(
        f'{{{MARK},"a":{{"dtype":"F32","shape":[0,{2**62},{2**62}],"data_offsets":[0,0]}}}}'.encode()
    ),
    "half a byte": headed(f'{{{MARK},"a":{{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}}}'.encode(), b"1"),
    "unknown type": headed(f'{{{MARK},"a":{{"dtype":"OBJ","shape":[1],"data_offsets":[0,1]}}}}'.encode(), b"1"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_other_and_hostile_files_are_refused(kind, path):
    path.write_bytes(HOSTILE[kind])
    with pytest.raises(InputError) as caught:
        load_layer(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_what_is_no_file_is_refused(path, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_layer(path)
    with pytest.raises(InputError, match="is a directory"):
        load_layer(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        load_layer("a\0b")


def test_a_foreign_safetensors_file_is_told_apart(path):
    path.write_bytes(safetensors.numpy.save({"wte.weight": np.zeros((2, 2), np.float32)}))
    with pytest.raises(InputError, match="a safetensors file, but not of the format"):
        load_layer(path)


def test_a_file_larger_than_any_layer_is_not_read(path, monkeypatch):
    with path.open("wb") as file:  # takes no room on the disk
        header = f'{{{MARK},"a":{{"dtype":"U8","shape":[{2**36}],"data_offsets":[0,{2**36}]}}}}'.encode()
        file.write(headed(header))
        file.truncate(file.tell() + 2**36)
    with pytest.raises(InputError, match=r"64\.0 GiB, but a layer file has at most 16"):
        load_layer(path)
    path.unlink()
    monkeypatch.setattr(sealed_file, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="a layer file has at most"):
        save_layer(path, init_layer(LayerShape(40, 2, 3, 1), *FACTS.shape, key=0), FACTS)


def test_every_flipped_byte_and_every_truncation_is_noticed(path):
    """Or it is an accident without consequence: a space of the header that became another blank."""
    save_layer(path, layer_for(FACTS), FACTS, notes={"note": "text"})
    whole, before = path.read_bytes(), content(path)
    rng = np.random.default_rng(0)
    for at, change in enumerate(rng.integers(1, 256, size=len(whole))):
        damaged = bytearray(whole)
        damaged[at] ^= int(change)
        path.write_bytes(damaged)
        try:
            load_layer(path)
        except InputError:
            continue
        tensors, metadata = content(path)
        assert metadata == before[1]
        assert {n: (t.dtype, t.tobytes()) for n, t in tensors.items()} == {
            n: (t.dtype, t.tobytes()) for n, t in before[0].items()
        }
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="truncated"):
            load_layer(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="not a readable safetensors file"):
        load_layer(path)


# ---------------------------------------------------------------- verdict


def test_the_verdict_is_what_the_facts_say():
    database = Database.from_facts(
        [("a", "p", "1"), ("a", "q", "2"), ("b", "q", "1"), ("b", "q", "2"), ("c", "p", "3")], multi=True
    )
    saved = SavedLayer(layer_for(database), database)
    facts = set(database)
    for codes in product(*map(range, database.shape)):
        key, query, value = (axis[code] for axis, code in zip(database.vocabularies, codes, strict=True))
        expected = (
            "fact" if (key, query, value) in facts else "error" if database.fiber(key, query) else "hallucination"
        )
        assert verdict(saved.database, *codes) == expected
    with pytest.raises(InputError, match="query code must be between 0 and 1; got 2"):
        verdict(saved.database, 0, 2, 0)
