"""Tiny checkpoints of every architecture, written by hand in its own layout, whose heads have known ranks.

Head h has a W_Q of rank 1 + h mod d and a W_O of rank d - h mod d. A bias of the queries adds one to the rank of QK.
All other factors are full, so QK has the rank of W_Q with its bias, and OV the rank of W_O.
"""

from dataclasses import dataclass

import numpy as np

WIDTH, D_HEAD, LAYERS = 24, 5, 2
NOPE, ROTARY, D_VO, LATENT, QUERY_LATENT = 4, 2, 5, 9, 14
"""Sizes of latent attention."""
OWN_QK, OWN_VO = 4, 7


@dataclass(frozen=True)
class Planted:
    """A checkpoint and the ranks of its heads, [QK, OV] of each head."""

    settings: dict
    tensors: dict
    ranks: list


def low_rank(rng, rows, columns, rank):
    return rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))


class Drawn:
    """Random projections of one layer: queries, keys and values [heads, d, width], and the output map."""

    def __init__(self, rng, heads, kv_heads, d_qk=D_HEAD, d_vo=D_HEAD):
        self.rng, self.heads, self.kv_heads, self.d_qk, self.d_vo = rng, heads, kv_heads, d_qk, d_vo
        self.q = np.stack([low_rank(rng, d_qk, WIDTH, 1 + h % d_qk) for h in range(heads)])
        self.k = rng.normal(size=(kv_heads, d_qk, WIDTH))
        self.v = rng.normal(size=(kv_heads, d_vo, WIDTH))
        self.o = np.concatenate([low_rank(rng, WIDTH, d_vo, d_vo - h % d_vo) for h in range(heads)], axis=1)
        self.biases = [rng.normal(size=part.shape[:2]) for part in (self.q, self.k, self.v)]

    def ranks(self, biased):
        return [(min(1 + h % self.d_qk + biased, self.d_qk), self.d_vo - h % self.d_vo) for h in range(self.heads)]


def separate(names, output):
    """Three maps and the output map."""

    def write(drawn, biased):
        parts = (drawn.q, drawn.k, drawn.v)
        found = {f"{name}.weight": part.reshape(-1, WIDTH) for name, part in zip(names, parts, strict=True)}
        if biased:
            found |= {f"{name}.bias": bias.reshape(-1) for name, bias in zip(names, drawn.biases, strict=True)}
        return found | {f"{output}.weight": drawn.o}

    return write


def blocks(drawn, grouped):
    """The heads of queries, keys and values in the order of a fused map: [rows, width] and [rows]."""
    if not grouped:
        order = [(0, h) for h in range(drawn.heads)] + [(part, g) for part in (1, 2) for g in range(drawn.kv_heads)]
    else:
        size = drawn.heads // drawn.kv_heads
        order = []
        for g in range(drawn.kv_heads):
            order += [(0, h) for h in range(g * size, (g + 1) * size)] + [(1, g), (2, g)]
    parts = (drawn.q, drawn.k, drawn.v)
    rows = np.concatenate([parts[part][head] for part, head in order])
    return rows, np.concatenate([drawn.biases[part][head] for part, head in order])


def fused(name, output, *, grouped, transposed=True):
    """One map for queries, keys and values."""

    def write(drawn, biased):
        rows, bias = blocks(drawn, grouped)
        stored = (rows, drawn.o) if transposed else (rows.T, drawn.o.T)
        found = {f"{name}.weight": stored[0], f"{output}.weight": stored[1]}
        return found | ({f"{name}.bias": bias} if biased else {})

    return write


def latent(query_latent):
    """Latent attention, whose queries have low rank in the map from their latent vector (or from the stream)."""

    def write(drawn, _biased):
        rng, heads = drawn.rng, drawn.heads
        inputs = query_latent or WIDTH
        queries = np.concatenate([low_rank(rng, NOPE + ROTARY, inputs, 1 + h % (NOPE + ROTARY)) for h in range(heads)])
        found = {
            "self_attn.kv_a_proj_with_mqa.weight": rng.normal(size=(LATENT + ROTARY, WIDTH)),
            "self_attn.kv_b_proj.weight": rng.normal(size=(heads * (NOPE + D_VO), LATENT)),
            "self_attn.kv_a_layernorm.weight": rng.uniform(0.5, 2, LATENT),
            "self_attn.o_proj.weight": drawn.o,
        }
        if query_latent is None:
            return found | {"self_attn.q_proj.weight": queries}
        return found | {
            "self_attn.q_a_proj.weight": rng.normal(size=(query_latent, WIDTH)),
            "self_attn.q_a_layernorm.weight": rng.uniform(0.5, 2, query_latent),
            "self_attn.q_b_proj.weight": queries,
        }

    return write


LLAMA_NAMES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
LLAMA = ("model.layers.{}.", separate(LLAMA_NAMES, "self_attn.o_proj"), ("input_layernorm",))
GEMMA_3 = (*LLAMA[:2], ("input_layernorm", "post_attention_layernorm"))
LATENT_SIZES = {
    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROTARY, "v_head_dim": D_VO, "kv_lora_rank": LATENT,
}  # fmt: skip
GQA = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": D_HEAD + 1}
MHA = {"num_attention_heads": 4, "hidden_size": WIDTH}
BERT_NAMES = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
VIT_NAMES = tuple(f"attention.attention.{name}" for name in ("query", "key", "value"))

CASES = {
    "gpt2": (
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4},
        "transformer.h.{}.",
        fused("attn.c_attn", "attn.c_proj", grouped=False, transposed=False),
        ("ln_1",),
        True,
    ),
    "gpt_neox": (
        MHA,
        "gpt_neox.layers.{}.",
        fused("attention.query_key_value", "attention.dense", grouped=True),
        ("input_layernorm",),
        True,
    ),
    "llama": (GQA, *LLAMA, False),
    "mistral": (GQA, *LLAMA, False),
    "qwen2": (GQA, *LLAMA, True),
    "qwen3": (GQA, *LLAMA, False),
    "gemma": (GQA, *LLAMA, False),
    "gemma2": (GQA, *GEMMA_3, False),
    "gemma3": (GQA, *GEMMA_3, False),
    "gemma3_text": (GQA, *GEMMA_3, False),
    "phi3": (
        {"num_attention_heads": 4, "num_key_value_heads": 2},
        "model.layers.{}.",
        fused("self_attn.qkv_proj", "self_attn.o_proj", grouped=False),
        ("input_layernorm",),
        False,
    ),
    "bert": (
        MHA,
        "bert.encoder.layer.{}.",
        separate(BERT_NAMES, "attention.output.dense"),
        ("output.LayerNorm",),
        True,
    ),
    "vit": (MHA, "vit.encoder.layer.{}.", separate(VIT_NAMES, "attention.output.dense"), ("layernorm_before",), True),
    "deepseek_v2": (
        GQA | LATENT_SIZES | {"q_lora_rank": None},
        "model.layers.{}.",
        latent(None),
        ("input_layernorm",),
        False,
    ),
    "deepseek_v3": (
        GQA | LATENT_SIZES | {"q_lora_rank": QUERY_LATENT},
        "model.layers.{}.",
        latent(QUERY_LATENT),
        ("input_layernorm",),
        False,
    ),
    "opt": (
        MHA,
        "model.decoder.layers.{}.",
        separate(LLAMA_NAMES, "self_attn.out_proj"),
        ("self_attn_layer_norm",),
        True,
    ),
    "bloom": (
        {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": 4},
        "transformer.h.{}.",
        fused("self_attention.query_key_value", "self_attention.dense", grouped=True),
        ("input_layernorm",),
        True,
    ),
    "factrank_language": (
        {"num_attention_heads": 4, "d_qk": OWN_QK, "d_vo": OWN_VO},
        *LLAMA,
        False,
    ),
    "falcon": (
        MHA | {"multi_query": True},
        "transformer.h.{}.",
        fused("self_attention.query_key_value", "self_attention.dense", grouped=False),
        ("input_layernorm",),
        False,
    ),
    "falcon heads": (
        MHA | {"multi_query": False, "alibi": True},
        "transformer.h.{}.",
        fused("self_attention.query_key_value", "self_attention.dense", grouped=True),
        ("input_layernorm",),
        True,
    ),
    "falcon new": (
        MHA | {"new_decoder_architecture": True, "num_kv_heads": 2},
        "transformer.h.{}.",
        fused("self_attention.query_key_value", "self_attention.dense", grouped=True),
        ("ln_attn",),
        False,
    ),
}
"""By architecture: settings, prefix of a layer, writer of its projections, its norms, and whether it has biases."""


def planted(name, seed=0):
    """Return a checkpoint of one architecture with planted ranks in every head."""
    settings, prefix, write, norms, biased = CASES[name]
    kind, rng = name.split()[0], np.random.default_rng(seed)
    heads = settings.get("num_attention_heads") or settings["n_head"]
    kv_heads = settings.get("num_key_value_heads") or settings.get("num_kv_heads") or heads
    kv_heads = 1 if settings.get("multi_query") else kv_heads
    is_latent = "kv_lora_rank" in settings
    d_head = settings.get("head_dim") or WIDTH // heads
    widths = (settings.get("d_qk", d_head), settings.get("d_vo", d_head))
    sizes = (heads, heads, NOPE + ROTARY, D_VO) if is_latent else (heads, kv_heads, *widths)
    tensors = {}
    for layer in range(LAYERS):
        drawn = Drawn(rng, *sizes)
        tensors |= {prefix.format(layer) + key: array for key, array in write(drawn, biased).items()}
        for norm in norms:
            tensors[f"{prefix.format(layer)}{norm}.weight"] = rng.uniform(0.5, 2, WIDTH)
            if kind in LAYER_NORMS:
                tensors[f"{prefix.format(layer)}{norm}.bias"] = rng.normal(size=WIDTH)
        if kind in ("qwen3", "gemma3", "gemma3_text"):
            for part in "qk":
                tensors[f"{prefix.format(layer)}self_attn.{part}_norm.weight"] = rng.uniform(0.5, 2, d_head)
    whole = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "max_position_embeddings": 32} | settings
    if kind == "bert":
        tensors["bert.embeddings.LayerNorm.weight"] = rng.uniform(0.5, 2, WIDTH)
        tensors["bert.embeddings.LayerNorm.bias"] = rng.normal(size=WIDTH)
    return Planted(whole | {"model_type": kind}, tensors, drawn.ranks(biased and not is_latent))


LAYER_NORMS = ("gpt2", "gpt_neox", "bert", "vit", "opt", "bloom", "falcon")
