"""Readers of real checkpoints: the numbers against reference libraries, and hostile files."""

import json
import struct
import tracemalloc
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from factrank.checkpoints.configuration import Settings
from factrank.checkpoints.readers import read_folder, read_gguf, read_lora, read_safetensors, read_state_dict
from factrank.errors import FactrankError, InputError
from planted_models import write_raw

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_rows_of_safetensors(kind, tmp_path):
    array = numbers(6, 4, 3).astype(kind)
    save_file({"a": numbers(5), "w": array, "scalar": np.array(2.0)}, tmp_path / "model.safetensors")
    tensor = read_folder(tmp_path)["w"]
    assert (tensor.rows() == array.astype(np.float64)).all()
    assert (tensor.rows(2, 5) == array[2:5].astype(np.float64)).all()
    assert read_folder(tmp_path)["scalar"].rows() == 2.0
    assert tensor.unit == 0.5 * float(ml_dtypes.finfo(kind).eps)


def test_shards_are_read_through_the_index(tmp_path):
    one, two = {"a": numbers(3, 2)}, {"b": numbers(4), "unlisted": numbers(1)}
    save_file(one, tmp_path / "one.safetensors")
    save_file(two, tmp_path / "two.safetensors")
    places = {"a": "one.safetensors", "b": "two.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    tensors = read_folder(tmp_path)
    assert set(tensors) == {"a", "b"}
    assert (tensors["a"].rows() == one["a"]).all()
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": places | {"c": "one.safetensors"}})
    )
    with pytest.raises(InputError, match="the tensor 'c' is missing"):
        read_folder(tmp_path)


def test_fp8_is_scaled_block_by_block(tmp_path):
    weight = (10 * numbers(7, 9)).astype(ml_dtypes.float8_e4m3fn)
    scales = np.abs(numbers(3, 3))
    by_row = np.abs(numbers(7, 1))
    path = tmp_path / "model.safetensors"
    write_raw(path, {"w": ("F8_E4M3", weight), "w_scale_inv": ("F32", scales)})
    settings = Settings("config.json", {"quantization_config": {"weight_block_size": [3, 4]}})
    whole = weight.astype(np.float32) * np.repeat(np.repeat(scales, 3, axis=0), 4, axis=1)[:7, :9]
    tensor = read_folder(tmp_path, settings)["w"]
    assert np.array_equal(tensor.rows(), whole)
    assert np.array_equal(tensor.rows(2, 5), whole[2:5])
    write_raw(path, {"w": ("F8_E4M3", weight), "w_scale": ("F32", by_row)})
    assert np.array_equal(read_folder(tmp_path)["w"].rows(1, 4), (weight.astype(np.float32) * by_row)[1:4])
    write_raw(path, {"w": ("F8_E4M3", weight)})
    with pytest.raises(InputError, match="'w' cannot be read: its scales are missing"):
        read_folder(tmp_path)["w"].rows()
    settings = Settings("config.json", {"quantization_config": {"weight_block_size": [0, 4]}})
    write_raw(path, {"w": ("F8_E4M3", weight), "w_scale_inv": ("F32", scales)})
    with pytest.raises(InputError, match="weight_block_size to be two positive integers"):
        read_folder(tmp_path, settings)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 12]}, "'w' of shape .* needs 16 bytes; it has 12"),
        ({"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 16]}, "'w' of shape .* needs"),
        ({"dtype": "F32", "shape": [4], "data_offsets": [0, 2**60]}, "truncated: it has"),
        ({"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}, "'w' has no type, shape and offsets"),
        ({"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}, "'w' has no type, shape and offsets"),
        ({"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]}, "'w' has no type, shape and offsets"),
        ({"dtype": "F32", "shape": 4}, "'w' has no type, shape and offsets"),
        (7, "'w' has no type, shape and offsets"),
    ],
)
def test_headers_that_do_not_fit_the_file(entry, message, tmp_path):
    text = json.dumps({"w": entry}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(InputError, match=message):
        read_safetensors(path)


def test_scales_of_fp8_that_claim_more_than_there_is(tmp_path):
    """A block wider than the matrix needs no more memory than the matrix, and a scalar has no rows to scale."""
    weight = numbers(2**12, 2).astype(ml_dtypes.float8_e4m3fn)
    scales = np.abs(numbers(2**12, 1))
    write_raw(tmp_path / "model.safetensors", {"w": ("F8_E4M3", weight), "w_scale_inv": ("F32", scales)})
    settings = Settings("config.json", {"quantization_config": {"weight_block_size": [1, 2**16]}})
    tensor = read_folder(tmp_path, settings)["w"]
    tracemalloc.start()
    rows = tensor.rows()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(rows, weight.astype(np.float32) * scales)
    assert most < 50 * weight.size
    scalar = weight.reshape(-1)[0]
    write_raw(tmp_path / "model.safetensors", {"w": ("F8_E4M3", scalar), "w_scale": ("F32", numbers())})
    with pytest.raises(InputError, match="'w' cannot be read: its scales are missing"):
        read_folder(tmp_path)["w"].rows()


def test_tensors_that_share_bytes_are_refused(tmp_path):
    entries = {
        name: {"dtype": "F32", "shape": [4], "data_offsets": at} for name, at in (("b", [12, 28]), ("a", [0, 16]))
    }
    text = json.dumps(entries).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(28))
    with pytest.raises(InputError, match="the tensors 'a' and 'b' overlap; expected each to have its own bytes"):
        read_safetensors(path)
    file = tmp_path / "model.gguf"
    later = struct.pack("<IQ", 0, 64)  # the entry of "b": its type and its offset
    assert GGUF.count(later) == 1
    file.write_bytes(GGUF.replace(later, struct.pack("<IQ", 0, 32)))
    with pytest.raises(InputError, match="the tensors 'a' and 'b' overlap"):
        read_gguf(file)


def test_nan_and_integers_are_named(tmp_path):
    save_file({"w": np.array([1, np.nan], np.float32), "ids": np.arange(3)}, tmp_path / "model.safetensors")
    tensors = read_folder(tmp_path)
    with pytest.raises(InputError, match="'w' contains NaN"):
        tensors["w"].rows()
    with pytest.raises(InputError, match="'ids' is of type I64; expected one of F64, F32"):
        tensors["ids"].rows()


def test_state_dicts_skip_what_is_no_weight():
    arrays = {"w": numbers(3, 2), "half": numbers(2).astype(np.float16), "mask": np.ones((2, 2), bool)}
    tensors = read_state_dict(arrays)
    assert set(tensors) == {"w", "half"}
    assert (tensors["w"].rows(1, 3) == arrays["w"][1:]).all()
    assert tensors["half"].rows().dtype == np.float32
    with pytest.raises(InputError, match="expected arrays"):
        read_state_dict({"w": [1.0]})


def test_lora_updates(tmp_path):
    down, up = numbers(3, 8), numbers(5, 3)
    stem = "base_model.model.model.layers.{}.self_attn.q_proj"
    for layer in (10, 9):
        tensors = {
            f"{stem.format(n)}.lora_{part}.weight": array
            for part, array in (("A", down), ("B", up))
            for n in (layer, 9)
        }
        save_file(tensors, tmp_path / "adapter_model.safetensors")
        settings = {"r": 3, "lora_alpha": 12, "peft_type": "LORA"}
        (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
        updates = read_lora(tmp_path)
        assert [update.name for update in updates] == [f"model.layers.{n}.self_attn.q_proj" for n in sorted({9, layer})]
    update = updates[0]
    assert (update.scale, update.rank, update.shape, update.parameters) == (4.0, 3, (5, 8), 39)
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | {"use_rslora": True}))
    assert read_lora(tmp_path)[0].scale == 12 / 3**0.5
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | {"alpha_pattern": {"q_proj": 6}}))
    assert read_lora(tmp_path)[0].scale == 2.0
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | {"r": 4}))
    with pytest.raises(InputError, match=r"lora_A.weight' has rank 3; adapter_config.json has 4"):
        read_lora(tmp_path)
    save_file({f"{stem.format(0)}.lora_A.weight": down}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"lora_B.weight' is missing"):
        read_lora(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | {"use_dora": True}))
    with pytest.raises(InputError, match="without DoRA"):
        read_lora(tmp_path)


def text(value):
    content = value.encode()
    return struct.pack("<Q", len(content)) + content


def gguf_bytes(tensors, settings=(), version=3):
    """A GGUF file of float32 tensors, written by hand."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(settings)) + b"".join(settings)
    data = b""
    for name, array in tensors.items():
        data += bytes(-len(data) % 32)
        head += text(name) + struct.pack("<I", array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape[::-1])
        head += struct.pack("<IQ", 0, len(data))
        data += array.tobytes()
    return head + bytes(-len(head) % 32) + data


WEIGHTS = {"a": numbers(3, 4), "b": numbers(5)}
SETTINGS = (
    text("name") + struct.pack("<I", 8) + text("tiny"),
    text("sizes") + struct.pack("<IIQ3i", 9, 5, 3, 1, 2, 3),
    text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("ä") + text("b"),
)
GGUF = gguf_bytes(WEIGHTS, SETTINGS)


def test_gguf_written_by_hand(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(GGUF)
    file = read_gguf(path)
    assert file.settings == {"name": "tiny", "sizes": [1, 2, 3], "tokenizer.ggml.tokens": None}
    assert file.tokens == ("ä", "b")
    for name, array in WEIGHTS.items():
        assert (file.tensors[name].rows() == array).all()
        assert (file.tensors[name].rows(1, 3) == array[1:3]).all()


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_gguf_as_the_library_reads_it(kind, tmp_path):
    gguf = pytest.importorskip("gguf", reason="extra 'audit' is not installed: pip install 'factrank[audit]'")
    array = numbers(6, 64)
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 3)
    wanted = gguf.GGMLQuantizationType[kind]
    writer.add_tensor("w", gguf.quants.quantize(array, wanted), raw_dtype=wanted)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    file = read_gguf(path)
    theirs = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == "w")
    reference = gguf.quants.dequantize(theirs.data, wanted).reshape(array.shape)
    assert file.settings["llama.block_count"] == 3
    assert file.tensors["w"].kind == kind
    assert np.array_equal(file.tensors["w"].rows(), reference)
    assert np.array_equal(file.tensors["w"].rows(2, 4), reference[2:4])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "claims 4 bytes, but 0 are left"),
        (b"GGML" + GGUF[4:], "does not start with GGUF"),
        (gguf_bytes(WEIGHTS, version=1), "version 1 is not supported"),
        (GGUF[:-4], "tensor 'b' of shape .5,. ends at byte .* truncated"),
        (GGUF[:60], "claims 2 entries, but 44 bytes are left"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0), "claims 4,611,686,018,427,387,904 entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62), "claims 4,611,686,018,427,387,904 entries"),
        (gguf_bytes({}, (struct.pack("<Q", 2**63),)) + bytes(64), "has a text of 9,223,372,036,854,775,808 bytes"),
        (gguf_bytes({}, (text("x") + struct.pack("<IIQ", 9, 4, 2**60),)) + bytes(64), "'x' claims"),
        (gguf_bytes({}, (text("x") + struct.pack("<IIQ", 9, 8, 2**60),)) + bytes(64), "'x' claims"),
        (gguf_bytes({}, (text("x") + struct.pack("<IIQ", 9, 9, 1),)) + bytes(64), "'x' is an array of type 9"),
        (gguf_bytes({}, (text("x") + struct.pack("<I", 99),)) + bytes(64), "'x' is of type 99"),
        (gguf_bytes({"w": np.zeros((1,) * 5, np.float32)}), "'w' has 5 dimensions"),
        (gguf_bytes({"w": np.zeros((0, 3), np.float32)}), "'w' has shape"),
        (gguf_bytes(WEIGHTS, (text("general.alignment") + struct.pack("<II", 4, 0),)), "general.alignment is 0"),
        (gguf_bytes(WEIGHTS, (SETTINGS[0], SETTINGS[0])), "'name' occurs twice"),
    ],
    ids=range(16),
)
def test_hostile_gguf_headers(content, message, tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_gguf(path)


@given(
    is_gguf=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6),
    length=st.none() | st.integers(0, 400),
)
def test_fuzzed_headers_give_tensors_or_an_error(is_gguf, changes, length, tmp_path_factory):
    """Changed bytes of either format: every tensor is read or refused, and none is larger than the file."""
    path = tmp_path_factory.getbasetemp() / ("fuzzed.gguf" if is_gguf else "fuzzed.safetensors")
    content = bytearray(GGUF if is_gguf else save(WEIGHTS))
    for place, byte in changes:
        content[place % len(content)] = byte
    path.write_bytes(content[:length])
    try:
        tensors = read_gguf(path).tensors if is_gguf else read_safetensors(path)
    except FactrankError:
        return
    for tensor in tensors.values():
        with suppress(FactrankError):
            assert tensor.rows().nbytes <= 8 * len(content)
