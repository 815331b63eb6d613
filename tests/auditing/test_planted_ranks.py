"""Exact ranks of planted heads: every architecture in its own layout, shared key and value heads, biases, FP8."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from factrank.auditing import audit
from factrank.checkpoints.heads.architecture_table import ENTRIES
from planted_architectures import CASES, planted
from planted_models import write_raw


def audited(made, fold=None, dtype=np.float32):
    tensors = {name: array.astype(dtype) for name, array in made.tensors.items()}
    return audit(tensors, settings=made.settings, fold=fold)


def ranks_of(found):
    return [[(head.qk.rank, head.ov.rank) for head in layer.heads] for layer in found.layers]


def test_every_architecture_has_a_planted_model():
    assert {name.split()[0] for name in CASES} == set(ENTRIES)


@pytest.mark.parametrize("fold", [None, "norm"])
@pytest.mark.parametrize("name", CASES)
def test_planted_ranks_are_exact(name, fold):
    """In float32, at every distance; each head has ranks of its own, so heads that are confused differ."""
    made = planted(name)
    found = audited(made, fold)
    assert ranks_of(found) == [made.ranks] * len(found.layers)
    assert len(set(made.ranks)) > 2
    for layer in found.layers:
        for head, (rank, _) in zip(layer.heads, made.ranks, strict=True):
            assert {at.rank for at in head.distances} <= {rank}


@pytest.mark.parametrize(("heads", "kv_heads"), [(14, 2), (9, 3), (4, 1)])
def test_heads_share_the_keys_and_values_of_their_group(heads, kv_heads):
    """Each key head and value head has a rank of its own, and queries and outputs are full."""
    rng, d, width = np.random.default_rng(0), 6, 30
    planted_ranks = [(2 + group, 5 - group) for group in range(kv_heads)]
    keys = [rng.normal(size=(d, rank)) @ rng.normal(size=(rank, width)) for rank, _ in planted_ranks]
    values = [rng.normal(size=(d, rank)) @ rng.normal(size=(rank, width)) for _, rank in planted_ranks]
    stem = "model.layers.0."
    tensors = {
        f"{stem}self_attn.q_proj.weight": rng.normal(size=(heads * d, width)),
        f"{stem}self_attn.k_proj.weight": np.concatenate(keys),
        f"{stem}self_attn.v_proj.weight": np.concatenate(values),
        f"{stem}self_attn.o_proj.weight": rng.normal(size=(width, heads * d)),
        f"{stem}input_layernorm.weight": np.ones(width),
    }
    settings = {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": d,
    }
    (layer,) = audit({name: array.astype(np.float32) for name, array in tensors.items()}, settings=settings).layers
    size = heads // kv_heads
    assert [head.kv_head for head in layer.heads] == [head // size for head in range(heads)]
    assert [(head.qk.rank, head.ov.rank) for head in layer.heads] == [planted_ranks[h // size] for h in range(heads)]
    assert [(group.qk.rank, group.ov.rank) for group in layer.groups] == planted_ranks


def test_spectra_of_fp8_with_block_scales(tmp_path):
    """DeepSeek's storage: small integers, which FP8 has exactly, times one scale per block of 3 x 4."""
    made = planted("deepseek_v3")
    rng, raw, exact = np.random.default_rng(1), {}, {}
    for name, array in made.tensors.items():
        if "_proj" not in name:
            raw[name] = ("F32", array.astype(np.float32))
            exact[name] = raw[name][1]
            continue
        rounded = np.round(array / np.abs(array).max() * 8)
        scales = np.exp2(rng.integers(-3, 3, (-(-array.shape[0] // 3), -(-array.shape[1] // 4)))).astype(np.float32)
        raw[name] = ("F8_E4M3", rounded.astype(ml_dtypes.float8_e4m3fn))
        raw[f"{name}_scale_inv"] = ("F32", scales)
        blocks = np.repeat(np.repeat(scales, 3, axis=0), 4, axis=1)[: array.shape[0], : array.shape[1]]
        exact[name] = (rounded * blocks).astype(np.float32)
    write_raw(tmp_path / "model.safetensors", raw)
    settings = made.settings | {"quantization_config": {"weight_block_size": [3, 4]}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    found, direct = audit(tmp_path), audit(exact, settings=made.settings)
    assert "weights stored as F8_E4M3" in found.layers[0].convention
    for ours, theirs in zip(found.heads, direct.heads, strict=True):
        assert ours.qk.values == theirs.qk.values
        assert ours.ov.values == theirs.ov.values
        assert ours.qk.rank <= theirs.qk.rank  # rounding to FP8 may have changed more


def test_folders_and_state_dicts_have_the_same_ranks(tmp_path):
    made = planted("phi3")
    save_file({name: array.astype(np.float32) for name, array in made.tensors.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(made.settings))
    assert ranks_of(audit(tmp_path)) == ranks_of(audited(made))
