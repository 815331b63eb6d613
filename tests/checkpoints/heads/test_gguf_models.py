"""GGUF files against folders: the same circuits from the names, permutations and gains that llama.cpp writes."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from factrank.checkpoints.heads import open_model
from factrank.checkpoints.heads.architecture_table import gguf_settings
from factrank.errors import InputError

WIDTH, HEADS, KV_HEADS, D_HEAD = 16, 4, 2, 6
SIZES = {
    "embedding_length": WIDTH,
    "block_count": 1,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
}
RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_gguf(path, architecture, tensors, **more):
    whole = SIZES | {"attention.key_length": D_HEAD, "context_length": 64} | more
    settings = [text("general.architecture") + struct.pack("<I", 8) + text(architecture)]
    settings += [text(f"{architecture}.{name}") + struct.pack("<II", 4, value) for name, value in whole.items()]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings)) + b"".join(settings)
    data = b""
    for name, array in tensors.items():
        data += bytes(-len(data) % 32)
        head += text(name) + struct.pack(f"<I{array.ndim}QIQ", array.ndim, *array.shape[::-1], 0, len(data))
        data += np.ascontiguousarray(array).tobytes()
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def permuted(weight, n_heads):
    """The rows of queries and keys as llama.cpp orders them: the two halves of each head interleaved."""
    return weight.reshape(n_heads, 2, D_HEAD // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_folder(folder, kind, tensors):
    folder.mkdir()
    settings = {"model_type": kind, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS}
    settings |= {"num_key_value_heads": KV_HEADS, "head_dim": D_HEAD, "max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(settings))
    save_file({f"model.layers.0.{name}.weight": array for name, array in tensors.items()}, folder / "model.safetensors")
    return folder


NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
}


def drawn(*, head_norms):
    tensors = {
        "self_attn.q_proj": numbers(HEADS * D_HEAD, WIDTH),
        "self_attn.k_proj": numbers(KV_HEADS * D_HEAD, WIDTH),
        "self_attn.v_proj": numbers(KV_HEADS * D_HEAD, WIDTH),
        "self_attn.o_proj": numbers(WIDTH, HEADS * D_HEAD),
        "input_layernorm": numbers(WIDTH),
        "post_attention_layernorm": numbers(WIDTH),
    }
    return tensors | ({"self_attn.q_norm": numbers(D_HEAD), "self_attn.k_norm": numbers(D_HEAD)} if head_norms else {})


def circuits(model, fold):
    factors = model.layer(0, fold=fold)
    turns = [factors.rotation.matrix(distance, D_HEAD) for distance in (0, 1, 9)]
    group = factors.group_size
    scores = [
        factors.scale * factors.query.values[head] @ turn @ factors.key.values[head // group].T
        for head in range(HEADS)
        for turn in turns
    ]
    outputs = [factors.value.values[head // group] @ factors.output.values[head] for head in range(HEADS)]
    return np.array(scores), np.array(outputs)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3_text"])
def test_gguf_has_the_circuits_of_the_folder(kind, fold, tmp_path):
    tensors = drawn(head_norms=kind != "llama")
    folder = open_model(write_folder(tmp_path / "folder", kind, tensors))
    if kind == "llama":
        for name, heads in (("self_attn.q_proj", HEADS), ("self_attn.k_proj", KV_HEADS)):
            tensors[name] = permuted(tensors[name], heads)
    if "gemma" in kind:
        tensors = {name: array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
    stored = {f"blk.0.{NAMES[name]}.weight": array for name, array in tensors.items()}
    file = open_model(write_gguf(tmp_path / "model.gguf", kind.removesuffix("_text"), stored))
    for ours, theirs in zip(circuits(file, fold), circuits(folder, fold), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_unknown_and_incomplete_models_are_named(tmp_path):
    tensors = {f"blk.0.{NAMES[name]}.weight": array for name, array in drawn(head_norms=False).items()}
    with pytest.raises(InputError, match=r"unknown general.architecture 'mamba'; expected one of llama"):
        open_model(write_gguf(tmp_path / "a.gguf", "mamba", tensors))
    with pytest.raises(InputError, match=r"'blk.0.attn_q.weight' has shape \(24, 16\); b.gguf implies \(20, 16\)"):
        open_model(write_gguf(tmp_path / "b.gguf", "llama", tensors, **{"attention.key_length": 5}))
    with pytest.raises(InputError, match="4 query heads cannot share 3 key and value heads"):
        open_model(write_gguf(tmp_path / "c.gguf", "llama", tensors, **{"attention.head_count_kv": 3}))
    del tensors["blk.0.attn_v.weight"]
    with pytest.raises(InputError, match=r"the tensor 'blk.0.attn_v.weight' is missing"):
        open_model(write_gguf(tmp_path / "d.gguf", "llama", tensors))
    (tmp_path / "e.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"expected a folder with config.json, or a file whose name ends in .gguf"):
        open_model(tmp_path / "e.bin")
    folder = write_folder(tmp_path / "f", "mamba", {})
    with pytest.raises(InputError, match="unknown model_type 'mamba'; expected one of gpt2, gpt_neox, llama"):
        open_model(folder)


def test_norms_and_caps_of_a_file_are_read():
    given = {"general.architecture": "gemma2", "gemma2.attention.layer_norm_rms_epsilon": 2e-5}
    _, settings = gguf_settings("model.gguf", given | {"gemma2.attn_logit_softcapping": 50.0})
    assert (settings.entries["rms_norm_eps"], settings.entries["attn_logit_softcapping"]) == (2e-5, 50.0)
