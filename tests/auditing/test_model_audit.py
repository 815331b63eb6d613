"""Audits of planted models: ranks that are known, spectra against dense matrices, and the command."""

import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import factrank
from factrank.auditing import LoraAudit, ModelAudit, Spectrum, audit, audit_layer, most_facts
from factrank.checkpoints.heads import open_model
from factrank.errors import InputError
from planted_models import D_HEAD, HEADS, KV_HEADS, LAYERS, WIDTH, llama_tensors, write_model


def dense_circuits(model, layer, head, fold, distance=0):
    """QK and OV of a head as matrices of width x width, by their formulas."""
    factors = model.layer(layer, fold=fold)
    kv_head = head // factors.group_size
    turn = factors.rotation.matrix(distance, D_HEAD)
    qk = factors.scale * factors.query.values[head] @ turn @ factors.key.values[kv_head].T
    return qk, factors.value.values[kv_head] @ factors.output.values[head]


def singular(matrix, n=D_HEAD):
    return np.linalg.svd(matrix, compute_uv=False)[:n]


@pytest.mark.parametrize("fold", [None, "norm"])
def test_spectra_are_those_of_the_dense_circuits(fold, tmp_path):
    model = open_model(write_model(tmp_path / "m", llama_tensors()))
    found = audit_layer(model, 1, fold=fold == "norm")
    for head in range(HEADS):
        qk, ov = dense_circuits(model, 1, head, fold == "norm")
        np.testing.assert_allclose(found.heads[head].qk.values, singular(qk), rtol=1e-10)
        np.testing.assert_allclose(found.heads[head].ov.values, singular(ov), rtol=1e-10)
        for at in found.heads[head].distances:
            values = singular(dense_circuits(model, 1, head, fold == "norm", at.distance)[0])
            fractions = values / values.sum()
            assert at.effective_rank == pytest.approx(np.exp(-(fractions * np.log(fractions)).sum()))
            assert at.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2)
    assert [at.distance for at in found.heads[0].distances] == [0, 1, 4, 16]  # of 50 positions
    effective = [at.effective_rank for at in found.heads[0].distances]
    assert len(set(np.round(effective, 6))) == 4


def test_groups_stack_their_heads(tmp_path):
    model = open_model(write_model(tmp_path / "m", llama_tensors()))
    found = audit_layer(model, 0)
    assert len(found.groups) == KV_HEADS
    for group in range(KV_HEADS):
        heads = range(group * HEADS // KV_HEADS, (group + 1) * HEADS // KV_HEADS)
        pairs = [dense_circuits(model, 0, head, False) for head in heads]
        stacked_qk, stacked_ov = (
            np.concatenate([qk for qk, _ in pairs]),
            np.concatenate([ov for _, ov in pairs], axis=1),
        )
        np.testing.assert_allclose(found.groups[group].qk.values, singular(stacked_qk), rtol=1e-10)
        np.testing.assert_allclose(found.groups[group].ov.values, singular(stacked_ov), rtol=1e-10)
        assert np.linalg.matrix_rank(stacked_ov) <= D_HEAD


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("fold", [None, "norm"])
def test_planted_ranks_are_found_after_rounding(dtype, fold, tmp_path):
    """Rounding makes every matrix full; what it may have changed does not count."""
    found = audit(write_model(tmp_path / "m", llama_tensors(qk_rank=1, ov_rank=2), dtype), fold=fold)
    assert {head.qk.rank for head in found.heads} == {1}
    assert max(head.ov.rank for head in found.heads) == 2
    if dtype in (np.float64, np.float32):
        assert {head.ov.rank for head in found.heads} == {2}
        assert min(head.ov.values[-1] for head in found.heads) > 0
    assert all(at.rank == 1 for head in found.heads for at in head.distances)


def test_a_chosen_tolerance_decides_instead(tmp_path):
    folder = write_model(tmp_path / "m", llama_tensors())
    found = audit(folder, tolerance=0.5, layers=[1])
    for head in found.heads:
        assert head.qk.rank == sum(value > 0.5 * head.qk.largest for value in head.qk.values)
        assert head.qk.decided == "chosen"
    assert {layer.layer for layer in found.layers} == {1}


def test_biases_are_one_more_dimension(tmp_path):
    """Constant queries: W_Q is zero, but its bias gives QK rank 1 over the constant input."""
    tensors = llama_tensors()
    rng = np.random.default_rng(1)
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}.self_attn."
        tensors[f"{stem}q_proj.weight"] = 0 * tensors[f"{stem}q_proj.weight"]
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            tensors[f"{stem}{name}_proj.bias"] = rng.normal(size=heads * D_HEAD)
    found = audit(write_model(tmp_path / "m", tensors, model_type="qwen2"))
    assert {head.qk.rank for head in found.heads} == {1}
    assert "biases as one more input dimension" in found.layers[0].convention


def test_folding_changes_the_spectra_as_the_gains_say(tmp_path):
    tensors = llama_tensors()
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = np.full(WIDTH, 3.0)
    folder = write_model(tmp_path / "m", tensors)
    plain, folded = audit(folder), audit(folder, fold="norm")
    for one, other in zip(plain.heads, folded.heads, strict=True):
        np.testing.assert_allclose(9 * np.array(one.qk.values), other.qk.values, rtol=1e-6)
        np.testing.assert_allclose(3 * np.array(one.ov.values), other.ov.values, rtol=1e-6)


def test_measures_of_a_spectrum():
    flat, zero = Spectrum((2.0, 2.0, 2.0, 2.0), 1.0, "chosen"), Spectrum((0.0, 0.0), 0.0, "rounding")
    assert (flat.rank, flat.effective_rank, flat.energy_rank, flat.stable_rank) == pytest.approx((4, 4, 4, 4))
    assert (zero.rank, zero.effective_rank, zero.energy_rank, zero.stable_rank) == (0, 0, 0, 0)
    steep = Spectrum((4.0, 1.0), 0.0, "chosen")
    assert steep.stable_rank < steep.energy_rank < steep.effective_rank < 2


def test_plain_data_has_a_row_and_a_convention_for_every_circuit(tmp_path):
    folder = write_model(tmp_path / "m", llama_tensors())
    found = factrank.audit(folder)
    data = found.to_dict()
    assert len(data["circuits"]) == 2 * LAYERS * (HEADS + KV_HEADS)
    assert all("QK = 0.4082 W_Q W_K^T at distance 0" in row["convention"] for row in data["circuits"])
    assert data["parameters"]["attention"] == LAYERS * 2 * WIDTH * D_HEAD * (HEADS + KV_HEADS)
    assert data["n_values"] == 30
    assert data["layers"][0]["most_facts"] == most_facts(32 * WIDTH * D_HEAD * 2 * (HEADS + KV_HEADS), 30)
    assert data["most_facts"] == most_facts(LAYERS * 32 * WIDTH * D_HEAD * 2 * (HEADS + KV_HEADS), 30)
    assert data["layers"][0]["parameters"]["keys"] == KV_HEADS * D_HEAD * WIDTH
    json.dumps(data)
    arrays = {name: array.astype(np.float32) for name, array in llama_tensors().items()}
    inside = audit(arrays, settings=json.loads((folder / "config.json").read_text()))
    assert inside.qk_effective == found.qk_effective


def test_information_is_counted_in_the_stored_bits():
    assert most_facts(8 * 100, 256) == (8 * 100 + 20) // 8
    assert most_facts(100, 1) == 0


def write_lora(folder, rank, planted, n_updates=2):
    rng = np.random.default_rng(0)
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": 2 * rank}))
    tensors = {}
    for i in range(n_updates):
        stem = f"base_model.model.model.layers.{i}.mlp.up_proj"
        tensors[f"{stem}.lora_A.weight"] = rng.normal(size=(rank, 20)).astype(np.float32)
        up = rng.normal(size=(30, planted)) @ rng.normal(size=(planted, rank))
        tensors[f"{stem}.lora_B.weight"] = up.astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder, tensors


def test_updates_of_an_adapter(tmp_path):
    folder, tensors = write_lora(tmp_path / "lora", rank=5, planted=3)
    found = audit(folder, n_values=16)
    assert isinstance(found, LoraAudit)
    for i, update in enumerate(found.updates):
        stem = f"base_model.model.model.layers.{i}.mlp.up_proj"
        dense = 2 * tensors[f"{stem}.lora_B.weight"].astype(float) @ tensors[f"{stem}.lora_A.weight"]
        np.testing.assert_allclose(update.spectrum.values[:3], singular(dense, 3), rtol=1e-6)
        assert (update.spectrum.rank, update.allowed, update.parameters) == (3, 5, 5 * 50)
        assert found.facts_of(update) == (32 * 250 + 20) // 4
    assert audit(folder).n_values is None
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 1, "c": 2}}}))
    assert audit(folder).to_dict()["n_values"] == 3
    with pytest.raises(InputError, match="no layers to choose"):
        audit(folder, layers=[0])


def test_bad_requests_are_named(tmp_path):
    folder = write_model(tmp_path / "m", llama_tensors())
    with pytest.raises(InputError, match="no such file or folder"):
        audit(tmp_path / "none")
    with pytest.raises(InputError, match="layer 7: the layers are 0 to 1"):
        audit(folder, layers=[0, 7])
    with pytest.raises(InputError, match="tolerance between 0 and 1"):
        audit(folder, tolerance=2.0)
    with pytest.raises(InputError, match="at least 2 values"):
        audit(folder, n_values=1)
    with pytest.raises(InputError, match="needs its settings"):
        audit({"w": np.zeros(2)})
    tensors = llama_tensors()
    tensors["model.layers.1.self_attn.k_proj.weight"][0, 0] = np.nan
    with pytest.raises(InputError, match=r"'model.layers.1.self_attn.k_proj.weight' contains NaN"):
        audit(write_model(tmp_path / "nan", tensors))
    large = llama_tensors()
    for part in ("v", "o"):
        large[f"model.layers.1.self_attn.{part}_proj.weight"] *= 1e200
    with pytest.raises(InputError, match="large: layer 1, head 0: the weights of a circuit are so large"):
        audit(write_model(tmp_path / "large", large, np.float64))
    tensors = llama_tensors()
    del tensors["model.layers.1.input_layernorm.weight"]
    with pytest.raises(InputError, match=r"'model.layers.1.input_layernorm.weight' is missing"):
        audit(write_model(tmp_path / "gone", tensors))


def test_progress_names_the_layers(tmp_path):
    said = []
    found = audit(write_model(tmp_path / "m", llama_tensors()), progress=said.append)
    assert said == ["layer 0 of 2", "layer 1 of 2"]
    assert isinstance(found, ModelAudit)
    assert "2 layers of 4 heads" in repr(found)


def test_rounding_to_subnormal_numbers_adds_no_rank(tmp_path):
    """Float16 has an absolute spacing below 2^-14, so small weights are off by more than their unit roundoff."""
    tensors = llama_tensors(qk_rank=2)
    for name in [name for name in tensors if "q_proj" in name]:
        tensors[name] *= 1e-6
    found = audit(write_model(tmp_path / "model", tensors, np.float16))
    assert max(head.qk.rank for head in found.heads) <= 2


def test_a_wide_head_needs_no_square_matrix(tmp_path):
    """A small file with one head of 8,192 dimensions: no matrix of that width squared, at any distance."""
    d, rng = 2**13, np.random.default_rng(0)
    shapes = {"q": (d, 2), "k": (d, 2), "v": (d, 2), "o": (2, d)}
    tensors = {f"model.layers.0.self_attn.{part}_proj.weight": rng.normal(size=s) for part, s in shapes.items()}
    sizes = {
        "hidden_size": 2,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": d,
    }
    folder = write_model(tmp_path / "wide", tensors | {"model.layers.0.input_layernorm.weight": np.ones(2)}, **sizes)
    tracemalloc.start()
    (head,) = audit(folder).heads
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (head.qk.rank, head.ov.rank, len(head.distances)) == (2, 2, 4)
    assert most < 8 * d * d / 10


@pytest.mark.parametrize("positions", [0, 1, 3])
def test_every_rotated_circuit_is_measured_at_distance_0(positions, tmp_path):
    """Also if the model claims to have no position; gains of the rotation are in it."""
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 3.0}
    folder = write_model(tmp_path / "m", llama_tensors(), max_position_embeddings=positions, rope_scaling=scaling)
    model = open_model(folder)
    for head in audit(folder, layers=[0]).heads:
        assert [at.distance for at in head.distances] == [0, 1][: max(1, positions)][:2]
        qk, _ = dense_circuits(model, 0, head.head, False)
        np.testing.assert_allclose(head.qk.values, singular(qk), rtol=1e-10)
        plain = model.layer(0)
        without = plain.scale * plain.query.values[head.head] @ plain.key.values[head.kv_head].T
        np.testing.assert_allclose(head.qk.values, 9 * singular(without), rtol=1e-10)


def test_the_factor_of_an_update_is_in_its_convention(tmp_path):
    folder, _ = write_lora(tmp_path / "lora", rank=5, planted=3)
    assert audit(folder).to_dict()["updates"][0]["convention"] == "update = 2 B A"
    (folder / "adapter_config.json").write_text(json.dumps({"r": 5, "lora_alpha": 10, "use_rslora": True}))
    assert audit(folder).to_dict()["updates"][0]["convention"] == "update = 4.472 B A"


def test_adapters_that_would_be_misread_are_refused(tmp_path):
    folder, _ = write_lora(tmp_path / "lora", rank=5, planted=3)
    settings = {"r": 5, "lora_alpha": 4, "alpha_pattern": {".*q_proj": 8}}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="alpha_pattern has the regular expression"):
        audit(folder)


def test_biases_count_among_the_bits_of_a_layer():
    rng = np.random.default_rng(0)
    weights = {"h.0.attn.c_attn.weight": rng.normal(size=(8, 24)), "h.0.attn.c_proj.weight": rng.normal(size=(8, 8))}
    biased = weights | {"h.0.attn.c_attn.bias": np.ones(24), "h.0.attn.c_proj.bias": np.ones(8)}
    settings = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2}
    plain, more = (audit(tensors, settings=settings).layers[0].bits for tensors in (weights, biased))
    assert more - plain == 64 * 32
