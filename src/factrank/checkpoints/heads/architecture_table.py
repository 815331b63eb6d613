"""The table of architectures: one entry per `model_type`, and the names that GGUF files use instead.

llama.cpp stores weights as [outputs, inputs], fused maps as all queries, all keys, all values, and Gemma's gains with
the 1 added. For models of type llama it also permutes the rows of queries and keys, so that adjacent coordinates are
rotated together. A permutation of both changes no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from factrank.checkpoints.configuration import Settings
from factrank.checkpoints.heads.head_layout import CheckpointSizes, HeadLayout, usual_scale, usual_sizes
from factrank.errors import InputError
from factrank.plugins import Registry

OWN_MODEL = "factrank_language"
"""`model_type` of our own language models, whose d_qk and d_vo may differ."""
SOFT_CAP = "soft-capping of scores is left out: it is not bilinear, and keeps their order"
HEAD_NORM = "norms of queries and keys: their gains are folded into QK, their division by the length is left out"
LATENT_NORM = "norms of the latent vectors: their gains are folded, their division by the length is left out"
AFTER_NORM = "the norm after attention: its division by the length is left out"
ALIBI = "ALiBi is left out: it adds to the scores what depends on the distance alone"


def _gpt2_scale(settings: Settings, sizes: CheckpointSizes, layer: int) -> float:
    scale = sizes.d_qk**-0.5 if settings.truth("scale_attn_weights", True) else 1.0
    return scale / (layer + 1) if settings.truth("scale_attn_by_inverse_layer_idx", False) else scale


def _falcon_sizes(settings: Settings) -> CheckpointSizes:
    sizes = usual_sizes(
        Settings(settings.place, {**settings.entries, "num_kv_heads": None, "num_key_value_heads": None})
    )
    if settings.truth("new_decoder_architecture", False):
        return replace(usual_sizes(settings), d_qk=sizes.d_qk, d_vo=sizes.d_vo)
    return replace(sizes, n_kv_heads=1 if settings.truth("multi_query", True) else sizes.n_heads)


def _falcon(layout: HeadLayout, settings: Settings) -> HeadLayout:
    new = settings.truth("new_decoder_architecture", False)
    norms = settings.whole("num_ln_in_parallel_attn", None)
    alibi = settings.truth("alibi", False)
    return replace(
        layout,
        grouped=new or not settings.truth("multi_query", True),
        norm="ln_attn" if new and norms in (None, 2) else "input_layernorm",
        rotary=None if alibi else "halves",
        notes=(ALIBI,) if alibi else (),
    )


def _opt(layout: HeadLayout, settings: Settings) -> HeadLayout:
    if settings.truth("do_layer_norm_before", True):
        return layout
    return replace(layout, norm="final_layer_norm", first_norm="", final_norm="")


def _latent_sizes(settings: Settings) -> CheckpointSizes:
    width, heads = settings.size("hidden_size"), settings.size("num_attention_heads")
    d_qk = settings.size("qk_nope_head_dim") + settings.size("qk_rope_head_dim")
    return CheckpointSizes(width, settings.size("num_hidden_layers"), heads, heads, d_qk, settings.size("v_head_dim"))


def _latent_scale(settings: Settings, sizes: CheckpointSizes, layer: int) -> float:
    from factrank.checkpoints.heads.rotary import rotary_settings, yarn_gain  # noqa: PLC0415 - reads this table's types

    rope = rotary_settings(settings, layer)
    gain = yarn_gain(rope, "mscale_all_dim") if rope.kind == "yarn" else 1.0
    return usual_scale(settings, sizes, layer) * gain**2


def _deepseek_v3(layout: HeadLayout, settings: Settings) -> HeadLayout:
    return layout if settings.truth("rope_interleave", True) else replace(layout, rotary="halves")


def _own_sizes(settings: Settings) -> CheckpointSizes:
    heads = settings.size("num_attention_heads")
    widths = settings.size("d_qk"), settings.size("d_vo")
    return CheckpointSizes(settings.size("hidden_size"), settings.size("num_hidden_layers"), heads, heads, *widths)


def _own(layout: HeadLayout, settings: Settings) -> HeadLayout:
    if settings.text("positions", "rope") == "rope":
        return layout
    return replace(layout, rotary=None, notes=("learned positions are left out",))


LLAMA = HeadLayout(
    "Llama",
    prefixes=("model.", ""),
    layer="layers.{}.",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.o_proj",
    norm="input_layernorm",
    rotary="halves",
)
GEMMA = replace(LLAMA, title="Gemma", norm_kind="rms + 1", embedding_scaled=True)
GEMMA_2 = replace(GEMMA, title="Gemma 2", after_norm="post_attention_layernorm", notes=(SOFT_CAP, AFTER_NORM))
GEMMA_3 = replace(
    GEMMA_2,
    title="Gemma 3",
    prefixes=("model.", "", "language_model.model.", "model.language_model."),
    head_norms=("self_attn.q_norm", "self_attn.k_norm"),
    notes=(HEAD_NORM, AFTER_NORM),
)
GPT_2 = HeadLayout(
    "GPT-2",
    prefixes=("transformer.", ""),
    layer="h.{}.",
    projections=("attn.c_attn",),
    output="attn.c_proj",
    norm="ln_1",
    norm_kind="layer",
    transposed=False,
    embedding="wte.weight",
    final_norm="ln_f",
    scale=_gpt2_scale,
)
BLOOM = HeadLayout(
    "Bloom",
    prefixes=("transformer.", ""),
    layer="h.{}.",
    projections=("self_attention.query_key_value",),
    output="self_attention.dense",
    norm="input_layernorm",
    norm_kind="layer",
    grouped=True,
    embedding="word_embeddings.weight",
    embedding_norm="word_embeddings_layernorm",
    final_norm="ln_f",
    notes=(ALIBI,),
)
DEEPSEEK = replace(
    LLAMA,
    title="DeepSeek",
    latent=True,
    rotary="adjacent",
    sizes=_latent_sizes,
    scale=_latent_scale,
    notes=(LATENT_NORM,),
)
BERT = HeadLayout(
    "BERT",
    prefixes=("bert.", ""),
    layer="encoder.layer.{}.",
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    output="attention.output.dense",
    norm="output.LayerNorm",
    first_norm="embeddings.LayerNorm",
    norm_kind="layer",
    embedding="embeddings.word_embeddings.weight",
    embedding_norm="embeddings.LayerNorm",
    unembedding="cls.predictions.decoder.weight",
    final_norm="",
)
ENTRIES: Mapping[str, HeadLayout] = {
    "gpt2": GPT_2,
    "gpt_neox": HeadLayout(
        "GPT-NeoX",
        prefixes=("gpt_neox.", ""),
        layer="layers.{}.",
        projections=("attention.query_key_value",),
        output="attention.dense",
        norm="input_layernorm",
        norm_kind="layer",
        grouped=True,
        rotary="halves",
        embedding="embed_in.weight",
        unembedding="embed_out.weight",
        final_norm="final_layer_norm",
    ),
    "llama": LLAMA,
    "mistral": replace(LLAMA, title="Mistral"),
    "qwen2": replace(LLAMA, title="Qwen2"),
    "qwen3": replace(LLAMA, title="Qwen3", head_norms=("self_attn.q_norm", "self_attn.k_norm"), notes=(HEAD_NORM,)),
    "gemma": GEMMA,
    "gemma2": GEMMA_2,
    "gemma3": GEMMA_3,
    "gemma3_text": GEMMA_3,
    "phi3": replace(LLAMA, title="Phi-3", projections=("self_attn.qkv_proj",)),
    "bert": BERT,
    "vit": replace(
        BERT,
        title="ViT",
        prefixes=("vit.", ""),
        projections=("attention.attention.query", "attention.attention.key", "attention.attention.value"),
        norm="layernorm_before",
        first_norm=None,
        embedding="",
        embedding_norm="",
        unembedding="classifier.weight",
        final_norm="layernorm",
        renamed=(
            ("encoder.layer.", "layers."),
            ("attention.attention.query", "attention.q_proj"),
            ("attention.attention.key", "attention.k_proj"),
            ("attention.attention.value", "attention.v_proj"),
            ("attention.output.dense", "attention.o_proj"),
        ),
    ),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": replace(DEEPSEEK, adapted=_deepseek_v3),
    "opt": HeadLayout(
        "OPT",
        prefixes=("model.decoder.", "decoder.", ""),
        layer="layers.{}.",
        projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        output="self_attn.out_proj",
        norm="self_attn_layer_norm",
        norm_kind="layer",
        final_norm="final_layer_norm",
        adapted=_opt,
    ),
    "bloom": BLOOM,
    OWN_MODEL: replace(LLAMA, title="Language model of factrank", sizes=_own_sizes, adapted=_own),
    "falcon": replace(BLOOM, title="Falcon", embedding_norm="", sizes=_falcon_sizes, adapted=_falcon, notes=()),
}
"""Layouts by `model_type`."""


def _accepted(name: str, layout: Any) -> tuple[str, HeadLayout]:
    if not isinstance(layout, HeadLayout):
        raise InputError(f"the architecture {name!r} is a {type(layout).__name__}; expected a HeadLayout")
    return name, layout


ARCHITECTURES: Registry[HeadLayout] = Registry("architecture", "factrank.architectures", lambda: ENTRIES, _accepted)
"""Layouts by `model_type`; other packages add theirs through the entry points `factrank.architectures`."""

GGUF_TYPES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi3": "phi3",
    "gpt2": "gpt2",
}
"""`model_type` of the architectures of GGUF files."""
SCALING = ("scaling.type", "scaling.factor", "scaling.original_context_length")
ORIGINAL = "original_max_position_embeddings"
LARGEST_GEMMA = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B models, whose scores are scaled by the width per head instead of by the size of a head."""


def gguf_layout(layout: HeadLayout, architecture: str) -> HeadLayout:
    """Return the layout of an architecture with the names and conventions of GGUF files."""
    fused = len(layout.projections) == 1
    return replace(
        layout,
        prefixes=("",),
        layer="blk.{}.",
        projections=("attn_qkv",) if fused else ("attn_q", "attn_k", "attn_v"),
        output="attn_output",
        norm="attn_norm",
        norm_kind="layer" if layout.norm_kind == "layer" else "rms",
        grouped=False,
        transposed=True,
        head_norms=layout.head_norms and ("attn_q_norm", "attn_k_norm"),
        after_norm=layout.after_norm and "post_attention_norm",
        rotary="adjacent" if architecture == "llama" else layout.rotary,
        embedding="token_embd.weight",
        unembedding="output.weight",
        final_norm="output_norm",
    )


def gguf_settings(place: str, given: Mapping[str, Any]) -> tuple[str, Settings]:
    """Return the architecture of a GGUF file, and its settings by the names that Hugging Face uses.

    Raises:
        InputError: If the architecture is unknown.
    """
    architecture = str(given.get("general.architecture"))
    if architecture not in GGUF_TYPES:
        known = ", ".join(GGUF_TYPES)
        raise InputError(f"{place}: unknown general.architecture {architecture[:40]!r}; expected one of {known}")

    def own(name: str) -> Any:
        return given.get(f"{architecture}.{name}")

    entries = {
        "model_type": GGUF_TYPES[architecture],
        "hidden_size": own("embedding_length"),
        "num_hidden_layers": own("block_count"),
        "num_attention_heads": own("attention.head_count"),
        "num_key_value_heads": own("attention.head_count_kv"),
        "head_dim": own("attention.key_length"),
        "max_position_embeddings": own("context_length"),
        "rope_theta": own("rope.freq_base"),
        "rms_norm_eps": own("attention.layer_norm_rms_epsilon"),
        "layer_norm_eps": own("attention.layer_norm_epsilon"),
        "attn_logit_softcapping": own("attn_logit_softcapping"),
        "sliding_window_pattern": 6 if architecture == "gemma3" else None,
        "rope_scaling": _gguf_scaling(own),
    }
    settings, rotated = Settings(place, entries), own("rope.dimension_count")
    if own("block_count") == LARGEST_GEMMA.get(architecture):
        entries["query_pre_attn_scalar"] = settings.size("hidden_size") / settings.size("num_attention_heads")
    if type(rotated) is int and architecture == "phi3":
        entries["partial_rotary_factor"] = rotated / usual_sizes(settings).d_qk
    return architecture, settings


def _gguf_scaling(own: Callable[[str], Any]) -> dict[str, Any] | None:
    kind, factor, original = (own(f"rope.{name}") for name in SCALING)
    return None if kind in (None, "none") else {"rope_type": kind, "factor": factor, ORIGINAL: original}
