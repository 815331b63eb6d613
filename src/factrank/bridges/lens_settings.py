"""Settings of a TransformerLens model that change its logits: which are supported, and why the others are not.

A state dict does not record them, so they come from the configuration (`model.cfg`). A setting that is neither known to
leave the logits of one attention layer alone nor at a neutral value is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from factrank.errors import InputError
from factrank.families.attention import NORM_EPSILON
from factrank.foreign_text import few, quoted

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n_layers": (1,),
    "attn_only": (True,),
    "normalization_type": (None, "LN", "LNPre"),
    "positional_embedding_type": ("standard",),
    "final_rms": (False, None),
    "post_embedding_ln": (False, None),
    "use_normalization_before_and_after": (False, None),
    "use_qk_norm": (False, None),
    "use_local_attn": (False, None),
    "use_attention_sinks": (False, None),
    "load_in_4bit": (False, None),
    "quantization_method": (None,),
    "clip_qkv": (None,),
    "use_logn_attn": (False, None),
    "uses_rms_norm": (False, None),
    "rmsnorm_uses_offset": (False, None),
    "layer_norm_folding": (False, None),
    "scale_embedding": (None, False),
    "attn_scores_soft_cap": (-1.0, 0.0, None),
    "output_logits_soft_cap": (-1.0, 0.0, None),
}
"""Settings with the values that a layer can represent."""

REASONS: dict[str, str] = {
    "n_layers": "a layer of factrank is one attention layer",
    "attn_only": "a layer of factrank has no MLP",
    "normalization_type": "this norm cannot be folded; train with normalization_type=None",
    "positional_embedding_type": "only learned positions are added to the embeddings; these enter the attention scores",
}

# fmt: off
HARMLESS = frozenset({
    "NTK_by_parts_factor", "NTK_by_parts_high_freq_factor", "NTK_by_parts_low_freq_factor", "NTK_original_ctx_len",
    "act_fn", "architecture", "attention_dir", "attn_implementation", "attn_scale", "attn_types", "checkpoint_index",
    "checkpoint_label_type", "checkpoint_value", "d_head", "d_mlp", "d_model", "d_vocab", "d_vocab_out",
    "decoder_start_token_id", "default_padding_side", "default_prepend_bos", "device", "dtype", "eps",
    "experts_per_token", "from_checkpoint", "gated_mlp", "init_mode", "init_weights", "initializer_range",
    "model_name", "n_ctx", "n_devices", "n_heads", "n_key_value_heads", "n_params", "norm_topk_prob", "num_experts",
    "original_architecture", "parallel_attn_mlp", "relative_attention_max_distance", "relative_attention_num_buckets",
    "rotary_adjacent_pairs", "rotary_base", "rotary_base_local", "rotary_dim", "rotary_scaling_factor",
    "scale_attn_by_inverse_layer_idx", "seed", "split_attention_weights", "tie_word_embeddings",
    "tokenizer_appends_eos", "tokenizer_name", "tokenizer_prepends_bos", "train_seq_length", "trust_remote_code",
    "ungroup_grouped_query_attention", "use_NTK_by_parts_rope", "use_attn_in", "use_attn_result", "use_attn_scale",
    "use_dynamic_ntk_rope", "use_hook_mlp_in", "use_hook_tokens", "use_split_qkv_input", "use_yarn_rope",
    "window_size", "yarn_attention_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_factor",
    "yarn_global_attn_only", "yarn_original_max_position_embeddings", "yarn_truncate",
})
# fmt: on
"""Settings that are read elsewhere, or that do not change the logits of one layer with learned positions and no MLP.

With one layer, the last of two positions attends to both, whether attention is causal or not.
"""


def settings_of(model: Any, config: Any) -> dict[str, Any]:
    """Return the settings by name, from a configuration or a model.

    Raises:
        InputError: there are none.
    """
    found = getattr(model, "cfg", None) if config is None else config
    if found is None:
        raise InputError(
            "a state dict does not record norms, positions and scales: pass the configuration too, config=model.cfg or "
            "model.cfg.to_dict()"
        )
    plain = found.to_dict() if hasattr(found, "to_dict") else found if isinstance(found, Mapping) else None
    if not isinstance(plain, Mapping):
        raise InputError(f"config must be the configuration of the model or a mapping; got {type(found).__name__}")
    missing = [
        name for name in ("n_layers", "attn_only", "normalization_type", "n_heads", "d_head") if name not in plain
    ]
    if missing:
        raise InputError(f"the configuration does not tell {', '.join(missing)}; pass model.cfg.to_dict()")
    for name in ("n_heads", "d_head"):
        if isinstance(plain[name], bool) or not isinstance(plain[name], int) or plain[name] < 1:
            raise InputError(f"{name} in the configuration must be a positive integer; got {quoted(plain[name])}")
    return dict(plain)


def require_supported(settings: Mapping[str, Any], *, checked: bool) -> None:
    """Raise an `InputError` if a setting changes the logits in a way that no layer represents.

    Arguments:
        settings: all settings by name.
        checked: whether the model's own forward pass is compared too, so that unknown settings cannot do harm.
    """
    for name, allowed in NEUTRAL.items():
        value = settings.get(name, allowed[0])
        if value not in allowed:
            reason = REASONS.get(name, "a layer of factrank does not have it")
            raise InputError(f"the model has {name}={quoted(value)}: {reason}")
    n_heads, groups = settings["n_heads"], settings.get("n_key_value_heads")
    if groups not in (None, n_heads):
        raise InputError(
            f"the model has n_key_value_heads={groups} for {n_heads} heads: grouped heads are not supported"
        )
    if settings["normalization_type"] is not None and settings.get("eps", NORM_EPSILON) != NORM_EPSILON:
        raise InputError(f"the norms must have eps={NORM_EPSILON:g}; got {settings['eps']!r}")
    unknown = [
        name
        for name, value in settings.items()
        if name not in HARMLESS and name not in NEUTRAL and value not in (None, False, 0)
    ]
    if unknown and not checked:
        raise InputError(
            f"the settings {few(unknown, 5)} are unknown and may change the logits: pass the model itself, whose "
            "forward pass is compared, or leave them out if they do not matter"
        )


def score_scale(settings: Mapping[str, Any], *, hooked: bool) -> float:
    """Return the divisor of the attention scores.

    A `HookedTransformer` divides by `attn_scale`, or by 1 without `use_attn_scale`. A native `TransformerBridge`
    divides by `attn_scale` if it is used and positive, otherwise by sqrt(d_head).
    """
    root = sqrt(settings["d_head"])
    scale = settings.get("attn_scale", -1.0)
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, int | float)):
        raise InputError(f"attn_scale in the configuration must be a number; got {quoted(scale)}")
    if not settings.get("use_attn_scale", True):
        return 1.0 if hooked else root
    return float(scale) if scale is not None and scale > 0 else root
