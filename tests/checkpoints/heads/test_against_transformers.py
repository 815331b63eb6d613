"""Scores and outputs of attention from our factors agree with `transformers`, for random models of all kinds."""

import json

import numpy as np
import pytest

from factrank.auditing import check_forward
from factrank.checkpoints.heads import open_model, open_state_dict
from factrank.errors import InputError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 48,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
}
GQA = SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
N_TOKENS = 7


def rope(theta=100.0, **more):
    return {"rope_theta": theta, "rope_type": "default"} | more


LLAMA_3 = rope(
    rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
)
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.9)
MLA = SMALL | {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "kv_lora_rank": 10,
    "q_lora_rank": 12,
    "n_routed_experts": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 1,
    "first_k_dense_replace": 2,
    "moe_intermediate_size": 8,
}
CASES = {
    "gpt2": ("GPT2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 40, "n_positions": 64}),
    "gpt2 scaled": (
        "GPT2",
        {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 40, "scale_attn_by_inverse_layer_idx": True},
    ),
    "gpt_neox": ("GPTNeoX", SMALL | {"num_attention_heads": 4, "rope_parameters": rope(partial_rotary_factor=0.5)}),
    "llama": ("Llama", GQA | {"rope_parameters": rope()}),
    "llama 3": ("Llama", GQA | {"rope_parameters": LLAMA_3, "attention_bias": True}),
    "llama linear": ("Llama", GQA | {"rope_parameters": rope(rope_type="linear", factor=2.0)}),
    "llama 14 / 2": (
        "Llama",
        SMALL | {"hidden_size": 56, "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 4},
    ),
    "llama 9 / 3": (
        "Llama",
        SMALL | {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 4},
    ),
    "llama 4 / 1": ("Llama", SMALL | {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16}),
    "mistral": ("Mistral", GQA | {"rope_parameters": rope()}),
    "qwen2": ("Qwen2", SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2, "rope_parameters": rope()}),
    "qwen3": ("Qwen3", GQA | {"rope_parameters": rope()}),
    "gemma": ("Gemma", GQA),
    "gemma2": ("Gemma2", GQA | {"query_pre_attn_scalar": 7, "attn_logit_softcapping": None}),
    "gemma3": (
        "Gemma3Text",
        GQA | {"query_pre_attn_scalar": 7, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "phi3": ("Phi3", SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0}),
    "bert": ("Bert", SMALL | {"num_attention_heads": 4}),
    "vit": (
        "ViT",
        {
            "hidden_size": 48,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 8,
            "patch_size": 4,
        },
    ),
    "deepseek_v2": ("DeepseekV2", MLA | {"rope_parameters": rope()}),
    "deepseek_v3": ("DeepseekV3", MLA | {"rope_parameters": rope()}),
    "deepseek yarn": ("DeepseekV3", MLA | {"rope_parameters": YARN, "attention_bias": True}),
    "deepseek direct": ("DeepseekV3", MLA | {"q_lora_rank": None, "rope_interleave": False, "rope_parameters": rope()}),
    "opt": ("OPT", SMALL | {"ffn_dim": 32, "num_attention_heads": 4, "word_embed_proj_dim": 48}),
    "opt after": (
        "OPT",
        SMALL | {"ffn_dim": 32, "num_attention_heads": 4, "word_embed_proj_dim": 48, "do_layer_norm_before": False},
    ),
    "bloom": ("Bloom", {"hidden_size": 48, "n_layer": 2, "n_head": 4, "vocab_size": 40}),
    "falcon": ("Falcon", SMALL | {"num_attention_heads": 4, "ffn_hidden_size": 32, "alibi": False}),
    "falcon new": (
        "Falcon",
        SMALL | {"num_attention_heads": 6, "num_kv_heads": 2, "new_decoder_architecture": True, "bias": True},
    ),
    "falcon heads": ("Falcon", SMALL | {"num_attention_heads": 4, "multi_query": False, "alibi": True}),
}


def random_model(name, **changes):
    family, settings = CASES[name]
    config = getattr(transformers, f"{family}Config")(**(settings | changes))
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}Model")._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.2 * torch.randn(weight.shape) + (0.5 if weight.ndim == 1 else 0))
    return model


def attention_modules(model):
    """The modules whose input is what attention reads, and whose output is added to the residual stream."""
    wanted = ("attn", "attention", "self_attn", "self_attention")
    found = [(name, module) for name, module in model.named_modules() if name.rpartition(".")[2] in wanted]
    return [module for name, module in found if not any(name.startswith(f"{other}.") for other, _ in found)]


def recorded(model):
    """The inputs and outputs of attention in each layer, and its weights."""
    calls = []

    def record(_module, args, kwargs, output):
        hidden = args[0] if args else kwargs["hidden_states"]
        calls.append((hidden[0].double().numpy(), output[0] if isinstance(output, tuple) else output))

    hooks = [module.register_forward_hook(record, with_kwargs=True) for module in attention_modules(model)]
    outputs = []
    if "Bert" in type(model).__name__:  # its attention module also adds the residual stream and normalises
        for layer in model.encoder.layer:
            keep = layer.attention.output.dense.register_forward_hook(lambda _m, _a, out: outputs.append(out))
            hooks.append(keep)
    if "ViT" in type(model).__name__:
        inputs = {"pixel_values": torch.randn(1, 3, 8, 8)}
    else:
        inputs = {"input_ids": torch.arange(1, N_TOKENS + 1)[None]}
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    outputs = outputs or [output for _, output in calls]
    found = zip(calls, outputs, weights, strict=True)
    return [(x, out[0].double().numpy(), weight[0].double().numpy()) for (x, _), out, weight in found]


def rms(rows):
    return np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-6)


def divided(model, factors, x, layer):
    """Queries and keys [heads, tokens, d] and values, with the divisions that the factors leave out."""
    rows = np.column_stack([x, np.ones(len(x))]) if factors.has_bias else x
    q, k, v = (rows @ factor.values for factor in (factors.query, factors.key, factors.value))
    if model.layout.head_norms is not None:
        gains = [model.norm(model.layout.layer.format(layer) + name).gain.values for name in model.layout.head_norms]
        q, k = q / rms(q / gains[0]), k / rms(k / gains[1])
    if model.layout.latent:
        q, k, v = latent_divided(model, x, layer, q, k, v)
    return q, k, v


def latent_divided(model, x, layer, q, k, v):
    def latent(name):
        stem = model.layout.layer.format(layer) + f"self_attn.{name}"
        bias = model.optional(f"{stem}.bias")
        return x @ model.tensor(f"{stem}.weight").rows().T + (0 if bias is None else bias.rows())

    nope = model.settings.size("qk_nope_head_dim")
    if model.settings.entries.get("q_lora_rank"):
        q = q / rms(latent("q_a_proj"))
    length = rms(latent("kv_a_proj_with_mqa")[:, : model.settings.size("kv_lora_rank")])
    return q, np.concatenate([k[..., :nope] / length, k[..., nope:]], axis=-1), v / length


def scores(model, factors, x, layer):
    q, k, _ = divided(model, factors, x, layer)
    n, group = len(x), factors.group_size
    found = np.empty((factors.n_heads, n, n))
    for i in range(n):
        for j in range(n):
            turn = np.eye(q.shape[-1]) if factors.rotation is None else factors.rotation.matrix(i - j, q.shape[-1])
            for head in range(factors.n_heads):
                found[head, i, j] = factors.scale * q[head, i] @ turn @ k[head // group, j]
    return found


def log_ratios(weights):
    """Scores up to a constant per row: the logarithms of the weights against the first token."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    return logs - logs[..., :1]


@pytest.mark.parametrize("name", CASES)
def test_scores_and_outputs_agree(name, tmp_path):
    reference = random_model(name)
    reference.save_pretrained(tmp_path)
    model = open_model(tmp_path)
    calls = recorded(reference)
    assert len(calls) == model.sizes.n_layers == 2
    for layer, (x, output, weights) in enumerate(calls):
        factors = model.layer(layer)
        found = scores(model, factors, x, layer)
        if any("ALiBi" in note for note in factors.notes):
            slopes = alibi_slopes(model.sizes.n_heads, name)
            found = found + slopes[:, None, None] * np.arange(len(x))
        seen = weights > 1e-30
        assert seen.sum() >= model.sizes.n_heads * len(x) * (len(x) + 1) / 2
        close = np.isclose(log_ratios(weights), found - found[..., :1], rtol=1e-4, atol=2e-4)
        assert close[seen].all()
        values = divided(model, factors, x, layer)[2]
        group = factors.group_size
        heads = [weights[h] @ values[h // group] @ factors.output.values[h] for h in range(factors.n_heads)]
        ours = sum(heads) + (0 if factors.output_bias is None else factors.output_bias)
        added = residual_of(reference, layer) if "bloom" in name else 0  # its module adds the residual stream itself
        np.testing.assert_allclose(ours, output - added, rtol=1e-5, atol=1e-5 * np.abs(output).max())


@pytest.mark.parametrize("name", CASES)
def test_the_self_check_agrees(name, tmp_path):
    """Norms, scores and outputs, in every layer; also where scores are capped."""
    changes = {"attn_logit_softcapping": 3.0} if name == "gemma2" else {}
    random_model(name, **changes).save_pretrained(tmp_path)
    found = check_forward(tmp_path)
    assert found.agrees, found.to_dict()
    assert [layer.layer for layer in found.layers] == [0, 1]
    assert max(max(layer.norm or 0, layer.scores, layer.outputs) for layer in found.layers) < 1e-5
    assert [layer.norm is None for layer in found.layers] == [name == "opt after", False]


def alibi_slopes(n_heads, name):
    """Slopes of ALiBi; the eager Falcon of `transformers` 5 adds them twice, to the scores and to the mask."""
    slopes = 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)
    return 2 * slopes / np.sqrt(48 / n_heads) if "falcon" in name else slopes


def residual_of(reference, layer):
    with torch.no_grad():
        states = reference(torch.arange(1, N_TOKENS + 1)[None], output_hidden_states=True).hidden_states
    return states[layer][0].double().numpy()


def test_state_dicts_are_read_like_folders(tmp_path):
    reference = random_model("llama")
    reference.save_pretrained(tmp_path)
    inside = open_state_dict(reference.state_dict(), reference.config.to_dict())
    folder = open_model(tmp_path)
    for part in ("query", "key", "value", "output"):
        ours, theirs = (getattr(model.layer(1, fold=True), part).values for model in (inside, folder))
        assert np.array_equal(ours, theirs)


def old_settings(path, **changes):
    settings = json.loads((path / "config.json").read_text())
    for name in ("rope_parameters", "layer_types"):
        settings.pop(name, None)
    (path / "config.json").write_text(json.dumps(settings | changes))


def test_settings_before_transformers_5(tmp_path):
    random_model("llama 3").save_pretrained(tmp_path)
    new = open_model(tmp_path).layer(0).rotation
    old_settings(tmp_path, rope_theta=LLAMA_3["rope_theta"], rope_scaling={**LLAMA_3, "type": "llama3"})
    assert np.array_equal(open_model(tmp_path).layer(0).rotation.frequencies, new.frequencies)


def test_equal_factors_of_llama_3_are_a_step(tmp_path):
    """Without a warning; frequencies that turn at least twice within 32 positions are kept, others divided."""
    random_model("llama 3").save_pretrained(tmp_path)
    equal = LLAMA_3 | {"low_freq_factor": 2.0, "high_freq_factor": 2.0}
    old_settings(tmp_path, rope_parameters=equal)
    found = open_model(tmp_path).layer(0).rotation.frequencies
    plain = 100.0 ** (-np.arange(5) / 5)
    assert np.allclose(found, [f if 32 * f / (2 * np.pi) >= 2 else f / 4 for f in plain])
    assert len({found[0] == plain[0], found[-1] == plain[-1]}) == 2
    old_settings(tmp_path, rope_parameters=equal | {"high_freq_factor": 1.0})
    with pytest.raises(InputError, match="high_freq_factor to be at least low_freq_factor, 2; got 1"):
        open_model(tmp_path).layer(0)


def test_sliding_layers_of_old_gemma_3_rotate_faster(tmp_path):
    random_model("gemma3").save_pretrained(tmp_path)
    before = [open_model(tmp_path).layer(layer).rotation.frequencies for layer in (0, 1)]
    old_settings(tmp_path, rope_theta=1e6, rope_local_base_freq=1e4, sliding_window_pattern=2)
    after = [open_model(tmp_path).layer(layer).rotation.frequencies for layer in (0, 1)]
    assert np.array_equal(before, after)
    assert not np.array_equal(*after)
