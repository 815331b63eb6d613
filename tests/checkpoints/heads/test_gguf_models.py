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
ENDS = (".weight", ".bias")
RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def setting(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    return text(name) + (struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<If", 6, value))


def write_gguf(path, architecture, tensors, **more):
    given = SIZES | {"attention.key_length": D_HEAD, "context_length": 64} | more
    whole = {name: value for name, value in given.items() if value is not None}
    settings = [setting("general.architecture", architecture)]
    settings += [setting(f"{architecture}.{name}", value) for name, value in whole.items()]
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


def write_folder(folder, kind, tensors, prefix="model.layers.0.", **more):
    folder.mkdir()
    settings = {"model_type": kind, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS}
    settings |= {"num_key_value_heads": KV_HEADS, "head_dim": D_HEAD, "max_position_embeddings": 64} | more
    (folder / "config.json").write_text(json.dumps(settings))
    stored = {prefix + (name if name.endswith(ENDS) else f"{name}.weight"): array for name, array in tensors.items()}
    save_file(stored, folder / "model.safetensors")
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
    d_qk, rotation = factors.query.values.shape[-1], factors.rotation
    turns = [np.eye(d_qk) if rotation is None else rotation.matrix(distance, d_qk) for distance in (0, 1, 9)]
    group = factors.group_size
    scores = [
        factors.scale * factors.query.values[head] @ turn @ factors.key.values[head // group].T
        for head in range(HEADS)
        for turn in turns
    ]
    outputs = [factors.value.values[head // group] @ factors.output.values[head] for head in range(HEADS)]
    return np.array(scores), np.array(outputs)


def require_alike(file, folder, fold):
    for ours, theirs in zip(circuits(file, fold), circuits(folder, fold), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"])
def test_gguf_has_the_circuits_of_the_folder(kind, fold, tmp_path):
    tensors = drawn(head_norms=kind in ("qwen3", "gemma3_text"))
    if kind == "qwen2":
        heads = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
        tensors |= {f"self_attn.{part}_proj.bias": numbers(n * D_HEAD) for part, n in heads.items()}
    folder = open_model(write_folder(tmp_path / "folder", kind, tensors, query_pre_attn_scalar=D_HEAD))
    if kind == "llama":
        for name, heads in (("self_attn.q_proj", HEADS), ("self_attn.k_proj", KV_HEADS)):
            tensors[name] = permuted(tensors[name], heads)
    if "gemma" in kind:
        tensors = {name: array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
    stored = {}
    for name, array in tensors.items():
        stem = name.removesuffix(".bias")
        stored[f"blk.0.{NAMES[stem]}.{'bias' if stem != name else 'weight'}"] = array
    require_alike(open_model(write_gguf(tmp_path / "m.gguf", kind.removesuffix("_text"), stored)), folder, fold)


@pytest.mark.parametrize("fold", [False, True])
def test_gguf_of_phi_3_has_one_map_and_rotates_a_part(fold, tmp_path):
    d_head = WIDTH // HEADS
    tensors = {
        "self_attn.qkv_proj": numbers((HEADS + 2 * KV_HEADS) * d_head, WIDTH),
        "self_attn.o_proj": numbers(WIDTH, WIDTH),
        "input_layernorm": numbers(WIDTH),
    }
    more = {"head_dim": None, "partial_rotary_factor": 0.5}
    folder = open_model(write_folder(tmp_path / "folder", "phi3", tensors, **more))
    names = {"self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm"}
    stored = {f"blk.0.{names[name]}.weight": array for name, array in tensors.items()}
    sizes = {"attention.key_length": None, "rope.dimension_count": d_head // 2}
    file = open_model(write_gguf(tmp_path / "m.gguf", "phi3", stored, **sizes))
    assert len(file.layer(0).rotation.frequencies) == 1
    require_alike(file, folder, fold)
    scaled = stored | {"rope_factors_short.weight": numbers(1), "rope_factors_long.weight": numbers(1)}
    by_length = open_model(write_gguf(tmp_path / "long.gguf", "phi3", scaled, **sizes)).layer(0)
    assert by_length.rotation is None
    assert "type 'longrope' are not supported" in by_length.notes[-1]


@pytest.mark.parametrize("fold", [False, True])
def test_gguf_of_gpt_2_is_transposed(fold, tmp_path):
    tensors = {
        "attn.c_attn.weight": numbers(WIDTH, 3 * WIDTH),
        "attn.c_attn.bias": numbers(3 * WIDTH),
        "attn.c_proj.weight": numbers(WIDTH, WIDTH),
        "attn.c_proj.bias": numbers(WIDTH),
        "ln_1.weight": numbers(WIDTH),
        "ln_1.bias": numbers(WIDTH),
    }
    more = {"num_key_value_heads": None, "head_dim": None}
    folder = open_model(write_folder(tmp_path / "folder", "gpt2", tensors, "h.0.", **more))
    names = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_1": "attn_norm"}
    stored = {
        f"blk.0.{names[stem]}.{part}": array.T
        for name, array in tensors.items()
        for stem, _, part in [name.rpartition(".")]
    }
    sizes = {"attention.head_count_kv": None, "attention.key_length": None}
    file = open_model(write_gguf(tmp_path / "m.gguf", "gpt2", stored, **sizes))
    assert file.layer(0).has_bias
    require_alike(file, folder, fold)
    np.testing.assert_array_equal(file.layer(0).output_bias, folder.layer(0).output_bias)


def test_scaled_rotations_of_gguf_files(tmp_path):
    """Linear and YaRN scaling by settings, llama3 by a tensor of divisors."""
    tensors = drawn(head_norms=False)
    stored = {f"blk.0.{NAMES[name]}.weight": array for name, array in tensors.items()}
    cases = {
        "linear": ({"rope_type": "linear", "factor": 4.0}, {}),
        "yarn": (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            {"rope.scaling.original_context_length": 16},
        ),
    }
    for kind, (scaling, more) in cases.items():
        folder = open_model(write_folder(tmp_path / kind, "qwen2", tensors, rope_scaling=scaling, rope_theta=50.0))
        given = {"rope.freq_base": 50.0, "rope.scaling.type": kind, "rope.scaling.factor": 4.0} | more
        file = open_model(write_gguf(tmp_path / f"{kind}.gguf", "qwen2", stored, **given))
        require_alike(file, folder, False)
        assert file.layer(0).rotation.gain == folder.layer(0).rotation.gain
    divisors = np.array([1, 2, 8], np.float32)
    file = open_model(write_gguf(tmp_path / "divided.gguf", "llama", stored | {"rope_freqs.weight": divisors}))
    np.testing.assert_allclose(file.layer(0).rotation.frequencies, 10_000.0 ** (-np.arange(3) / 3) / divisors)


def test_unknown_and_incomplete_models_are_named(tmp_path):
    tensors = {f"blk.0.{NAMES[name]}.weight": array for name, array in drawn(head_norms=False).items()}
    with pytest.raises(InputError, match=r"unknown general.architecture 'mamba'; expected one of llama"):
        open_model(write_gguf(tmp_path / "a.gguf", "mamba", tensors))
    with pytest.raises(InputError, match=r"'blk.0.attn_q.weight' has shape \(24, 16\); b.gguf implies \(20, 16\)"):
        open_model(write_gguf(tmp_path / "b.gguf", "llama", tensors, **{"attention.key_length": 5}))
    with pytest.raises(InputError, match="4 query heads cannot share 3 key and value heads"):
        open_model(write_gguf(tmp_path / "c.gguf", "llama", tensors, **{"attention.head_count_kv": 3}))
    sizes = {"block_count": 46, "attention.head_count": "four"}
    with pytest.raises(InputError, match="expected num_attention_heads to be a positive integer; got 'four'"):
        open_model(write_gguf(tmp_path / "text.gguf", "gemma2", tensors, **sizes))
    with pytest.raises(InputError, match=r"expected rope_theta of the rotation to be a positive number; got 0\.0"):
        open_model(write_gguf(tmp_path / "zero.gguf", "llama", tensors, **{"rope.freq_base": 0.0})).layer(0)
    del tensors["blk.0.attn_v.weight"]
    with pytest.raises(InputError, match=r"the tensor 'blk.0.attn_v.weight' is missing"):
        open_model(write_gguf(tmp_path / "d.gguf", "llama", tensors))
    (tmp_path / "e.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"expected a folder with config.json, or a file whose name ends in .gguf"):
        open_model(tmp_path / "e.bin")
    for kind in ("mamba", "codegen"):  # CodeGen has the order q, v, k: read as another kind it would be wrong
        folder = write_folder(tmp_path / kind, kind, {})
        with pytest.raises(InputError, match=f"unknown model_type '{kind}'; expected one of gpt2, gpt_neox, llama"):
            open_model(folder)


def test_norms_and_caps_of_a_file_are_read():
    given = {"general.architecture": "gemma2", "gemma2.attention.layer_norm_rms_epsilon": 2e-5}
    _, settings = gguf_settings("model.gguf", given | {"gemma2.attn_logit_softcapping": 50.0})
    assert (settings.entries["rms_norm_eps"], settings.entries["attn_logit_softcapping"]) == (2e-5, 50.0)
